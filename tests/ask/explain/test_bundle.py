"""What is packed of a decision, and that it is enough to make it again."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.manifest import to_manifest
from podsched.api.owners import add_controller
from podsched.api.private_fields import LAST_APPLIED
from podsched.ask.explain.anonymity import Renaming
from podsched.ask.explain.bundle import BadBundle, Bundle, read_bundle, scenario_of
from podsched.ask.simulation import simulate
from podsched.lib.bounded_text import MAX_VALUES
from podsched.registry import BUILT_IN
from podsched.v1 import objects_pb2 as v1
from support.changes_world import World, message, random_world
from support.device_objects import device_class, devices, resource_claim, user
from support.engine_world import node, pod
from support.examples import examples
from support.gangs import gang


def whole(world: World) -> dict[str, Any]:
    """The scenario with everything that the manifests have."""
    objects = [to_manifest(obj) for obj in (*world.nodes, *world.pods)]
    return {"id": "default/waits", "objects": objects, "pod": world.pending}


def packed(world: World) -> dict[str, Any]:
    return scenario_of([*world.nodes, *world.pods], message(world.pending), None)


@examples(12)
@given(st.integers(0, 1_000_000))
def test_what_is_packed_decides_as_the_whole_does(seed: int) -> None:
    world = random_world(seed)
    bundle = Bundle(packed(world), {}, {})
    again = read_bundle(bundle.to_bytes())
    expected = simulate(whole(world), BUILT_IN, changes=True)
    made = simulate(again.scenario, BUILT_IN, changes=True)
    for result in (expected, made):
        for change in result.get("changes", ()):
            change.pop("patch", None)  # has whatever else the pod's lists contain
    assert made == expected


def test_contents_of_containers_are_not_packed() -> None:
    told: Any = {"name": "TOKEN", "value": "s3cret"}
    container = {"name": "c", "image": "i", "args": ["--password=s3cret"], "env": [told]}
    secret = pod("p", {"containers": [container]}, annotations={"note": "s3cret"})
    running = pod("r", {"containers": [container], "nodeName": "a"})
    text = json.dumps(scenario_of([node("a"), running], secret, None))
    assert "s3cret" not in text
    assert "nodeName" in text


def test_a_decision_on_devices_is_packed_and_stays_with_other_names() -> None:
    driver = 'device.attributes["gpu.example.com"]'
    attributes = {"model": ["h100", "a100"]}
    memory = {"memory": {"value": "80Gi"}}
    slices = [devices(name, 2, attributes=attributes, capacity=memory) for name in ("a", "b")]
    asked = resource_claim("mine", f'{driver}.model == "h100"', match="gpu.example.com/model")
    used = resource_claim("used")
    result = used.status.allocation.devices.results.add(request="gpus", pool="a", device="gpu-0")
    result.driver = "gpu.example.com"
    objects = [node("a"), node("b"), device_class(), *slices, asked, used]
    scenario = scenario_of(objects, user("p", claim="mine"), None)
    made = simulate(scenario, BUILT_IN)
    assert made["feasible"] == ["b"]
    renaming = Renaming(scenario)
    anonymous = simulate(renaming.scenario(scenario), BUILT_IN)
    assert anonymous["feasible"] == [renaming.text("b")] != ["b"]


def test_what_a_volume_of_a_pod_tells_its_driver_is_not_packed() -> None:
    told = {"volumeAttributes": {"password": "s3cret"}, "nodePublishSecretRef": {"name": "s3cret"}}
    mounted: Any = {"name": "v", "csi": {"driver": "disk.csi.example.com", **told}}
    spec = {"containers": [{"name": "c"}], "volumes": [mounted]}
    text = json.dumps(scenario_of([pod("r", {**spec, "nodeName": "a"})], pod("p", spec), None))
    assert "s3cret" not in text
    assert "disk.csi.example.com" in text


def test_a_resize_that_is_infeasible_is_packed_and_stays_with_other_names() -> None:
    wanted = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    running = pod("r", {"containers": [wanted], "nodeName": "a"})
    running.status.container_statuses.add(name="c").resources.requests["cpu"] = "1"
    running.status.conditions.add(type="PodResizePending", status="True", reason="Infeasible")
    waits = pod("p", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
    scenario = scenario_of([node("a", allocatable={"cpu": "2", "pods": "9"}), running], waits, None)
    renaming = Renaming(scenario)
    assert simulate(scenario, BUILT_IN)["feasible"] == ["a"]
    anonymous = simulate(renaming.scenario(scenario), BUILT_IN)
    assert anonymous["feasible"] == [renaming.text("a")]


def test_parameters_of_storage_classes_are_not_packed() -> None:
    manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": {"note": "s3cret"}},
        "provisioner": "example.com/disk",
        "parameters": {"secret": "s3cret"},
    }
    text = json.dumps(scenario_of([message(manifest)], pod("p"), None))
    assert "s3cret" not in text
    assert "example.com/disk" in text


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_what_kubectl_has_applied_is_not_packed(kind: str) -> None:
    """It has everything that was left out of the manifest."""
    metadata = {"name": "db", "annotations": {LAST_APPLIED: '{"env": "s3cret"}'}}
    manifest = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata}
    text = json.dumps(scenario_of([message(manifest)], pod("p"), None))
    assert "s3cret" not in text


def test_a_bound_pod_is_packed_as_it_was_before_it_had_a_node() -> None:
    bound = pod("p", {"nodeName": "a", "containers": [{"name": "c"}]})
    scenario = scenario_of([node("a"), bound], bound, None)
    assert "nodeName" not in scenario["pod"]["spec"]
    assert [obj["kind"] for obj in scenario["objects"]] == ["Node"]


def test_the_claim_of_a_bound_pod_is_packed_without_its_devices() -> None:
    mine = resource_claim("mine")
    result = mine.status.allocation.devices.results.add(request="gpus", pool="a", device="gpu-0")
    result.driver = "gpu.example.com"
    mine.status.reserved_for.add(resource="pods", name="p", uid="uid-p")
    of_node = mine.status.allocation.node_selector.node_selector_terms.add().match_fields.add()
    of_node.key, of_node.operator = "metadata.name", "In"
    of_node.values.append("a")
    nodes = [node(name) for name in ("a", "b")]
    there = [*nodes, *(devices(name, 1) for name in ("a", "b")), device_class(), mine]
    for where, feasible in (("", ["a"]), ("a", ["a", "b"])):
        bound = user("p", claim="mine", nodeName=where)
        assert simulate(scenario_of([*there, bound], bound, None), BUILT_IN)["feasible"] == feasible


def test_a_member_of_a_pod_group_is_packed_with_its_group_and_stays_with_other_names() -> None:
    group, members = gang("train", 2, 2)
    group.spec.resource_claims.add(name="mine", resource_claim_template_name="one")
    shared = resource_claim("of-the-group")
    add_controller(shared.metadata, group)
    for member in members:
        member.spec.resource_claims.add(name="mine", resource_claim_template_name="one")
        member.status.resource_claim_statuses.add(name="mine", resource_claim_name="of-the-group")
    objects = [node("a"), devices("a", 1), device_class(), group, shared, *members]
    scenario = scenario_of(objects, members[0], None)
    renaming = Renaming(scenario)
    assert simulate(scenario, BUILT_IN)["feasible"] == ["a"]
    anonymous = simulate(renaming.scenario(scenario), BUILT_IN)
    assert anonymous["feasible"] == [renaming.text("a")]


@pytest.mark.parametrize("count", ["kueue.x-k8s.io/pod-group-total-count", "podsched.io/min-count"])
def test_a_member_of_a_group_in_labels_waits_in_a_bundle_too(count: str) -> None:
    marks = {"labels": {"kueue.x-k8s.io/pod-group-name": "train"}, "annotations": {count: "2"}}
    scenario = scenario_of([node("a")], pod("p", **marks), None)
    assert simulate(scenario, BUILT_IN)["outcome"] == "Gated"
    assert simulate(Renaming(scenario).scenario(scenario), BUILT_IN)["outcome"] == "Gated"


def test_parts_of_the_configuration_that_no_decision_reads_are_left_out() -> None:
    """Among them are paths of files, names of namespaces, and extenders with their passwords."""
    config = {
        "extenders": [{"urlPrefix": "http://u:s3cret@h/"}],
        "leaderElection": {"resourceNamespace": "s3cret"},
        "clientConnection": {"kubeconfig": "/home/s3cret/config"},
        "queues": {"resources": {"deviceClassMappings": [{"name": "s3cret"}]}},
        "parallelism": 3,
    }
    assert scenario_of([], v1.Pod(), config)["config"] == {"parallelism": 3}


def test_labels_that_are_called_as_fields_that_are_left_out_are_packed() -> None:
    labels = {"parameters": "a", "data": "b"}
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n", "labels": labels},
    }
    (packed,) = scenario_of([message(manifest)], pod("p"), None)["objects"]
    assert packed["metadata"]["labels"] == labels


def test_a_bundle_is_the_same_file_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle({"id": "x"}, {}, {"podsched": "1"})
    before = bundle.to_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert bundle.to_bytes() == before
    assert read_bundle(bundle.to_bytes()) == bundle


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"plain", "not gzipped JSON"),
        (gzip.compress(b"{", mtime=0), "not gzipped JSON"),
        (Bundle({}, {}, {}).to_bytes()[:-5], "its end is missing"),
        (gzip.compress(b"[]", mtime=0), '"bundle": 1'),
        (gzip.compress(b'{"bundle": 2}', mtime=0), '"bundle": 1'),
        (gzip.compress(b'{"bundle": 1, "scenario": 3, "result": {}}', mtime=0), "are objects"),
    ],
)
def test_what_is_no_bundle_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(BadBundle, match=why):
        read_bundle(content)


def test_a_bundle_of_too_many_values_is_refused_before_they_are_made() -> None:
    text = b'{"bundle": 1, "scenario": {"objects": [' + b"[]," * MAX_VALUES + b"0]}}"
    with pytest.raises(BadBundle, match="more than"):
        read_bundle(gzip.compress(text, 1))


def test_a_bundle_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(BadBundle, match="nested too deeply"):
        read_bundle(gzip.compress(b"[" * 1_000_000))


def test_a_bundle_that_is_larger_once_it_is_unpacked_is_refused() -> None:
    with pytest.raises(BadBundle, match="more than 256 MiB"):
        read_bundle(gzip.compress(bytes((256 << 20) + 1), 1))
