"""Moving pods of a running cluster one by one, each new place held before the old pod is evicted.

A *placeholder* is a pod that asks for what the moving pod asks for, of the same priority, and may
run on the new node alone; once the scheduler has bound it, the place is taken for everyone else::

    of a controller                            without one (--force)
    1 placeholder bound to the new node        1 the same
    2 pod evicted, if budgets permit           2 copy created under another name, nominated there
    3 controller creates the replacement       3 placeholder deleted, the copy is bound
    4 replacement nominated to the new node    4 old pod evicted, if budgets permit
    5 placeholder deleted, replacement bound

A nomination (``status.nominatedNodeName``) keeps the room from pods of no higher priority while the
placeholder goes. Whatever interrupts this, no pod is lost: one that was evicted is replaced by its
controller, and one without a controller has its copy first. What may be left is a placeholder,
whose room a replacement waits for; it ends when the longest move would have ended, and ``sched
delete pods -l`` with its label removes all of them.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any, NamedTuple

from podsched.api.conditions import is_finished
from podsched.api.objects import Pod
from podsched.api.quantity import format_quantity
from podsched.api.resources import CPU, requests_in_units
from podsched.client.api_client import ApiClient
from podsched.client.errors import ClientError, DisruptionBudget, NotFound
from podsched.engine.whatif.evacuation import replacement
from podsched.v1.api_pb2 import EvictRequest, Preconditions

LABEL, MANAGER = "app.kubernetes.io/managed-by", "sched-defragment"
#: Waits of a move for which its place is held, and seconds for the calls between them.
_WAITS, _CALLS = 4, 5.0
_IMAGE = "registry.k8s.io/pause:3.10"
_PAUSE = 0.1


class Stopped(Exception):
    """A step could not be made; the message says which and why. Nothing is lost by it."""


class Way(NamedTuple):
    """One pod to be moved, as the plan knew it."""

    namespace: str
    name: str
    uid: str
    from_node: str
    to_node: str


class Mover:
    """Moves pods through an API server; ``timeout`` is seconds for each single wait."""

    def __init__(self, client: ApiClient, timeout: float, tell: Callable[[str], object]) -> None:
        self._client = client
        self._timeout = timeout
        self._tell = tell

    async def move(self, way: Way) -> None:
        """Move one pod. Raises Stopped."""
        pod = await self.still_there(way)
        owner = next((o for o in pod.metadata.owner_references if o.controller), None)
        async with self._place_held(pod, way) as release:
            if owner is None:
                again, node = await self._copied(pod, way, release)
            else:
                known = await self._uids_of(way.namespace, owner.uid)
                await self._evict(pod)
                again = await self._replaced(way.namespace, owner, known)
                await self._nominate(way.namespace, again, way.to_node)
                await release()
                node = await self._bound(way.namespace, again, way.to_node)
        self._tell(f"pod/{way.name} moved from {way.from_node} to {node} as {again}")

    async def still_there(self, way: Way) -> Pod:
        """Return the pod as it is now. Raises Stopped if it is not the one that was planned for."""
        try:
            pod = await self._client.get("Pod", way.name, way.namespace)
        except NotFound:
            raise Stopped(f"pod/{way.name} is gone") from None
        assert isinstance(pod, Pod)
        if pod.metadata.uid != way.uid or pod.spec.node_name != way.from_node:
            raise Stopped(f"pod/{way.name} is another one, or on another node, than was planned")
        return pod

    async def nominate(self, namespace: str, name: str, node_name: str) -> None:
        """Have a waiting pod keep room on a node; "" ends that. Raises Stopped."""
        try:
            await self._nominate(namespace, name, node_name)
        except ClientError as error:
            raise Stopped(f"pod/{name}: {error}") from error

    async def wait_bound(self, namespace: str, name: str, node_name: str) -> str:
        """Return the node to which a waiting pod is bound. Raises Stopped."""
        return await self._bound(namespace, name, node_name)

    # ------------------------------------------------------------------ the place

    @asynccontextmanager
    async def _place_held(self, pod: Pod, way: Way) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Hold room for the pod on its new node until the block ends or releases it."""
        grace = float(pod.spec.termination_grace_period_seconds)
        holder = placeholder(pod, way.to_node, _WAITS * self._timeout + grace + _CALLS)
        try:
            await self._client.create(holder)
        except ClientError as error:
            raise Stopped(f"no place can be held on {way.to_node}: {error}") from error

        async def release() -> None:
            await self._delete(way.namespace, holder.metadata.name)

        try:
            try:
                await self._bound(way.namespace, holder.metadata.name, way.to_node)
            except Stopped:
                raise Stopped(
                    f"there is no room for pod/{way.name} on {way.to_node} any more"
                ) from None
            yield release
        finally:
            await release()

    async def _delete(self, namespace: str, name: str) -> None:
        try:
            await self._client.delete("Pod", name, namespace, grace_period_seconds=0)
        except NotFound:
            return

    async def _evict(self, pod: Pod) -> None:
        """Evict a pod as soon as budgets permit it, and wait until it is gone. Raises Stopped."""
        meta = pod.metadata
        request = EvictRequest(
            namespace=meta.namespace, name=meta.name, preconditions=Preconditions(uid=meta.uid)
        )

        refusal = ""

        async def permitted() -> bool:
            nonlocal refusal
            try:
                await self._client.evict(request)
            except DisruptionBudget as error:
                refusal = str(error)
                return False
            except NotFound:
                pass
            return True

        async def gone() -> bool:
            try:
                now = await self._client.get("Pod", meta.name, meta.namespace)
            except NotFound:
                return True
            return now.metadata.uid != meta.uid

        try:
            await self._until(permitted)
        except TimeoutError:
            raise Stopped(f"pod/{meta.name} stays: {refusal}") from None
        except ClientError as error:
            raise Stopped(f"pod/{meta.name} cannot be evicted: {error}") from error
        grace = float(pod.spec.termination_grace_period_seconds)
        try:
            await self._until(gone, grace)
        except TimeoutError:
            raise Stopped(f"pod/{meta.name} is still terminating") from None

    # ------------------------------------------------------------------ the replacement

    async def _copied(
        self, pod: Pod, way: Way, release: Callable[[], Awaitable[None]]
    ) -> tuple[str, str]:
        """Run a copy of a pod in its place; return its name and node. Raises Stopped."""
        again = await self._copy(pod, way.to_node)
        try:
            await release()
            node = await self._bound(way.namespace, again, way.to_node)
            await self._evict(pod)
        except Stopped:
            await self._delete(way.namespace, again)
            raise
        return again, node

    async def _copy(self, pod: Pod, node_name: str) -> str:
        """Create a pod like another one, under a name of its own. Raises Stopped."""
        fresh = replacement(pod)
        meta = fresh.metadata
        meta.name = f"{pod.metadata.name[:240]}-{secrets.token_hex(3)}"
        for name in ("uid", "resource_version", "generation", "creation_timestamp"):
            meta.ClearField(name)
        try:
            await self._client.create(fresh)
        except ClientError as error:
            raise Stopped(f"pod/{pod.metadata.name} cannot be copied: {error}") from error
        await self._nominate(pod.metadata.namespace, meta.name, node_name)
        return meta.name

    async def _uids_of(self, namespace: str, owner: str) -> set[str]:
        return {pod.metadata.uid for pod in await self._pods_of(namespace, owner)}

    async def _pods_of(self, namespace: str, owner: str) -> list[Any]:
        listing = await self._client.list("Pod", namespace)
        return [
            pod
            for pod in listing.items
            if any(o.controller and o.uid == owner for o in pod.metadata.owner_references)
        ]

    async def _replaced(self, namespace: str, owner: Any, known: set[str]) -> str:
        """Return the name of the pod that a controller has created since. Raises Stopped."""
        name = ""

        async def there() -> bool:
            nonlocal name
            for pod in await self._pods_of(namespace, owner.uid):
                if pod.metadata.uid not in known and not is_finished(pod):
                    name = pod.metadata.name
            return bool(name)

        try:
            await self._until(there)
        except TimeoutError:
            raise Stopped(
                f"{owner.kind}/{owner.name} has created no pod in the place of the evicted one"
            ) from None
        return name

    async def _nominate(self, namespace: str, name: str, node_name: str) -> None:
        status = {"status": {"nominatedNodeName": node_name or None}}
        try:
            await self._client.patch("Pod", name, status, namespace)
        except NotFound:
            raise Stopped(f"pod/{name} is gone") from None

    async def _bound(self, namespace: str, name: str, wanted: str) -> str:
        """Return the node that a pod gets. Raises Stopped if that takes too long."""
        node = ""

        async def has_node() -> bool:
            nonlocal node
            try:
                pod = await self._client.get("Pod", name, namespace)
            except NotFound:
                raise Stopped(f"pod/{name} is gone") from None
            assert isinstance(pod, Pod)
            node = pod.spec.node_name
            return bool(node)

        try:
            await self._until(has_node)
        except TimeoutError:
            raise Stopped(f"pod/{name} is not bound to {wanted}") from None
        return node

    async def _until(self, done: Callable[[], Awaitable[bool]], more: float = 0.0) -> None:
        """Ask again and again. Raises TimeoutError."""
        async with asyncio.timeout(self._timeout + more):
            while not await done():  # noqa: ASYNC110 - the server is asked, nobody tells
                await asyncio.sleep(_PAUSE)


def placeholder(pod: Pod, node_name: str, lifetime: float) -> Pod:
    """Return a pod that takes as much as another one of a single node, and does nothing.

    ``lifetime``: seconds after which a kubelet ends it, if nobody has deleted it.
    """
    held = Pod()
    meta, spec = held.metadata, held.spec
    meta.name = f"hold-{secrets.token_hex(5)}"
    meta.namespace = pod.metadata.namespace
    meta.labels[LABEL] = MANAGER
    spec.scheduler_name = pod.spec.scheduler_name
    spec.priority_class_name = pod.spec.priority_class_name
    spec.tolerations.extend(pod.spec.tolerations)
    spec.restart_policy = "Never"
    spec.termination_grace_period_seconds = 0
    spec.active_deadline_seconds = math.ceil(lifetime)
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    term = required.node_selector_terms.add()
    term.match_fields.add(key="metadata.name", operator="In", values=[node_name])
    container = spec.containers.add(name="hold", image=_IMAGE)
    for name, amount in requests_in_units(pod).items():
        if amount:
            text = format_quantity(Fraction(amount, 1000) if name == CPU else amount)
            container.resources.requests[name] = text
            if "/" in name:
                container.resources.limits[name] = text
    for other in pod.spec.containers:
        container.ports.extend(port for port in other.ports if port.host_port)
    return held
