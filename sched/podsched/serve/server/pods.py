"""Binds pods, evicts them and patches their statuses: the subresources of pods.

Guarantees: a fenced write succeeds only while the lock belongs to the writer's term. A pod is bound
at most once. An eviction and the update of its disruption budget are one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from weakref import WeakValueDictionary

from podsched.api.conditions import DISRUPTION_TARGET, TRUE, set_pod_condition
from podsched.api.disruption_budgets import needs_no_budget
from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.objects import Pod, PodCondition, timestamp
from podsched.api.validation.meta import validate_annotations, validate_labels
from podsched.api.validation.place import Place
from podsched.serve.server import errors
from podsched.serve.server.access.object_checks import check_own
from podsched.serve.server.access.rights import rights
from podsched.serve.server.bind_guard import BindGuard
from podsched.serve.server.binding import bind_step, check_conditions, status_step
from podsched.serve.server.budgets import budgets_of, more_than_one, spend
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.deletion import check_preconditions, deletion_step
from podsched.serve.server.entries import Entry
from podsched.serve.server.mutations import Mutation, Outcome, Step
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.protocol import Compare, Put
from podsched.v1.api_pb2 import Binding, EvictRequest, Fence, PodStatusPatch

POD, PDB, NODE = KINDS["Pod"], KINDS["PodDisruptionBudget"], KINDS["Node"]
#: Max attempts of an eviction while others change the pod or its disruption budget, as many as in
#: Kubernetes.
_EVICT_ATTEMPTS = 20
#: The condition that Kubernetes' eviction subresource sets.
EVICTED = PodCondition(
    type=DISRUPTION_TARGET,
    status=TRUE,
    reason="EvictionByEvictionAPI",
    message="Eviction API: evicting",
)


class PodOperations:
    """Binds and evicts pods, and patches their statuses."""

    def __init__(
        self,
        storage: ObjectStorage,
        cache: WatchCache,
        reflector: CacheReflector,
        guard: BindGuard,
        *,
        now: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._cache = cache
        self._reflector = reflector
        self._guard = guard
        self._now = now
        #: Held while a budget is spent, by its key.
        self._spending: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def bind(
        self, bindings: Sequence[Binding], fence: Fence | None, *, dry_run: bool = False
    ) -> list[Outcome]:
        """Bind pods to nodes, each independently; return each bound pod or its error.

        Raises ApiError if the store does not answer. Without a fence the caller needs the verb
        ``bindunfenced``.
        """
        now = timestamp(self._now(), whole=True)
        fenced = fence is not None
        if fence is not None and not dry_run:
            await self._guard.admit(fence)

        def mutation_of(binding: Binding) -> Mutation:
            _check_binding(binding, fenced=fenced)

            def change(entry: Entry) -> Step | None:
                step = bind_step(entry, binding, now, fenced=fenced)
                if step is None:
                    return None
                # Not before: a retry may have learned of another scheduler's lock.
                compares, ops = self._guard.conditions(binding, fence)
                return Step(step.value, compares, ops)

            refusal = partial(self._guard.refusal, binding, fence)
            return Mutation(POD, _key(binding.namespace, binding.name), change, refusal)

        planned = [errors.attempted(mutation_of, binding) for binding in bindings]
        return await self._storage.mutate_planned(planned, fence, dry_run=dry_run)

    async def bind_like_kubernetes(
        self,
        binding: Binding,
        labels: Mapping[str, str],
        *,
        version: str = "",
        dry_run: bool = False,
    ) -> Entry:
        """Bind a pod as Kubernetes' binding subresource does: the node need not exist.

        Kubernetes' schedulers have no fence, so none is required; podsched's own leaders notice
        these bindings (``bind_guard``). labels: added to those of the pod; version: the
        resourceVersion that the pod must have, "" for any. Raises ApiError.
        """
        _check_binding(binding)
        _check_labels(binding.name, labels)
        now = timestamp(self._now(), whole=True)
        if not dry_run:
            await self._guard.admit(None)
        if self._cache.get(NODE, binding.node_name) is None:
            # It may have just been created through another server.
            await self._reflector.wait_until_fresh()
        node_known = self._cache.get(NODE, binding.node_name) is not None

        def add_labels(pod: Pod) -> None:
            pod.metadata.labels.update(labels)

        def change(entry: Entry) -> Step | None:
            if version not in ("", current := str(entry.revision)):
                raise errors.precondition(POD, binding.name, "ResourceVersion", version, current)
            step = bind_step(entry, binding, now, fenced=False, add_metadata=add_labels)
            if step is None or not node_known:  # other schedulers do not use an unknown node
                return step
            compares, ops = self._guard.unlocked_conditions(binding.node_name)
            return step._replace(compares=compares, ops=ops)

        key = _key(binding.namespace, binding.name)
        mutation = Mutation(POD, key, change, self._guard.update_list)
        return await self._storage.mutate_one(mutation, None, dry_run=dry_run)

    async def patch_statuses(
        self, patches: Sequence[PodStatusPatch], fence: Fence | None, *, dry_run: bool = False
    ) -> list[Outcome]:
        """Set conditions and nominated nodes of pods, each independently."""
        now = timestamp(self._now(), whole=True)

        def mutation_of(patch: PodStatusPatch) -> Mutation:
            namespace, name = patch.namespace or DEFAULT_NAMESPACE, patch.name
            rights().check("patch", POD, namespace, name, "status")

            def change(entry: Entry) -> Step | None:
                check_own(entry)
                return status_step(entry, patch, now)

            return Mutation(POD, _key(namespace, name), change)

        planned = [errors.attempted(mutation_of, patch) for patch in patches]
        return await self._storage.mutate_planned(planned, fence, dry_run=dry_run)

    async def evict(
        self, requests: Sequence[EvictRequest], fence: Fence | None, *, dry_run: bool = False
    ) -> list[Outcome]:
        """Evict pods, each independently; return each pod or its error.

        Evictions that ignore disruption budgets share transactions. Others are made one by one,
        because two of them may need the same budget.
        """

        def plan_of(request: EvictRequest) -> Mutation | None:
            _check_eviction(request)
            if not request.ignore_disruption_budgets:
                return None
            return Mutation(POD, _key(request.namespace, request.name), self._eviction(request))

        planned = [errors.attempted(plan_of, request) for request in requests]
        known = [plan for plan in planned if plan is not None]
        done = iter(await self._storage.mutate_planned(known, fence, dry_run=dry_run))
        outcomes: list[Outcome] = []
        for plan, request in zip(planned, requests, strict=True):
            if plan is not None:
                outcomes.append(next(done))
            else:
                eviction = self._evict_within_budget(request, fence, dry_run=dry_run)
                outcomes.append(await errors.awaited(eviction))
        return outcomes

    def _eviction(
        self, request: EvictRequest, compares: tuple[Compare, ...] = (), ops: tuple[Put, ...] = ()
    ) -> Callable[[Entry], Step | None]:
        """Return the change that evicts a pod; compares, ops: those of its disruption budget."""
        asked = request.grace_period_seconds if request.HasField("grace_period_seconds") else None

        def change(entry: Entry) -> Step | None:
            check_own(entry)
            check_preconditions(entry, request.preconditions)
            pod = self._conditioned(entry, request)
            step = deletion_step(entry, asked, self._now(), message=pod)
            return step._replace(compares=compares, ops=ops) if step is not None else None

        return change

    def _conditioned(self, entry: Entry, request: EvictRequest) -> Pod | None:
        """Return the pod with the eviction's condition; None if the request has no condition.

        The deletion stores the condition with the same write and reuses the decoded pod: decoding
        it again took a third of an eviction's time.
        """
        if not request.HasField("condition"):
            return None
        pod = entry.decode()
        assert isinstance(pod, Pod)
        condition: PodCondition = request.condition
        check_conditions(request.name, [condition])
        set_pod_condition(pod.status, condition, timestamp(self._now(), whole=True))
        return pod

    async def _evict_within_budget(
        self, request: EvictRequest, fence: Fence | None, *, dry_run: bool
    ) -> Entry:
        """Evict a pod and update its budget, in one write. Raises ApiError."""
        key = _key(request.namespace, request.name)
        await self._reflector.wait_until_fresh()  # includes budgets that were just created
        async with self._turn(key):
            for _ in range(_EVICT_ATTEMPTS):
                # Both objects are read from etcd, and the write compares both versions: concurrent
                # evictions cannot spend the same disruption twice, and a pod that needs no budget
                # now is not evicted once it runs.
                base = await self._storage.get(POD, key)
                pod = base.message
                assert isinstance(pod, Pod)
                budgets = budgets_of(pod, self._cache.objects(PDB).values())
                compares: tuple[Compare, ...] = ()
                ops: tuple[Put, ...] = ()
                if budgets and not needs_no_budget(pod):
                    if len(budgets) > 1:
                        raise more_than_one()
                    budget = await self._storage.get(PDB, budgets[0].key)
                    if (spent := spend(budget, pod, self._now())) is not None:
                        budget_key = object_key(PDB, budget.key)
                        compares = (Compare.mod_revision_is(budget_key, budget.revision),)
                        ops = (Put(budget_key, spent.SerializeToString()),)
                eviction = Mutation(POD, key, self._eviction(request, compares, ops))
                if dry_run:
                    return await self._storage.mutate_one(eviction, fence, dry_run=True)
                done = await self._storage.change_from(base, eviction, fence)
                if done is not None:
                    return done
        raise errors.conflict(POD, request.name)

    def _turn(self, key: str) -> AbstractAsyncContextManager[None]:
        """Return what to hold during an eviction, so that others within the same budget wait.

        Each would otherwise fail the writes of all others, which would have to begin anew.
        """
        pod = self._cache.message(POD, key, Pod)
        budgets = budgets_of(pod, self._cache.objects(PDB).values()) if pod is not None else []
        if not budgets:
            return nullcontext()
        return self._spending.setdefault(budgets[0].key, asyncio.Lock())


def _check_binding(binding: Binding, *, fenced: bool = True) -> None:
    """Raise ApiError if a binding is invalid, or the caller may not make it."""
    namespace = binding.namespace or DEFAULT_NAMESPACE
    for verb in ("create",) if fenced else ("create", "bindunfenced"):
        rights().check(verb, POD, namespace, binding.name, "binding")
    # The wording of Kubernetes' ValidatePodBinding.
    at = Place()
    if at("target.name").present(binding.node_name):
        validate_annotations(at("metadata.annotations"), binding.annotations)
    at("revision").least(binding.revision)
    if at.errors:
        raise errors.invalid_fields(POD, binding.name, at.errors)


def _check_labels(name: str, labels: Mapping[str, str]) -> None:
    """Raise ApiError for labels of a binding with which no later change of the pod would be valid.

    Kubernetes stores them.
    """
    at = Place("metadata.labels")
    validate_labels(at, labels)
    if at.errors:
        raise errors.invalid_fields(POD, name, at.errors)


def _check_eviction(request: EvictRequest) -> None:
    """Raise ApiError if the caller may not evict a pod in this way."""
    namespace, name = request.namespace or DEFAULT_NAMESPACE, request.name
    own = rights()
    own.check("create", POD, namespace, name, "eviction")
    if request.ignore_disruption_budgets:
        own.check("delete", POD, namespace, name)
    if request.HasField("condition") and request.condition != EVICTED:
        own.check("patch", POD, namespace, name, "status")


def _key(namespace: str, name: str) -> str:
    return f"{namespace or DEFAULT_NAMESPACE}/{name}"
