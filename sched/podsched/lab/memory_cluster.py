"""A cluster in memory, and what the scheduler's writes do to its objects.

What a binding, an eviction, a patch or a deletion does to an object is computed by the API server's
own functions. Base of the cluster of tests (``testing.fake_cluster``) and of the cluster of replays
(``lab.replay.simulated_cluster``).

Not for production: nothing is validated or defaulted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from podsched.api.conditions import set_pod_condition
from podsched.api.disruption_budgets import needs_no_budget
from podsched.api.kinds import KINDS, find_kind
from podsched.api.objects import AnyObject, Pod, timestamp
from podsched.lab.memory_objects import (
    MemoryObjects,
    delete_object,
    key_of_name,
    patch_object,
    raised,
    results_of,
)
from podsched.serve.server import errors
from podsched.serve.server.binding import bind_step, status_step
from podsched.serve.server.budgets import budgets_of, spend
from podsched.serve.server.deletion import check_preconditions, deletion_step
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.storage import Outcome, Step
from podsched.v1 import api_pb2 as v1

T = TypeVar("T")


class MemoryCluster(MemoryObjects):
    """The reads and fenced writes of ``Cluster`` in memory; ``now`` gives Unix time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self._terms: dict[str, int] = {}

    def starts(self, pod: Pod) -> None:
        """Change a pod further in the write that binds it."""

    async def enter(self) -> None:
        """Run before each call of the scheduler; a subclass may raise ClientError."""
        await asyncio.sleep(0)

    def new_term(self, lock: str) -> v1.Fence:
        """Begin a new term of the lock: writes with the fences of earlier terms are refused."""
        self.revision += 1
        self._terms[lock] = self.revision
        return v1.Fence(lock=lock, term=self.revision)

    # ------------------------------------------------------------------ as in Cluster

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        await self.enter()
        return self.object(kind, key_of_name(find_kind(kind), namespace, name))

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._bind, bindings, fence)

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._evict, evictions, fence)

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._patch_status, patches, fence)

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(partial(patch_object, self), patches, fence)

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(partial(delete_object, self), deletions, fence)

    async def delete_collection(self, kind: str, namespace: str = "", *, fence: v1.Fence) -> int:
        await self.enter()
        raised(lambda: self._check(fence))
        found = [o for o in self.objects(kind) if o.metadata.namespace == namespace]
        for item in found:
            name = item.metadata.name
            delete_object(self, v1.DeleteRequest(kind=kind, namespace=namespace, name=name))
        return len(found)

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self.add, items, fence)

    async def _each(
        self, act: Callable[[T], Entry], items: Sequence[T], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Do something with each item by itself, if the fence holds."""
        await self.enter()

        def outcome(item: T) -> Outcome:
            try:
                self._check(fence)
                return act(item)
            except ApiError as error:
                return error

        return results_of([outcome(item) for item in items])

    def _check(self, fence: v1.Fence) -> None:
        if self._terms.get(fence.lock) != fence.term:
            raise errors.fence_lost(fence.lock, fence.term)

    def _bind(self, binding: v1.Binding) -> Entry:
        stamp = timestamp(self.now(), whole=True)

        def start(pod: Pod) -> None:
            self.entry(KINDS["Node"], binding.node_name)
            self.starts(pod)

        def change(entry: Entry) -> Step | None:
            return bind_step(entry, binding, stamp, fenced=True, add_metadata=start)

        return self.write(KINDS["Pod"], _pod_key(binding), change)

    def _patch_status(self, patch: v1.PodStatusPatch) -> Entry:
        stamp = timestamp(self.now(), whole=True)
        pod = KINDS["Pod"], _pod_key(patch)
        return self.write(*pod, lambda entry: status_step(entry, patch, stamp))

    def _evict(self, request: v1.EvictRequest) -> Entry:
        def change(entry: Entry) -> Step | None:
            check_preconditions(entry, request.preconditions)
            pod = entry.decode()
            assert isinstance(pod, Pod)
            if not request.ignore_disruption_budgets and not needs_no_budget(pod):
                for budget in budgets_of(pod, self.entries("PodDisruptionBudget")):
                    if (spent := spend(budget, pod, self.now())) is not None:
                        self.update(spent)
            if request.HasField("condition"):
                set_pod_condition(pod.status, request.condition, timestamp(self.now(), whole=True))
            has_grace = request.HasField("grace_period_seconds")
            grace = request.grace_period_seconds if has_grace else None
            return deletion_step(entry, grace, self.now(), message=pod)

        return self.write(KINDS["Pod"], _pod_key(request), change)


def _pod_key(about: v1.Binding | v1.PodStatusPatch | v1.EvictRequest) -> str:
    return f"{about.namespace or 'default'}/{about.name}"
