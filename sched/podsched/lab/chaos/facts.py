"""From what etcd stores to the facts of a history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from google.protobuf.message import DecodeError, Message

from podsched.api.conditions import (
    DISRUPTION_TARGET,
    TRUE,
    is_finished,
    is_node_ready,
    is_pod_ready,
    is_terminating,
    pod_condition,
)
from podsched.api.etcd_keys import OBJECTS, ROOT, TERMS, parse_object_key
from podsched.api.objects import (
    Event,
    Node,
    NodeAffinity,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
)
from podsched.api.quantity import parse
from podsched.api.resources import pod_requests
from podsched.api.tolerations import HARD_EFFECTS, NO_SCHEDULE, TAINT_UNSCHEDULABLE
from podsched.lab.chaos.records import (
    BudgetFact,
    Change,
    ClaimFact,
    NodeFact,
    NodeTermFact,
    PodFact,
    PreemptionFact,
)
from podsched.plugins.volumes.claims import READ_WRITE_ONCE_POD

_DEFAULT_SCHEDULER = "default-scheduler"
_PREEMPTED = "Preempted"
_PREEMPTED_BY = "Preempted by pod "


def change_of(key: str, value: bytes | None) -> Change:
    """Return what a history says of a key's new value; None: it was deleted."""
    short = key.removeprefix(OBJECTS if key.startswith(OBJECTS) else ROOT)
    if value is None:
        return Change(key=short, deleted=True)
    if key.startswith(TERMS):
        return Change(key=short, holder=value.decode(errors="replace"))
    parsed = parse_object_key(key)
    if parsed is None:
        return Change(key=short)
    try:
        message = parsed[0].message.FromString(value)
    except DecodeError:
        return Change(key=short)
    return Change(key=short, uid=message.metadata.uid, **_facts(message))


def _facts(message: Message) -> dict[str, Any]:
    match message:
        case Pod():
            return {"pod": _pod(message)}
        case Node():
            return {"node": _node(message)}
        case PersistentVolumeClaim():
            modes = message.spec.access_modes
            return {"claim": ClaimFact(exclusive=READ_WRITE_ONCE_POD in modes)}
        case PodDisruptionBudget():
            return {"budget": _budget(message)}
        case Event(reason=reason) if reason == _PREEMPTED:
            by, _, _ = message.message.removeprefix(_PREEMPTED_BY).partition(" ")
            victim = message.involved_object.uid
            return {"preemption": PreemptionFact(victim=victim, preemptor=by)}
    return {}


def _pod(pod: Pod) -> PodFact:
    condition = pod_condition(pod.status, DISRUPTION_TARGET)
    disrupted = condition is not None and condition.status == TRUE
    return PodFact(
        node=pod.spec.node_name,
        nominated=pod.status.nominated_node_name,
        priority=pod.spec.priority,
        requests=_exact({"pods": Fraction(1), **pod_requests(pod)}),
        ports=tuple(_host_ports(pod)),
        claims=tuple(
            volume.persistent_volume_claim.claim_name
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim.claim_name
        ),
        labels=dict(pod.metadata.labels),
        selector=dict(pod.spec.node_selector),
        affinity=_affinity(pod.spec.affinity.node_affinity),
        tolerations=tuple((t.key, t.operator, t.value, t.effect) for t in pod.spec.tolerations),
        gated=bool(pod.spec.scheduling_gates),
        plain=_is_plain(pod),
        ready=is_pod_ready(pod),
        finished=is_finished(pod),
        deleting=is_terminating(pod),
        disrupted=condition.reason if condition is not None and disrupted else "",
    )


def _affinity(affinity: NodeAffinity) -> tuple[NodeTermFact, ...] | None:
    name = "required_during_scheduling_ignored_during_execution"
    if not affinity.HasField(name):
        return None
    return tuple(
        NodeTermFact(
            expressions=tuple((e.key, e.operator, tuple(e.values)) for e in term.match_expressions),
            fields=tuple((e.key, e.operator, tuple(e.values)) for e in term.match_fields),
        )
        for term in getattr(affinity, name).node_selector_terms
    )


def _host_ports(pod: Pod) -> Iterable[tuple[str, str, int]]:
    for container in pod.spec.containers:
        for port in container.ports:
            if port.host_port:
                yield port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port


def _is_plain(pod: Pod) -> bool:
    spec = pod.spec
    constrained = spec.HasField("affinity") or spec.topology_spread_constraints or spec.volumes
    return not (constrained or spec.scheduling_gates or spec.scheduler_name != _DEFAULT_SCHEDULER)


def _node(node: Node) -> NodeFact:
    taints = tuple(_taints(node))
    return NodeFact(
        allocatable=_exact({name: parse(text) for name, text in node.status.allocatable.items()}),
        labels=dict(node.metadata.labels),
        taints=taints,
        open=is_node_ready(node.status) and not taints,
    )


def _taints(node: Node) -> Iterable[tuple[str, str, str]]:
    if node.spec.unschedulable:
        yield TAINT_UNSCHEDULABLE, "", NO_SCHEDULE
    for taint in node.spec.taints:
        if taint.effect in HARD_EFFECTS:
            yield taint.key, taint.value, taint.effect


def _budget(budget: PodDisruptionBudget) -> BudgetFact:
    status = budget.status
    return BudgetFact(
        match_labels=dict(budget.spec.selector.match_labels),
        desired=status.desired_healthy,
        allowed=status.disruptions_allowed,
        disrupted=tuple(sorted(status.disrupted_pods)),
    )


def _exact(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(Fraction(amount)) for name, amount in amounts.items() if amount}
