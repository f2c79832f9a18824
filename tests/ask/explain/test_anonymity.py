"""Other names, the same decision."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.manifest import to_manifest
from podsched.ask.explain.anonymity import Renaming
from podsched.ask.explain.bundle import scenario_of
from podsched.ask.simulation import simulate
from podsched.config.load import default_config, to_plain
from podsched.registry import BUILT_IN
from support.changes_world import message, random_world
from support.device_objects import device_class, devices, resource_claim, user
from support.engine_world import World, node, pod
from support.examples import examples
from support.topology_world import TopologyWorld
from support.volume_world import claim, csi_node, storage_class, volume

Scenario = dict[str, Any]


def decision(scenario: Scenario, renaming: Renaming | None = None) -> tuple[Any, ...]:
    """What came out, with other names: of nodes, and of pods within keys."""

    def named(text: str) -> str:
        return renaming.text(text) if renaming is not None else text

    def key(text: str) -> str:
        return "/".join(named(part) for part in text.split("/"))

    result = simulate(scenario, BUILT_IN, changes=True)
    scores = result.get("score", {})
    preemption = result.get("preemption", {})
    return (
        result["outcome"],
        [(named(n), s["code"], s["plugin"]) for n, s in result.get("filter", {}).items()],
        [(named(n), s["total"], s["plugins"]) for n, s in scores.items()],
        [named(n) for n in result.get("best", ())],
        named(preemption.get("selected", "")),
        [key(victim) for victim in preemption.get("victims", ())],
        [
            (c["kind"], c["nodes"], c["cost"], [key_of(p, named) for p in c.get("pods", ())])
            for c in result.get("changes", ())
        ],
    )


def key_of(pod: Any, named: Any) -> str:
    return f"{named(pod['namespace'])}/{named(pod['name'])}"


def check(scenario: Scenario) -> Scenario:
    """Decide with and without other names; return the scenario with other names."""
    renaming = Renaming(scenario)
    other = renaming.scenario(scenario)
    assert decision(other) == decision(scenario, renaming)
    return other


@examples(12)
@given(st.integers(0, 1_000_000))
def test_a_decision_on_demands_of_all_kinds_stays(seed: int) -> None:
    world = random_world(seed)
    check(scenario_of([*world.nodes, *world.pods], message(world.pending), None))


@examples(8)
@given(st.integers(0, 1_000_000))
def test_a_decision_on_topology_stays(seed: int) -> None:
    world = TopologyWorld(seed)
    scene, pending = world.scene, world.random_pod()
    pending["metadata"].pop("deletionTimestamp", None)
    pods = []
    for manifest, on in scene.placed:
        placed: Any = message(manifest)
        placed.spec.node_name = on
        pods.append(placed)
    others = [message(service) for service in scene.services]
    others += [world.cluster.get("Namespace", "", name) for name in scene.namespaces]
    check(scenario_of([*map(message, scene.nodes), *pods, *others], message(pending), None))


@examples(8)
@given(st.integers(0, 1_000_000))
def test_a_decision_on_images_and_numbers_in_labels_stays(seed: int) -> None:
    world = World(seed)
    nodes = [world.cluster.columns.node(row) for row in world.cluster.columns.node_table.live_rows]
    check(scenario_of(nodes, pod("waits", world.random_spec()), None))


def test_no_name_chosen_by_a_user_is_left() -> None:
    spec = {
        "nodeName": "secret-node",
        "containers": [
            {
                "name": "secret-container",
                "image": "registry.secret.example/app",
                "resources": {"requests": {"secret.example/gpu": "1", "cpu": "1"}},
            }
        ],
        "nodeSelector": {"secret.example/pool": "secret-pool"},
        "tolerations": [{"key": "secret-key", "value": "secret-value"}],
        "schedulerName": "secret-scheduler",
        "priorityClassName": "secret-priority",
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "secret.example/rack",
                        "namespaces": ["secret-namespace"],
                        "labelSelector": {"matchLabels": {"secret-label": "secret-app"}},
                    }
                ]
            }
        },
    }
    owner = {
        "apiVersion": "secret.example/v1",
        "kind": "SecretJob",
        "name": "secret-job",
        "uid": "secret",
    }
    running = pod("secret-pod", spec, namespace="secret-namespace", ownerReferences=[owner])
    labels = {"kubernetes.io/hostname": "secret-node", "secret.example/rack": "secret-rack"}
    there = node(
        "secret-node", labels=labels, taints=[{"key": "secret-key", "effect": "NoSchedule"}]
    )
    scenario = scenario_of([there, running], pod("secret-pending", spec), None)
    scenario["config"] = {"profiles": [{"schedulerName": "secret-scheduler"}]}
    left = json.dumps(Renaming(scenario).scenario(scenario))
    assert not re.findall('secret[^"]*', left, re.IGNORECASE)
    assert '"kubernetes.io/hostname": "node-000001"' in left, "relations and known keys stay"
    assert '"nodeName": "node-000001"' in left


def test_the_claim_of_an_ephemeral_volume_keeps_the_name_of_its_pod_and_volume() -> None:
    volume: Any = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "web-0-data", "namespace": "default"},
    }
    waiting = pod("web-0", {"containers": [{"name": "c"}], "volumes": [volume]})
    scenario = scenario_of([message(claim)], waiting, None)
    other = Renaming(scenario).scenario(scenario)
    name, new = other["pod"]["metadata"]["name"], other["pod"]["spec"]["volumes"][0]["name"]
    assert name != "web-0"
    assert other["objects"][0]["metadata"]["name"] == f"{name}-{new}"


def test_the_node_of_an_allocated_claim_is_named_as_the_node_is() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["secret-node"]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": "default"},
        "status": {"allocation": {"nodeSelector": selector}},
    }
    scenario = scenario_of([node("secret-node")], pod("p"), None)
    scenario["objects"].append(claim)
    renaming = Renaming(scenario)
    allocation = renaming.scenario(scenario)["objects"][1]["status"]["allocation"]
    [term] = allocation["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [field | {"values": [renaming.text("secret-node")]}]}
    assert renaming.text("secret-node").startswith("node-")


def test_a_written_configuration_and_times_stay() -> None:
    config = to_plain(default_config())
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    there = to_manifest(node("a")) | {"status": {"conditions": [condition]}}
    scenario = scenario_of([], pod("p"), None) | {"objects": [there], "config": config}
    other = Renaming(scenario).scenario(scenario)
    assert other["config"] == config
    assert other["objects"][0]["status"]["conditions"] == [condition]


def test_nodes_keep_their_order() -> None:
    names = ["b", "zone-7", "a", "node-12", "node-2"]
    scenario = scenario_of([node(name) for name in names], pod("p"), None)
    renaming = Renaming(scenario)
    assert [renaming.text(n) for n in sorted(names)] == sorted(map(renaming.text, names))


@pytest.mark.parametrize(
    "word",
    [
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/x",
        "hugepages-2Mi",
        "ebs.csi.aws.com",
        "17",
    ],
)
def test_words_of_kubernetes_and_numbers_stay(word: str) -> None:
    scenario = {
        "objects": [to_manifest(node("a", labels={"k": word}))],
        "pod": to_manifest(pod("p")),
    }
    assert Renaming(scenario).text(word) == word


@pytest.mark.parametrize(
    "source",
    [
        {"csi": {"driver": "driver.longhorn.io", "volumeHandle": "h"}},
        {"portworxVolume": {"volumeID": "h"}},
    ],
)
def test_the_volumes_of_a_driver_are_counted_with_other_names(source: dict[str, Any]) -> None:
    driver = source.get("csi", {}).get("driver", "pxd.portworx.com")
    manifests = [
        csi_node("a", {driver: 0}, migrated="kubernetes.io/portworx-volume"),
        storage_class("fast", driver),
        volume("disk", storage_class="fast", phase="Bound", **source),
        claim("mine", storage_class="fast", volume="disk"),
    ]
    mounted = {"name": "v", "persistentVolumeClaim": {"claimName": "mine"}}
    waits = pod("p", {"volumes": [mounted]})
    scenario = scenario_of([node("a"), *map(message, manifests)], waits, None)
    assert decision(scenario)[1] == [("a", "Unschedulable", "NodeVolumeLimits")]
    check(scenario)


def test_an_image_volume_is_the_image_that_a_node_has() -> None:
    there = node("a", images=["app:1", "tiny:latest"])
    mounted = {"name": "v", "image": {"reference": "tiny"}}
    check(scenario_of([there, node("b")], pod("p", {"volumes": [mounted]}), None))


def test_consumed_capacities_of_devices_stay() -> None:
    shared = {"capacity": {"memory": {"value": "8Gi"}}, "allowMultipleAllocations": True}
    used = resource_claim("used")
    result = used.status.allocation.devices.results.add(request="gpus", pool="a", device="gpu-0")
    result.driver, result.share_id = "gpu.example.com", "secret"
    result.consumed_capacity["memory"] = "8Gi"
    asked = resource_claim("mine", capacity={"requests": {"memory": "1Gi"}})
    objects = [node("a"), device_class(), devices("a", 1, **shared), used, asked]
    scenario = scenario_of(objects, user("p", claim="mine"), None)
    assert decision(scenario)[0] == "Unschedulable"
    check(scenario)


def test_the_resource_of_a_device_class_is_named_as_the_class_is() -> None:
    resource = "deviceclass.resource.kubernetes.io/secret-gpu"
    wanted = {"name": "c", "resources": {"requests": {resource: "1"}}}
    objects = [node("a"), device_class("secret-gpu"), devices("a", 1)]
    scenario = scenario_of(objects, pod("p", {"containers": [wanted]}), None)
    assert "secret" not in json.dumps(check(scenario))


def test_lists_of_texts_stay_attributes_of_devices_as_single_texts_do() -> None:
    there = devices("a", 1)
    there.spec.devices[0].attributes["links"].string_values.extend(["p", "q"])
    scenario = scenario_of([there], pod("p"), None)
    (renamed,) = Renaming(scenario).scenario(scenario)["objects"]
    assert renamed["spec"]["devices"][0]["attributes"] == {"links": {"strings": ["p", "q"]}}


@pytest.mark.parametrize("host", ["secret.example/k8s.io", "secret.example/registry.k8s.io"])
def test_a_mirror_of_kubernetes_images_is_renamed(host: str) -> None:
    wanted = {"name": "c", "image": f"{host}/pause:3"}
    scenario = scenario_of([], pod("p", {"containers": [wanted]}), None)
    assert "secret" not in json.dumps(Renaming(scenario).scenario(scenario))


SECRETIVE: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "SecretProblem", "status": "True"}]},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"flexVolume": {"driver": "d", "options": {"secret": "x"}}},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {"dataSourceRef": {"apiGroup": "secret.io", "kind": "Secretive", "name": "s"}},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "a"},
        "status": {"attached": True, "attachmentMetadata": {"secret": "x"}},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "r", "namespace": "default"},
        "status": {"devices": [{"driver": "d", "pool": "p", "device": "d", "data": {"secret": 1}}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "running",
            "namespace": "default",
            "ownerReferences": [
                {"apiVersion": "secret.io/v1", "kind": "Job", "name": "j", "uid": "u"}
            ],
        },
    },
]


@pytest.mark.parametrize("manifest", SECRETIVE, ids=lambda manifest: manifest["kind"])
def test_no_field_tells_a_word_of_a_user(manifest: dict[str, Any]) -> None:
    """Not even one that holds words of Kubernetes, or whose maps have keys of the user's."""
    scenario = scenario_of([message(manifest)], pod("p"), None)
    left = json.dumps(Renaming(scenario).scenario(scenario))
    assert "secret" not in left.lower()


def test_what_restarts_a_pod_stays() -> None:
    """NodeDeclaredFeatures reads it."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    restarted = {"name": "c", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    scenario = scenario_of([node("a")], pod("p", {"containers": [restarted]}), None)
    assert decision(scenario)[1] == [("a", "UnschedulableAndUnresolvable", "NodeDeclaredFeatures")]
    check(scenario)
