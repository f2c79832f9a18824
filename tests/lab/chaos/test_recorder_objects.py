"""What a history keeps of the objects in etcd."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.etcd_keys import OBJECTS, term_key
from podsched.api.manifest import from_manifest
from podsched.lab.chaos.recorder import change_of
from podsched.lab.chaos.records import Change, Revision, decode, encode


def stored(plural: str, kind: str, **fields: Any) -> Change:
    """The change of an object whose manifest has these fields."""
    metadata = {"name": "x", "uid": "u", **fields.pop("metadata", {})}
    versions = {"PodDisruptionBudget": "policy/v1", "ResourceClaim": "resource.k8s.io/v1"}
    manifest = {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": metadata}
    message = from_manifest({**manifest, **fields}).message
    return change_of(f"{OBJECTS}{plural}/default/x", message.SerializeToString())


def test_a_pod_is_kept_with_what_decides_where_it_may_be_and_no_more() -> None:
    container = {
        "name": "c",
        "image": "i",
        "command": ["secret"],
        "resources": {"requests": {"cpu": "100m"}},
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    }
    spec = {
        "containers": [container],
        "nodeName": "node-1",
        "priority": 7,
        "schedulerName": "default-scheduler",
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "schedulingGates": [{"name": "g"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        "terminationGracePeriodSeconds": 5,
    }
    preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    status = {
        "phase": "Running",
        "hostIP": "1.2.3.4",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "X"}, preempted],
    }
    metadata = {"labels": {"app": "web"}, "annotations": {"a": "b"}}
    change = stored("pods", "Pod", metadata=metadata, spec=spec, status=status)
    assert (change.key, change.uid) == ("pods/default/x", "u")
    pod = change.object
    assert dict(pod.metadata.labels) == {"app": "web"} and not pod.metadata.annotations
    [kept] = pod.spec.containers
    assert dict(kept.resources.requests) == {"cpu": "100m"} and not kept.command
    assert [port.host_port for port in kept.ports] == [8080]
    assert (pod.spec.node_name, pod.spec.priority) == ("node-1", 7)
    assert dict(pod.spec.node_selector) == {"zone": "a"}
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["g"]
    assert [toleration.key for toleration in pod.spec.tolerations] == ["k"]
    [volume] = pod.spec.volumes
    assert volume.persistent_volume_claim.claim_name == "data"
    assert (pod.status.phase, pod.status.host_ip) == ("Running", "")
    assert [(c.type, c.reason) for c in pod.status.conditions] == [
        ("Ready", ""),
        ("DisruptionTarget", "PreemptionByScheduler"),
    ]


def test_a_device_claim_is_kept_with_its_devices_and_its_users() -> None:
    device = {"request": "r", "driver": "gpu", "pool": "n1", "device": "gpu-0", "shareID": "s"}
    users = [{"resource": "pods", "name": "web", "uid": "1"}]
    status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": users}
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    claim = stored("resourceclaims", "ResourceClaim", spec=spec, status=status).object
    [kept] = claim.status.allocation.devices.results
    assert (kept.pool, kept.device, kept.share_id) == ("n1", "gpu-0", "s")
    assert [user.uid for user in claim.status.reserved_for] == ["1"]
    assert not claim.HasField("spec")


def test_a_node_is_kept_with_its_room_its_labels_and_what_keeps_pods_away() -> None:
    status = {
        "allocatable": {"cpu": "4"},
        "capacity": {"cpu": "5"},
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure"}],
    }
    taints = [{"key": "k", "effect": "NoSchedule"}]
    metadata = {"labels": {"zone": "a"}}
    spec = {"taints": taints, "unschedulable": True}
    node = stored("nodes", "Node", metadata=metadata, spec=spec, status=status).object
    assert dict(node.metadata.labels) == {"zone": "a"}
    assert dict(node.status.allocatable) == {"cpu": "4"} and not node.status.capacity
    assert [c.type for c in node.status.conditions] == ["Ready"]
    assert [taint.key for taint in node.spec.taints] == ["k"] and node.spec.unschedulable


def test_claims_budgets_and_events_of_preemptions_are_kept() -> None:
    claim = stored(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        spec={"accessModes": ["ReadWriteOncePod"], "volumeName": "v"},
    ).object
    assert list(claim.spec.access_modes) == ["ReadWriteOncePod"] and not claim.spec.volume_name
    budget = stored(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        spec={"selector": {"matchLabels": {"app": "web"}}},
        status={"desiredHealthy": 2, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}},
    ).object
    assert dict(budget.spec.selector.match_labels) == {"app": "web"}
    assert (budget.status.desired_healthy, list(budget.status.disrupted_pods)) == (2, ["web-1"])
    about = {"kind": "Pod", "uid": "victim"}
    event = stored("events", "Event", reason="Preempted", message="m", involvedObject=about).object
    assert (event.message, event.involved_object.uid) == ("m", "victim")


@pytest.mark.parametrize(("plural", "kind"), [("events", "Event"), ("configmaps", "ConfigMap")])
def test_of_other_objects_the_key_and_the_uid_are_kept(plural: str, kind: str) -> None:
    assert stored(plural, kind) == Change(key=f"{plural}/default/x", uid="u")


def test_a_kept_object_is_a_manifest_in_the_file() -> None:
    change = stored("pods", "Pod", spec={"containers": [{"name": "c"}], "nodeName": "n"})
    record = Revision(at=1.0, number=7, changes=(change,))
    line = encode(record)
    assert '"object":{"apiVersion":"v1","kind":"Pod"' in line
    assert decode(line) == record


def test_a_term_key_is_kept_with_its_holder_and_other_keys_by_name() -> None:
    assert change_of(term_key("ns/lock"), b"s0_1") == Change(key="terms/ns/lock", holder="s0_1")
    assert change_of("/podsched/sync", b"1") == Change(key="sync")
    assert change_of(f"{OBJECTS}pods/default/x", None) == Change(key="pods/default/x", deleted=True)


def test_what_cannot_be_decoded_is_kept_by_its_key() -> None:
    assert change_of(f"{OBJECTS}pods/default/x", b"\xff\xff") == Change(key="pods/default/x")
