"""Move pods of a running cluster one by one; room on the new node is reserved before the eviction.

A *placeholder* is a pod with the requests and priority of the moving pod that may run only on the
new node. Once the scheduler has bound it, the room is reserved. The table shows the pods that exist
after each step, and the pods that a move deletes if it fails there. If the process is killed, all
of them stay::

    pod with a controller        exist                                deleted on failure
    1 placeholder created        pod, placeholder                     placeholder
    2 placeholder bound          the same                             placeholder
    3 pod evicted                placeholder, later a replacement     placeholder
    4 replacement nominated      the same                             placeholder
    5 placeholder deleted        replacement                          nothing
    6 replacement bound          the same: moved

    pod that no controller replaces (--force)
    1, 2 as above
    3 copy created, gated        pod, placeholder, copy that waits    placeholder, copy
    4 copy nominated             the same                             placeholder, copy
    5 placeholder deleted        pod, copy that waits                 copy
    6 copy's gate opened         the same                             copy
    7 copy bound                 both run                             copy
    8 pod evicted                copy, pod for its grace period       nothing: the copy is the pod
    9 pod gone                   copy: moved

A nomination (``status.nominatedNodeName``) reserves the room against pods of the same or lower
priority while the placeholder is deleted. Until then a scheduling gate keeps the copy from being
bound elsewhere, and from preempting others. A controller's replacement has no gate.

Guarantee: no pod is lost. An evicted pod is replaced by its controller. A pod without a controller
is evicted only after a copy of it runs. The copy stays if the eviction *may* have happened, because
the answer of a call can be lost. Pods that could not be deleted are printed. If the process is
killed, placeholders stay: each ends by itself after the longest possible time of a move, and
``sched delete pods -l`` with their label deletes all of them. The name of a copy is printed as soon
as it exists.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from podsched.api.conditions import is_finished, is_terminating
from podsched.api.host_ports import host_ports
from podsched.api.objects import OwnerReference, Pod
from podsched.api.owners import SCALED_KINDS, controller_of, is_left_alone, owner_kind
from podsched.api.quantity import format_quantity
from podsched.api.resources import CPU, requests_in_units
from podsched.api.validation.resource_lists import may_overcommit
from podsched.ask.whatif.evacuation import replacement
from podsched.cli.drain import eviction
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import (
    ClientError,
    Compacted,
    DisruptionBudget,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from podsched.serve.client.object_watch import ChangeType, watch_objects

LABEL, MANAGER = "app.kubernetes.io/managed-by", "sched-defragment"
#: Number of waits of a move while its placeholder exists, and seconds for the calls between them.
_WAITS, _CALLS = 4, 5.0
_IMAGE = "registry.k8s.io/pause:3.10"
_GATE = "podsched.io/defragment"
#: Seconds after which an eviction that was refused is tried again.
_PAUSE = 1.0

#: The current pods of a namespace that match a selector, by name.
Pods = dict[str, Pod]


class Stopped(Exception):
    """A step of a move failed; the message says which and why. No pod is lost."""


class PodMove(NamedTuple):
    """A planned move of a pod."""

    namespace: str
    name: str
    uid: str
    from_node: str
    to_node: str


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves pods through an API server."""

    client: ApiClient
    timeout: float
    """Seconds for each single wait."""
    tell: Callable[[str], object]
    force: bool = False
    """Whether pods that no controller replaces are copied."""

    async def move(self, planned: PodMove) -> None:
        """Move one pod; after a failure, print what remains of it. Raises Stopped, ClientError."""
        move = _Move(self, planned, await self.still_there(planned))
        try:
            node, again = await move.run()
        finally:
            await move.clean_up()
        self.tell(f"pod/{planned.name} moved from {planned.from_node} to {node} as {again}")

    async def still_there(self, planned: PodMove) -> Pod:
        """Return the pod. Raises Stopped if it is gone, ends, is another, or on another node."""
        try:
            pod = await self.client.get("Pod", planned.name, planned.namespace)
        except NotFound:
            raise Stopped(f"pod/{planned.name} is gone") from None
        assert isinstance(pod, Pod)
        if pod.metadata.uid != planned.uid or pod.spec.node_name != planned.from_node:
            raise Stopped(f"pod/{planned.name} has been replaced or moved since the plan was made")
        if is_finished(pod) or is_terminating(pod):
            raise Stopped(f"pod/{planned.name} has ended or is being deleted")
        return pod

    async def replacing(self, pod: Pod) -> OwnerReference | None:
        """Return the owner whose controller replaces a pod; None: the pod must be copied.

        Raises Stopped without ``force`` if no controller processes the pod's owner.
        """
        owner = controller_of(pod.metadata)
        if owner is None or not await self._is_left_alone(owner, pod.metadata.namespace):
            return owner
        if self.force:
            return None
        raise Stopped(
            f"pod/{pod.metadata.name} belongs to {owner.kind}/{owner.name}, which has no "
            "controller that would replace it (--force moves it as a copy)"
        )

    async def _is_left_alone(self, owner: OwnerReference, namespace: str) -> bool:
        """Return whether no controller has processed an owner that podsched stores."""
        kind = owner_kind(owner)
        if kind is None or kind.name not in SCALED_KINDS:
            return False
        try:
            found = await self.client.get(kind.name, owner.name, namespace)
        except NotFound:
            return True
        return found.metadata.uid != owner.uid or is_left_alone(found)

    async def nominate(self, namespace: str, name: str, node_name: str) -> str:
        """Nominate a pod, "": no more; return the node to which it is bound, "" if it waits.

        Raises Stopped, ClientError.
        """
        status = {"status": {"nominatedNodeName": node_name or None}}
        try:
            pod = await self.client.patch("Pod", name, status, namespace)
        except NotFound:
            raise Stopped(f"pod/{name} is gone") from None
        except Invalid:
            # A scheduler may have bound it just now; such pods cannot be nominated.
            pod = await self.client.get("Pod", name, namespace)
            if not (isinstance(pod, Pod) and pod.spec.node_name):
                raise
        assert isinstance(pod, Pod)
        return str(pod.spec.node_name)

    async def bound(self, namespace: str, name: str, wanted: str) -> str:
        """Return the node that a pod gets. Raises Stopped if that takes too long."""
        one = self.pods(namespace, f"metadata.name={name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timeout), aclosing(one) as changes:
                async for pods in changes:
                    if name not in pods:
                        raise Stopped(f"pod/{name} is gone")
                    if node := pods[name].spec.node_name:
                        return str(node)
        raise Stopped(f"pod/{name} is not bound to {wanted}")

    async def pods(self, namespace: str, field_selector: str = "") -> AsyncGenerator[Pods, None]:
        """Yield the matching pods by name, now and after each change, without end."""
        while True:
            listing = await self.client.list("Pod", namespace, field_selector=field_selector)
            pods = {pod.metadata.name: pod for pod in listing.items if isinstance(pod, Pod)}
            yield pods
            changes = watch_objects(
                self.client,
                ["Pod"],
                namespace,
                field_selector=field_selector,
                from_revision=listing.revision,
            )
            try:
                async with aclosing(changes):
                    async for change in changes:
                        pods.pop(change.object.metadata.name, None)
                        if change.type is not ChangeType.DELETED:
                            assert isinstance(change.object, Pod)
                            pods[change.object.metadata.name] = change.object
                        yield pods
            except Compacted:
                continue


_MAYBE, _YES = "may have been evicted", "was evicted"


class _Move:
    """The move of one pod: its steps, and the objects that it has created."""

    def __init__(self, mover: Mover, planned: PodMove, pod: Pod) -> None:
        self._mover = mover
        self._client = mover.client
        self._planned = planned
        self._pod = pod
        self._grace = float(pod.spec.termination_grace_period_seconds)
        #: The pods that the move has created, or may have, by name, with a text about each.
        self._own: dict[str, str] = {}
        self._copy = ""
        #: Whether the pod was evicted: one of the texts above, "" for no.
        self._evicted = ""
        self._over = False

    async def run(self) -> tuple[str, str]:
        """Carry out the steps; return the pod's new node and name. Raises Stopped, ClientError."""
        owner = await self._mover.replacing(self._pod)
        await self._reserve_room()
        moved = await (self._copied() if owner is None else self._replaced(owner))
        self._over = True
        return moved

    async def clean_up(self) -> None:
        """Delete the pods that the move has created; print those that are left."""
        try:
            for name in [*self._own]:
                with suppress(ClientError):
                    await self._delete(name)
        finally:
            planned, tell = self._planned, self._mover.tell
            for name, what in self._own.items():
                delete = f"sched delete pod {name} -n {planned.namespace}"
                tell(f"pod/{name}, {what}, may be left: {delete}")
            if self._evicted and not self._over:
                copied = f"its copy pod/{self._copy} stays"
                then = copied if self._copy else "its controller replaces it"
                tell(f"pod/{planned.name} {self._evicted}: {then}")

    async def _create(self, pod: Pod, what: str, problem: str) -> None:
        """Create a pod for the move. Raises Stopped, ClientError."""
        name = pod.metadata.name
        self._own[name] = what  # Before the call: its answer may be lost.
        try:
            await self._client.create(pod)
        except ClientError as error:
            if not error.outcome_unknown:
                del self._own[name]
            if isinstance(error, Unavailable):
                raise
            raise Stopped(f"{problem}: {error}") from error

    async def _delete(self, name: str) -> None:
        """Delete a pod that the move has created. Raises ClientError."""
        with suppress(NotFound):
            await self._client.delete("Pod", name, self._planned.namespace, grace_period_seconds=0)
        self._own.pop(name, None)

    async def _reserve_room(self) -> None:
        """Reserve room for the pod on its new node. Raises Stopped, ClientError."""
        planned, mover = self._planned, self._mover
        lifetime = _WAITS * mover.timeout + self._grace + _CALLS
        holder = placeholder(self._pod, planned.to_node, lifetime)
        self._placeholder = name = holder.metadata.name
        what = f"which reserves room on {planned.to_node} and ends by itself in {lifetime:.0f} s"
        await self._create(holder, what, f"room cannot be reserved on {planned.to_node}")
        try:
            await mover.bound(planned.namespace, name, planned.to_node)
        except Stopped:
            message = f"{planned.to_node} has no room for pod/{planned.name} any more"
            raise Stopped(message) from None

    async def _copied(self) -> tuple[str, str]:
        """Run a copy of the pod on the new node. Raises Stopped, ClientError."""
        planned, mover = self._planned, self._mover
        fresh = replacement(self._pod)
        meta = fresh.metadata
        meta.name = f"{planned.name[:240]}-{secrets.token_hex(3)}"
        for name in ("uid", "resource_version", "generation", "creation_timestamp"):
            meta.ClearField(name)
        fresh.spec.scheduling_gates.add(name=_GATE)
        self._copy = meta.name
        mover.tell(f"pod/{planned.name} is copied as {meta.name}")
        what = f"the copy of pod/{planned.name}"
        await self._create(fresh, what, f"pod/{planned.name} cannot be copied")
        node = await self._placed(meta.name)
        await self._evict()
        await self._wait_until_gone()
        return node, meta.name

    async def _replaced(self, owner: OwnerReference) -> tuple[str, str]:
        """Evict the pod, and nominate its replacement. Raises Stopped, ClientError."""
        async with aclosing(self._mover.pods(self._planned.namespace)) as changes:
            known = {p.metadata.uid for p in _of_owner(await anext(changes), owner.uid)}
            await self._evict()
            await self._wait_until_gone()
            try:
                async with asyncio.timeout(self._mover.timeout):
                    again = await _new_pod(changes, owner.uid, known)
            except TimeoutError:
                message = f"{owner.kind}/{owner.name} has not replaced the evicted pod"
                raise Stopped(message) from None
        return await self._placed(again), again

    async def _placed(self, name: str) -> str:
        """Let a pending pod use the reserved room; return its node. Raises Stopped, ClientError."""
        planned, mover = self._planned, self._mover
        await mover.nominate(planned.namespace, name, planned.to_node)
        await self._delete(self._placeholder)
        if self._copy:
            opened = {"spec": {"schedulingGates": None}}
            await self._client.patch("Pod", name, opened, planned.namespace)
        return await mover.bound(planned.namespace, name, planned.to_node)

    async def _evict(self) -> None:
        """Evict the pod as soon as budgets permit it. Raises Stopped, ClientError."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._mover.timeout
        while (refusal := await self._refusal()) is not None:
            # A call is not cut off: nobody would know then whether the pod was evicted.
            if clock() + _PAUSE > until:
                raise Stopped(f"pod/{self._planned.name} {self._evicted or 'stays'}: {refusal}")
            await asyncio.sleep(_PAUSE)

    async def _refusal(self) -> ClientError | None:
        """Try to evict once; return the error after which to try again, None after success.

        Raises Stopped, ClientError.
        """
        meta = self._pod.metadata
        before, self._evicted = self._evicted, _MAYBE  # Before the call: its answer may be lost.
        own = self._own.pop(self._copy, "")
        try:
            await self._client.evict(eviction(self._pod))
        except (NotFound, PreconditionFailed):
            pass
        except OutcomeUnknown as error:
            return error
        except ClientError as error:
            self._evicted = before
            if own and not before:
                self._own[self._copy] = own
            if isinstance(error, DisruptionBudget):
                return error
            if isinstance(error, Unavailable):
                raise
            raise Stopped(f"pod/{meta.name} cannot be evicted: {error}") from error
        self._evicted = _YES
        return None

    async def _wait_until_gone(self) -> None:
        """Wait for the end of the evicted pod. Raises Stopped, ClientError."""
        planned, mover = self._planned, self._mover
        one = mover.pods(planned.namespace, f"metadata.name={planned.name}")
        try:
            async with asyncio.timeout(mover.timeout + self._grace), aclosing(one) as changes:
                async for pods in changes:
                    if planned.name not in pods or pods[planned.name].metadata.uid != planned.uid:
                        return
        except TimeoutError:
            message = (
                f"pod/{planned.name} was evicted and is still terminating on {planned.from_node}"
            )
            raise Stopped(message) from None


def _of_owner(pods: Pods, owner: str) -> list[Pod]:
    """Return the pods of a controller."""
    of = ((pod, controller_of(pod.metadata)) for pod in pods.values())
    return [pod for pod, controller in of if controller is not None and controller.uid == owner]


async def _new_pod(changes: AsyncGenerator[Pods, None], owner: str, known: set[str]) -> str:
    """Return the name of the first new pod of a controller."""
    async for pods in changes:
        for pod in _of_owner(pods, owner):
            if pod.metadata.uid not in known and not is_finished(pod):
                return str(pod.metadata.name)
    raise AssertionError("changes are endless")


def placeholder(pod: Pod, node_name: str, lifetime: float) -> Pod:
    """Return a pod that does nothing, with the requests of another pod, for one node.

    ``lifetime``: seconds after which the kubelet ends it, unless it is deleted before.
    """
    held = Pod()
    meta, spec = held.metadata, held.spec
    meta.name = f"hold-{secrets.token_hex(5)}"
    meta.namespace = pod.metadata.namespace
    meta.labels[LABEL] = MANAGER
    spec.scheduler_name = pod.spec.scheduler_name
    spec.priority_class_name = pod.spec.priority_class_name
    spec.tolerations.extend(pod.spec.tolerations)
    spec.node_selector.update(pod.spec.node_selector)
    spec.restart_policy = "Never"
    spec.termination_grace_period_seconds = 0
    spec.active_deadline_seconds = math.ceil(lifetime)
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    own = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    required.CopyFrom(own)
    for term in required.node_selector_terms or [required.node_selector_terms.add()]:
        term.match_fields.add(key="metadata.name", operator="In", values=[node_name])
    container = spec.containers.add(name="hold", image=_IMAGE)
    for name, amount in requests_in_units(pod).items():
        if amount:
            text = format_quantity(Fraction(amount, 1000) if name == CPU else amount)
            container.resources.requests[name] = text
            if not may_overcommit(name):
                container.resources.limits[name] = text
    for address, protocol, port in host_ports(pod.spec):
        # Without their names, which only each container's own ports must not share.
        container.ports.add(container_port=port, host_port=port, host_ip=address, protocol=protocol)
    return held
