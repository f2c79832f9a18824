"""The status of DeviceTaintRules: the condition EvictionInProgress.

Source: maybeUpdateRuleStatus of Kubernetes 1.36 (pkg/controller/devicetainteviction).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from podsched.api.codec import write
from podsched.api.conditions import FALSE, TRUE
from podsched.api.objects import Condition, DeviceTaintRule, timestamp
from podsched.api.tolerations import NO_EXECUTE
from podsched.serve.client.cluster import object_patch
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


def condition_of(rule: DeviceTaintRule) -> Condition | None:
    """Return the present condition EvictionInProgress."""
    return next((of for of in rule.status.conditions if of.type == _IN_PROGRESS), None)


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
    before = condition_of(rule)
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
