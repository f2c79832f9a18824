"""A cluster in memory as commands see it, whose calls can fail, and those who live in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any

from podsched.api.kinds import find_kind
from podsched.api.objects import AnyObject, Pod, ReplicaSet, object_key
from podsched.serve.client.api_client import Listing
from podsched.serve.client.errors import Forbidden, OutcomeUnknown, Unavailable, of_result
from podsched.serve.server.patching import patched
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchResponse
from support.api_objects import LOCK

#: Seconds after which the scheduler, controllers and kubelets have noticed something.
_NOTICED = 0.25


class Fault(Enum):
    """What becomes of one call."""

    UNAVAILABLE = "no server answers, and nothing is done"
    LOST = "the answer is lost, and nothing is done"
    LOST_BUT_DONE = "the answer is lost, but it is done"
    CANCELLED = "Ctrl-C before anything is done"
    CANCELLED_BUT_DONE = "Ctrl-C before the answer comes, and it is done"
    UNAVAILABLE_FOR_GOOD = "no server answers any more"
    KILLED = "the process is killed before anything is done"


class CommandClient:
    """The calls of an ``ApiClient`` that commands use, on a ``FakeCluster``."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.calls: list[str] = []
        """Every call so far, such as "create Pod web-0"."""
        self.faults: dict[int, Fault] = {}
        """What becomes of the call of this number, from 0."""
        self.forbidden: set[str] = set()
        """Kinds that the caller has no right to."""
        self._fence = cluster.new_term(LOCK)

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        async with self._call(f"get {kind} {name}"):
            return await self.cluster.get(kind, name, namespace)

    async def list(
        self, kind: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """What of a namespace has one label; field selectors are those of names and nodes."""
        label, _, wanted = label_selector.partition("=")
        field, _, value = field_selector.partition("=")
        paths = {"metadata.name": "metadata.name", "spec.nodeName": "spec.node_name"}
        async with self._call(f"list {kind} {field_selector}".rstrip()):
            items = [
                item
                for item in self.cluster.objects(kind)
                if namespace in ("", item.metadata.namespace)
                and (not label or item.metadata.labels.get(label) == wanted)
                and (not field or _value(item, paths[field]) == value)
            ]
            return Listing(items, self.cluster.revision)

    async def watch_stream(self, request: v1.WatchRequest) -> AsyncIterator[RawWatchResponse]:
        self.calls.append(f"watch {' '.join(request.kinds)} {request.field_selector}".rstrip())
        async for response in self.cluster.watch_stream(request):
            yield response

    async def create(self, item: AnyObject, *, dry_run: bool = False) -> AnyObject:
        async with self._call(f"create {find_kind(type(item).__name__).name} {item.metadata.name}"):
            return item if dry_run else self.cluster.create(item)

    async def delete(
        self, kind: str, name: str, namespace: str = "", *, grace_period_seconds: int | None = None
    ) -> AnyObject:
        request = v1.DeleteRequest(kind=kind, namespace=namespace, name=name)
        async with self._call(f"delete {kind} {name}"):
            _raise(await self.cluster.delete_many([request], fence=self._fence))
            return Pod()

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        strategic: bool = False,
        dry_run: bool = False,
    ) -> AnyObject:
        way = v1.STRATEGIC_MERGE_PATCH if strategic else v1.JSON_MERGE_PATCH
        text = json.dumps(patch).encode()
        request = v1.PatchRequest(
            kind=kind, namespace=namespace, name=name, merge_patch=text, type=way
        )
        request.resource_version = int(patch.get("metadata", {}).get("resourceVersion", 0))
        async with self._call(f"patch {kind} {name}"):
            if dry_run:
                return patched(await self.cluster.get(kind, name, namespace), patch, way)
            _raise(await self.cluster.patch_many([request], fence=self._fence))
            return await self.cluster.get(kind, name, namespace)

    async def evict(self, request: v1.EvictRequest) -> Pod:
        async with self._call(f"evict {request.name}"):
            if not request.dry_run:
                _raise(await self.cluster.evict_pods([request], fence=self._fence))
            return Pod()

    @asynccontextmanager
    async def _call(self, what: str) -> AsyncIterator[None]:
        number = len(self.calls)
        self.calls.append(what)
        if (kind := what.split()[1]) in self.forbidden:
            raise Forbidden(f"you may not use {kind}")
        fault = self.faults.get(number)
        for since, lasting in self.faults.items():
            if since <= number and lasting in (Fault.UNAVAILABLE_FOR_GOOD, Fault.KILLED):
                fault = lasting
        if fault is Fault.KILLED:
            await asyncio.Event().wait()
        if fault in (Fault.UNAVAILABLE, Fault.UNAVAILABLE_FOR_GOOD):
            raise Unavailable("connection refused")
        if fault is Fault.LOST:
            raise OutcomeUnknown("the connection broke")
        if fault is Fault.CANCELLED:
            _cancel()
            await asyncio.sleep(0)
        yield
        if fault is Fault.LOST_BUT_DONE:
            raise OutcomeUnknown("the connection broke")
        if fault is Fault.CANCELLED_BUT_DONE:
            _cancel()
            await asyncio.sleep(0)


def replica_set(name: str, uid: str, *, controlled: bool = True) -> ReplicaSet:
    """A ReplicaSet; controlled: its controller has looked at it."""
    made = ReplicaSet()
    made.metadata.name, made.metadata.namespace, made.metadata.uid = name, "default", uid
    made.status.observed_generation = int(controlled)
    return made


def _cancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def _raise(results: Sequence[v1.BatchResult]) -> None:
    error = of_result(results[0])
    if error is not None:
        raise error


def _value(item: AnyObject, path: str) -> Any:
    value: Any = item
    for name in path.split("."):
        value = getattr(value, name)
    return value


class Inhabitants:
    """A scheduler, a controller and kubelets that take their time."""

    def __init__(self, cluster: FakeCluster, *, elsewhere: str = "elsewhere") -> None:
        self.cluster = cluster
        self.elsewhere = elsewhere
        """The node of pods that ask for none."""
        self.stuck = False
        """Whether terminating pods never end."""
        self.replaces = True
        self._seen: dict[str, Pod] = {}

    def _pods(self) -> list[Pod]:
        return [pod for pod in self.cluster.objects("Pod") if isinstance(pod, Pod)]

    def settle(self) -> None:
        """Bind what waits, end what terminates, replace what a controller has lost."""
        for pod in self._pods():
            if pod.metadata.HasField("deletion_timestamp"):
                if not self.stuck:
                    self.cluster.delete("Pod", object_key(pod))
            elif self._waits(pod) and (node := self._node_of(pod)):
                pod.spec.node_name = node
                pod.status.phase = "Running"
                self.cluster.update(pod)
        there = {pod.metadata.uid: pod for pod in self._pods()}
        for uid, pod in self._seen.items():
            if uid not in there and self.replaces and pod.metadata.owner_references:
                self._replace(pod)
        self._seen = {pod.metadata.uid: pod for pod in self._pods()}

    @staticmethod
    def _waits(pod: Pod) -> bool:
        return not (pod.spec.node_name or pod.spec.scheduling_gates)

    def _node_of(self, pod: Pod) -> str:
        """The node of a pod: a place that is held is no other pod's."""
        required = (
            pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        )
        if required.node_selector_terms:
            return str(required.node_selector_terms[0].match_fields[0].values[0])
        wanted = pod.status.nominated_node_name
        held = any(
            p.metadata.name.startswith("hold-") and p.spec.node_name == wanted for p in self._pods()
        )
        if wanted:
            return "" if held else wanted
        return self.elsewhere

    def _replace(self, pod: Pod) -> None:
        fresh = Pod()
        fresh.CopyFrom(pod)
        fresh.metadata.name = f"{pod.metadata.name}-new"
        fresh.metadata.uid = ""
        fresh.metadata.ClearField("deletion_timestamp")
        fresh.spec.node_name = ""
        fresh.ClearField("status")
        self.cluster.create(fresh)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """While the block runs."""
        self.settle()

        async def work() -> None:
            while True:
                await asyncio.sleep(_NOTICED)
                self.settle()

        task = asyncio.create_task(work())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
