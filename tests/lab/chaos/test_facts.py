"""What a history keeps of the objects in etcd."""

from __future__ import annotations

from typing import Any

from podsched.api.etcd_keys import OBJECTS, term_key
from podsched.api.manifest import from_manifest
from podsched.lab.chaos.facts import change_of
from podsched.lab.chaos.records import (
    BudgetFact,
    Change,
    ClaimFact,
    NodeTermFact,
    PodFact,
    PreemptionFact,
)


def fact_of(plural: str, kind: str, **fields: Any) -> Change:
    """The change of an object whose manifest has these fields."""
    metadata = {"name": "x", "uid": "u", **fields.pop("metadata", {})}
    versions = {"PodDisruptionBudget": "policy/v1"}
    manifest = {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": metadata}
    message = from_manifest({**manifest, **fields}).message
    return change_of(f"{OBJECTS}{plural}/default/x", message.SerializeToString())


def test_a_pod_is_kept_as_what_decides_where_it_may_be() -> None:
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": "100m"}},
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    }
    spec = {
        "containers": [container],
        "nodeName": "node-1",
        "priority": 7,
        "schedulerName": "default-scheduler",
    }
    status = {
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        ]
    }
    change = fact_of("pods", "Pod", metadata={"labels": {"app": "web"}}, spec=spec, status=status)
    assert change == Change(
        key="pods/default/x",
        uid="u",
        pod=PodFact(
            node="node-1",
            priority=7,
            requests={"cpu": "1/10", "pods": "1"},
            ports=(("0.0.0.0", "TCP", 8080),),
            labels={"app": "web"},
            ready=True,
            disrupted="PreemptionByScheduler",
        ),
    )


def test_a_pod_with_a_claim_is_not_plain() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "c"}],
        "volumes": [volume],
    }
    pod = fact_of("pods", "Pod", spec=spec).pod
    assert pod is not None
    assert (pod.claims, pod.plain) == (("data",), False)


def test_a_node_is_open_while_it_is_ready_schedulable_and_without_taints() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    taints = [{"key": "k", "effect": "NoSchedule"}]

    def is_open(**fields: Any) -> bool:
        node = fact_of("nodes", "Node", **fields).node
        assert node is not None
        return node.open

    assert is_open(status=ready)
    assert not is_open()
    assert not is_open(status=ready, spec={"unschedulable": True})
    assert not is_open(status=ready, spec={"taints": taints})


def test_of_taints_those_are_kept_that_keep_pods_away() -> None:
    taints = [
        {"key": "k", "value": "v", "effect": "NoSchedule"},
        {"key": "later", "effect": "PreferNoSchedule"},
        {"key": "out", "effect": "NoExecute"},
    ]
    node = fact_of("nodes", "Node", spec={"taints": taints, "unschedulable": True}).node
    assert node is not None
    assert node.taints == (
        ("node.kubernetes.io/unschedulable", "", "NoSchedule"),
        ("k", "v", "NoSchedule"),
        ("out", "", "NoExecute"),
    )


def test_a_pod_is_kept_with_what_nodes_must_be_and_what_it_tolerates() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    terms = [{"matchExpressions": [zone], "matchFields": [name]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "containers": [{"name": "c"}],
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        "schedulingGates": [{"name": "g"}],
    }
    pod = fact_of("pods", "Pod", spec=spec).pod
    assert pod is not None
    term = NodeTermFact(
        expressions=(("zone", "In", ("a", "b")),),
        fields=(("metadata.name", "In", ("node-1",)),),
    )
    assert pod.affinity == (term,)
    assert pod.tolerations == (("k", "Equal", "v", "NoSchedule"),)
    assert pod.gated


def test_a_pod_that_only_prefers_nodes_requires_none() -> None:
    preference = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    preferred = [{"weight": 1, "preference": preference}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    pod = fact_of("pods", "Pod", spec={"containers": [{"name": "c"}], "affinity": affinity}).pod
    assert pod is not None
    assert pod.affinity is None


def test_an_exclusive_claim_is_known_by_its_access_mode() -> None:
    change = fact_of(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        spec={"accessModes": ["ReadWriteOncePod"]},
    )
    assert change.claim == ClaimFact(exclusive=True)


def test_a_budget_is_kept_with_the_evictions_that_it_has_counted() -> None:
    change = fact_of(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        spec={"selector": {"matchLabels": {"app": "web"}}},
        status={"desiredHealthy": 2, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}},
    )
    assert change.budget == BudgetFact(match_labels={"app": "web"}, desired=2, disrupted=("web-1",))


def test_the_event_of_a_preemption_names_victim_and_preemptor() -> None:
    change = fact_of(
        "events",
        "Event",
        reason="Preempted",
        message="Preempted by pod abc on node node-1",
        involvedObject={"kind": "Pod", "uid": "victim"},
    )
    assert change.preemption == PreemptionFact(victim="victim", preemptor="abc")


def test_a_term_key_is_kept_with_its_holder_and_other_keys_by_name() -> None:
    assert change_of(term_key("ns/lock"), b"s0_1") == Change(key="terms/ns/lock", holder="s0_1")
    assert change_of("/podsched/sync", b"1") == Change(key="sync")
    assert change_of(f"{OBJECTS}pods/default/x", None) == Change(key="pods/default/x", deleted=True)


def test_what_cannot_be_decoded_is_kept_by_its_key() -> None:
    assert change_of(f"{OBJECTS}pods/default/x", b"\xff\xff") == Change(key="pods/default/x")
