"""Evict pods that use a device with a NoExecute taint which their request does not tolerate.

ResourceSlices and DeviceTaintRules add such taints. A pod is evicted when the taint is added, or
tolerationSeconds later, at the same time under every leader. Only pods for which an allocated claim
is reserved are evicted. A rule's status has the number of pods that it evicts. Source:
pkg/controller/devicetainteviction of Kubernetes 1.36; as there, a toleration delays an eviction
only if it names the effect NoExecute.

    a slice, rule, claim or pod changes  -->  pods to examine  -->  ``TimedEvictions``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import cast

from podsched.api.conditions import is_terminating
from podsched.api.device_claims import claim_names, is_claim_for, is_reserved_for
from podsched.api.device_taints import rule_matches
from podsched.api.objects import (
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Taint,
    copy_of,
    seconds_of,
)
from podsched.api.tolerations import NO_EXECUTE, tolerates
from podsched.lib.due_times import earliest
from podsched.lib.groups import Groups
from podsched.serve.client.informer import Event
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller, Instant, Objects
from podsched.term.controllers.device_taint_status import (
    NONE,
    PERIOD,
    Effects,
    condition_of,
    new_condition,
    status_patch,
)
from podsched.term.controllers.timed_evictions import Meters, Notices, TimedEvictions
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

RULE = "DeviceTaintRule"
_CLAIM, _SLICE = "ResourceClaim", "ResourceSlice"
_NOTICES = Notices(
    reason="DeletionByDeviceTaintManager",
    message="Device Taint manager: deleting due to NoExecute taint",
    event="DeviceTaintManagerEviction",
    marking="Marking for deletion",
    cancelling="Cancelling deletion",
    controller="device-taint-eviction-controller",
)
#: Max pods that one round of work looks at: about 10 ms.
_MOST_PODS = 500

#: Driver and name of a pool.
_PoolKey = tuple[str, str]
#: The NoExecute taints of a pool's devices, by the devices' names.
_Taints = dict[str, list[Taint]]


def leaving_time(taint: Taint, result: DeviceRequestAllocationResult) -> float | None:
    """Return the Unix time at which a NoExecute taint of a device evicts; None for never."""
    limits: list[int] = []
    for toleration in result.tolerations:
        if toleration.effect == NO_EXECUTE and tolerates(toleration, taint):
            if not toleration.HasField("toleration_seconds"):
                return None
            limits.append(max(0, toleration.toleration_seconds))
    return seconds_of(taint.time_added) + min(limits, default=0)


class DeviceTaintEvictionController(Controller):
    """Evicts pods from tainted devices, and writes the status of DeviceTaintRules."""

    name = "device-taint-eviction"
    kinds = (_SLICE, _CLAIM, RULE, "Pod")

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        recorder: EventRecorder,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        super().__init__(objects, writes)
        meters = None
        if metrics is not None:
            total = metrics.device_pod_deletions_total
            meters = Meters(total, metrics.device_pod_deletion_duration_seconds)
        self._evictions = TimedEvictions(objects, writes, recorder, _NOTICES, meters)
        self._slices = Groups[_PoolKey, str, None]()
        self._taints: dict[_PoolKey, _Taints] = {}
        """Only pools with tainted devices."""
        #: The claims that have devices of a pool.
        self._users = Groups[_PoolKey, str, None]()
        self._changed_pools = WorkQueue[_PoolKey]()
        self._changed_claims = WorkQueue[str]()
        self._changed_pods = WorkQueue[str]()
        self._causes: dict[str, frozenset[str]] = {}
        """The uids of the rules that evict a pod, by the pod's key."""
        self._evicted: Counter[str] = Counter()
        """How many pods each rule has evicted in this term, by the rule's uid."""
        self._status_due: dict[str, float] = {}
        """Unix time at which a rule's status is written next."""

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == "Pod":
            old, new = cast(Pod | None, event.old), cast(Pod | None, event.new)
            self._note_pod(event.key, old, new, now)
        elif event.kind == RULE:
            former = cast(DeviceTaintRule | None, event.old)
            self._note_rule(event.key, former, cast(DeviceTaintRule | None, event.new), now)
        else:
            for item in (event.old, event.new):
                if isinstance(item, ResourceSlice):
                    self._note_slice(event.key, item, is_there=item is event.new)
                elif isinstance(item, ResourceClaim):
                    self._note_claim(event.key, item, is_there=item is event.new)

    def _note_pod(self, key: str, old: Pod | None, new: Pod | None, now: Instant) -> None:
        if new is None or is_terminating(new):
            forget = self._evictions.forget if new is None else self._evictions.forget_terminating
            causes = self._causes.pop(key, frozenset())
            if forget(key):
                self._evicted.update(causes)
                self._update_statuses(causes, now)
        if new is None or not (_has_claims(new) or _has_claims(old)):
            return
        if old is None or not _is_used_equally(old, new):
            self._changed_pods.add(key)

    def _note_slice(self, key: str, piece: ResourceSlice, *, is_there: bool) -> None:
        pool = (piece.spec.driver, piece.spec.pool.name)
        if is_there:
            self._slices.put(pool, key, None)
        else:
            self._slices.drop(pool, key)
        self._changed_pools.add(pool)

    def _note_claim(self, key: str, claim: ResourceClaim, *, is_there: bool) -> None:
        for pool in {(of.driver, of.pool) for of in claim.status.allocation.devices.results}:
            if is_there:
                self._users.put(pool, key, None)
            else:
                self._users.drop(pool, key)
        # Called with the old claim, too, for pods that it was reserved for.
        self._changed_pods.update(_consumers(claim))

    def _note_rule(
        self, key: str, old: DeviceTaintRule | None, new: DeviceTaintRule | None, now: Instant
    ) -> None:
        is_same = old is not None and new is not None and old.metadata.uid == new.metadata.uid
        if is_same and old is not None and new is not None and old.spec == new.spec:
            return
        for rule in (old, new):
            if rule is not None:
                for pool in self._pools_of_rule(rule):
                    self._changed_claims.update(self._users.of(pool))
        self._status_due.pop(key, None)
        if new is not None:
            self._status_due[key] = now.wall
        if old is not None and not is_same:
            self._evicted.pop(old.metadata.uid, None)

    # ------------------------------------------------------------------ scheduling evictions

    def work(self, now: Instant) -> float | None:
        """Examine the pods that a change concerns, and evict the pods whose time has come."""
        self._look_at_pools()
        self._look_at_claims()
        # Before the evictions, so that a rule's status announces them.
        status_due = self._write_statuses(now)
        for key in self._changed_pods.take(_MOST_PODS):
            with self._writes.skipping("Pod", key):
                self._look_at_pod(key, now)
        rest = now.monotonic if self._changed_pods else None
        return earliest(rest, status_due, self._evictions.work(now))

    def _look_at_pools(self) -> None:
        for pool in self._changed_pools.take():
            taints = self._taints_of_pool(pool)
            if taints == self._taints.get(pool, {}):
                continue
            self._taints.pop(pool, None)
            if taints:
                self._taints[pool] = taints
            self._changed_claims.update(self._users.of(pool))

    def _taints_of_pool(self, pool: _PoolKey) -> _Taints:
        found: _Taints = {}
        for piece in self._newest_slices(pool):
            for device in piece.spec.devices:
                if taints := [taint for taint in device.taints if taint.effect == NO_EXECUTE]:
                    found.setdefault(device.name, taints)
        return found

    def _newest_slices(self, pool: _PoolKey) -> list[ResourceSlice]:
        there = [self._objects.get(_SLICE, name) for name in self._slices.of(pool)]
        slices = [piece for piece in there if isinstance(piece, ResourceSlice)]
        newest = max((piece.spec.pool.generation for piece in slices), default=0)
        return [piece for piece in slices if piece.spec.pool.generation == newest]

    def _look_at_claims(self) -> None:
        for key in self._changed_claims.take():
            claim = self._objects.get(_CLAIM, key)
            if isinstance(claim, ResourceClaim):
                self._changed_pods.update(_consumers(claim))

    def _look_at_pod(self, key: str, now: Instant) -> None:
        pod = self._objects.get("Pod", key)
        if not isinstance(pod, Pod) or is_terminating(pod):
            return
        times: list[float] = []
        causes: set[str] = set()
        for claim in self._claims_of(key, pod):
            for result in claim.status.allocation.devices.results:
                for taint, rule in self._evicting_taints(result):
                    if (at := leaving_time(taint, result)) is not None:
                        times.append(at)
                        causes.update(() if rule is None else (rule.metadata.uid,))
        if not times:
            self._causes.pop(key, None)
            self._evictions.cancel(key, pod)
            return
        self._causes[key] = frozenset(causes)
        self._update_statuses(causes, now)
        self._evictions.schedule(key, pod, min(times))

    def _claims_of(self, key: str, pod: Pod) -> Iterator[ResourceClaim]:
        """Yield the claims that a bound pod uses."""
        if not pod.spec.node_name:
            return
        for ref, name in claim_names(pod):
            claim = self._objects.get(_CLAIM, f"{pod.metadata.namespace}/{name}")
            if not isinstance(claim, ResourceClaim) or not is_reserved_for(pod, claim):
                continue
            if ref.resource_claim_name or is_claim_for(pod, claim):
                yield claim

    def _evicting_taints(
        self, result: DeviceRequestAllocationResult
    ) -> Iterator[tuple[Taint, DeviceTaintRule | None]]:
        devices = self._taints.get((result.driver, result.pool), {})
        for taint in devices.get(result.device, ()):
            yield taint, None
        for rule in self._evicting_rules():
            if rule_matches(rule, result.driver, result.pool, result.device):
                yield rule.spec.taint, rule

    def _evicting_rules(self) -> Iterator[DeviceTaintRule]:
        for rule in self._objects.objects(RULE).values():
            if isinstance(rule, DeviceTaintRule) and rule.spec.taint.effect == NO_EXECUTE:
                yield rule

    # ------------------------------------------------------------------ the status of rules

    def _update_statuses(self, uids: Collection[str], now: Instant) -> None:
        """Write the statuses of rules after PERIOD, so that one write covers many pods."""
        for rule in self._evicting_rules():
            if rule.metadata.uid in uids:
                self._status_due.setdefault(rule.metadata.name, now.wall + PERIOD)

    def _write_statuses(self, now: Instant) -> float | None:
        for name, at in list(self._status_due.items()):
            if at <= now.wall:
                del self._status_due[name]
                with self._writes.skipping(RULE, name):
                    self._write_status(name, now)
        due = earliest(*self._status_due.values())
        return None if due is None else now.monotonic + max(0.0, due - now.wall)

    def _write_status(self, name: str, now: Instant) -> None:
        rule = self._objects.get(RULE, name)
        if not isinstance(rule, DeviceTaintRule):
            return
        before = condition_of(rule)
        if before is not None and before.observed_generation == rule.metadata.generation:
            written = seconds_of(before.last_transition_time)
            if now.wall - written < PERIOD:
                self._status_due[name] = written + PERIOD
                return
        effects = self._effects(rule)
        condition = new_condition(rule, effects, self._evicted[rule.metadata.uid], now.wall)
        if condition is not None:
            patch = status_patch(rule, condition)
            self._writes.send(name, patch, partial(self._status_due.update, {name: 0.0}))

    def _effects(self, rule: DeviceTaintRule) -> Effects:
        """Count what a rule selects, and the pods that it evicts or would evict."""
        if rule.spec.taint.effect not in (NO_EXECUTE, NONE):
            return Effects()
        pods: set[str] = set()
        allocated = 0
        for pool in self._pools_of_rule(rule):
            for key in self._users.of(pool):
                claim = self._objects.get(_CLAIM, key)
                if isinstance(claim, ResourceClaim):
                    results = _selected(rule, pool, claim)
                    allocated += len(results)
                    if any(leaving_time(_evicting(rule), of) is not None for of in results):
                        pods.update(self._bound_consumers(claim))
        published = 0
        if rule.spec.taint.effect == NONE:
            published = sum(
                rule_matches(rule, *pool, device.name)
                for pool in self._slices
                if rule_matches(rule, *pool, rule.spec.device_selector.device)
                for piece in self._newest_slices(pool)
                for device in piece.spec.devices
            )
        namespaces = {key.partition("/")[0] for key in pods}
        return Effects(published, allocated, len(pods), len(namespaces))

    def _bound_consumers(self, claim: ResourceClaim) -> Iterator[str]:
        for key in _consumers(claim):
            pod = self._objects.get("Pod", key)
            if not isinstance(pod, Pod) or is_terminating(pod):
                continue
            if any(of is claim for of in self._claims_of(key, pod)):
                yield key

    def _pools_of_rule(self, rule: DeviceTaintRule) -> list[_PoolKey]:
        """Return the pools with allocated devices of which a rule may select some."""
        any_device = rule.spec.device_selector.device
        return [pool for pool in self._users if rule_matches(rule, *pool, any_device)]


def _consumers(claim: ResourceClaim) -> Iterator[str]:
    """Yield the keys of the pods that a claim is reserved for."""
    for consumer in claim.status.reserved_for:
        if not consumer.api_group and consumer.resource == "pods":
            yield f"{claim.metadata.namespace}/{consumer.name}"


def _selected(
    rule: DeviceTaintRule, pool: _PoolKey, claim: ResourceClaim
) -> list[DeviceRequestAllocationResult]:
    return [
        result
        for result in claim.status.allocation.devices.results
        if (result.driver, result.pool) == pool and rule_matches(rule, *pool, result.device)
    ]


def _evicting(rule: DeviceTaintRule) -> Taint:
    """Return the taint of a rule as if its effect were NoExecute."""
    taint = copy_of(rule.spec.taint)
    taint.effect = NO_EXECUTE
    return taint


def _has_claims(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.resource_claims)


def _is_used_equally(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod are on the same node with the same claims."""
    return (
        old.metadata.uid == new.metadata.uid
        and old.spec.node_name == new.spec.node_name
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
    )
