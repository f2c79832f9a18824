"""The status of DeviceTaintRules: the condition EvictionInProgress.

Source: maybeUpdateRuleStatus of Kubernetes 1.36 (pkg/controller/devicetainteviction).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final, NamedTuple

from podsched.api.codec import write
from podsched.api.conditions import FALSE, TRUE, condition_of, is_terminating
from podsched.api.device_taints import rule_matches
from podsched.api.objects import (
    Condition,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    Pod,
    ResourceClaim,
    Taint,
    copy_of,
    seconds_of,
    timestamp,
)
from podsched.api.tolerations import NO_EXECUTE, tolerates
from podsched.lib.due_times import DueTimes
from podsched.serve.client.cluster import object_patch
from podsched.term.controllers.controller import Instant, Objects, find
from podsched.term.controllers.device_pools import (
    DevicePools,
    PoolKey,
    claims_of,
    evicting_rules,
)
from podsched.term.controllers.write_queues import Writes
from podsched.v1.api_pb2 import PatchRequest

#: The effect of rules that evict nothing; their status has the pods that they would evict.
NONE: Final = "None"
#: Min seconds between two writes of a rule's status.
PERIOD: Final = 10.0
_IN_PROGRESS = "EvictionInProgress"


class Effects(NamedTuple):
    """The devices that a rule selects, published and allocated, and the pods that it evicts."""

    published: int = 0
    allocated: int = 0
    pods: int = 0
    namespaces: int = 0


class RuleStatuses:
    """Writes the statuses of all rules in this term."""

    def __init__(self, objects: Objects, writes: Writes, pools: DevicePools) -> None:
        self._objects = objects
        self._writes = writes
        self._pools = pools
        self._evicted: Counter[str] = Counter()
        """How many pods each rule has evicted in this term, by the rule's uid."""
        #: The Unix times at which the statuses of rules are written next.
        self._due = DueTimes()

    def note_rule(
        self, key: str, old: DeviceTaintRule | None, new: DeviceTaintRule | None, now: Instant
    ) -> None:
        """Note a rule that is new, has changed or is gone."""
        if new is None:
            self._due.discard(key)
        else:
            self._due.set(key, now.wall)
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._evicted.pop(old.metadata.uid, None)

    def note_eviction(self, rules: Collection[str], now: Instant) -> None:
        """Count a pod that rules have evicted; ``rules``: their uids."""
        self._evicted.update(rules)
        self.announce(rules, now)

    def announce(self, rules: Collection[str], now: Instant) -> None:
        """Write the statuses of rules after PERIOD, so that one write covers many pods."""
        for rule in evicting_rules(self._objects):
            if rule.metadata.uid in rules:
                self._due.advance(rule.metadata.name, now.wall + PERIOD)

    def work(self, now: Instant) -> float | None:
        """Write the statuses that are due; return when the next one is (monotonic)."""
        for name, _ in self._due.pop_due(now.wall):
            with self._writes.skipping("DeviceTaintRule", name):
                self._write(name, now)
        due = self._due.next_time()
        return None if due is None else now.monotonic + max(0.0, due - now.wall)

    def _write(self, name: str, now: Instant) -> None:
        rule = find(self._objects, DeviceTaintRule, name)
        if rule is None:
            return
        before = condition_of(rule.status, _IN_PROGRESS)
        if before is not None and before.observed_generation == rule.metadata.generation:
            written = seconds_of(before.last_transition_time)
            if now.wall - written < PERIOD:
                self._due.set(name, written + PERIOD)
                return
        effects = self._effects(rule)
        condition = new_condition(rule, effects, self._evicted[rule.metadata.uid], now.wall)
        if condition is not None:
            patch = status_patch(rule, condition)
            self._writes.send(name, patch, partial(self._due.set, name, 0.0))

    def _effects(self, rule: DeviceTaintRule) -> Effects:
        """Count what a rule selects, and the pods that it evicts or would evict."""
        effect = rule.spec.taint.effect
        if effect not in (NO_EXECUTE, NONE):
            return Effects()
        pods: set[str] = set()
        allocated = 0
        for pool in self._pools.allocated_to(rule):
            for key in self._pools.users.of(pool):
                claim = find(self._objects, ResourceClaim, key)
                if claim is not None:
                    results = _selected(rule, pool, claim)
                    allocated += len(results)
                    if any(leaving_time(_evicting(rule), of) is not None for of in results):
                        pods.update(self._bound_consumers(claim))
        published = self._pools.published(rule) if effect == NONE else 0
        namespaces = {key.partition("/")[0] for key in pods}
        return Effects(published, allocated, len(pods), len(namespaces))

    def _bound_consumers(self, claim: ResourceClaim) -> Iterator[str]:
        for key in self._pools.consumers_of(claim):
            pod = find(self._objects, Pod, key)
            if pod is None or is_terminating(pod):
                continue
            if any(of is claim for of in claims_of(self._objects, pod)):
                yield key


def _selected(
    rule: DeviceTaintRule, pool: PoolKey, claim: ResourceClaim
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


def leaving_time(taint: Taint, result: DeviceRequestAllocationResult) -> float | None:
    """Return the Unix time at which a NoExecute taint of a device evicts; None for never."""
    limits: list[int] = []
    for toleration in result.tolerations:
        if toleration.effect == NO_EXECUTE and tolerates(toleration, taint):
            if not toleration.HasField("toleration_seconds"):
                return None
            limits.append(max(0, toleration.toleration_seconds))
    return seconds_of(taint.time_added) + min(limits, default=0)


def new_condition(
    rule: DeviceTaintRule, effects: Effects, evicted: int, now: float
) -> Condition | None:
    """Return the condition as it should be; None if it is so already.

    ``evicted``: how many pods the rule has evicted in this term; ``now``: Unix time in seconds.
    """
    status, reason, message = _state(rule.spec.taint.effect, effects, evicted)
    if evicted:
        message = f"{message} {_number(evicted, 'pod')} evicted since starting the controller."
    made = Condition(
        type=_IN_PROGRESS,
        status=status,
        reason=reason,
        message=message.strip(),
        observed_generation=rule.metadata.generation,
    )
    before = condition_of(rule.status, _IN_PROGRESS)
    if before is not None:
        made.last_transition_time.CopyFrom(before.last_transition_time)
        if made == before:
            return None
    made.last_transition_time.CopyFrom(timestamp(now, whole=True))
    return made


def _state(effect: str, effects: Effects, evicted: int) -> tuple[str, str, str]:
    if effect == NO_EXECUTE:
        if not effects.pods:
            return FALSE, "Completed" if evicted else "NotStarted", ""
        need = "needs" if effects.pods == 1 else "need"
        pods = f"{_number(effects.pods, 'pod')} {need} to be evicted"
        return TRUE, "PodsPendingEviction", f"{pods} in {_namespaces(effects)}."
    if effect == NONE:
        return (
            FALSE,
            "NoEffect",
            f"{_number(effects.published, 'published device')} selected. "
            f"{_number(effects.allocated, 'allocated device')} selected. "
            f"{_number(effects.pods, 'pod')} would be evicted in {_namespaces(effects)} "
            "if the effect was NoExecute. This information will not be updated again. "
            "Recreate the DeviceTaintRule to trigger an update.",
        )
    return FALSE, "OtherEffect", "Eviction only happens for the NoExecute effect."


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _namespaces(effects: Effects) -> str:
    if effects.namespaces == 1:
        return "1 namespace"
    return f"{effects.namespaces} different namespaces"


def status_patch(rule: DeviceTaintRule, condition: Condition) -> PatchRequest:
    """Return the patch that sets a rule's condition."""
    others = [of for of in rule.status.conditions if of.type != _IN_PROGRESS]
    conditions = [write(of) for of in (*others, condition)]
    return object_patch(rule, {"status": {"conditions": conditions}})
