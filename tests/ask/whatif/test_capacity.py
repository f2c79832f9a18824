"""How many more of a pod fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import Pod
from podsched.ask.whatif.capacity import Capacity, capacity
from podsched.ask.whatif.world import World
from support.device_objects import DRIVER, device_class, devices, resource_claim, template
from support.engine_world import container, pod
from support.examples import examples
from support.whatif_world import node, owned, world

MOST = 1000
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def wanted(cpu: str = "1", **spec: Any) -> Any:
    """A pod with a label that its own terms select."""
    return pod("more", {"containers": [container({"cpu": cpu})], **spec}, labels={"app": "more"})


def test_pods_fit_until_every_node_says_why_not() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    tainted = node("c", taints=[taint])
    made = world([node("a"), node("b"), tainted, owned("runs", "a", "1500m")])
    found = capacity(made, wanted(), MOST)
    assert found.by_node == {"a": 2, "b": 4}
    assert found.message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )
    assert [(one.plugin, one.nodes) for one in found.limits] == [
        ("NodeResourcesFit", 2),
        ("TaintToleration", 1),
    ]
    assert [one.key for one in made.pods()] == ["default/runs"], "nothing stays"


def test_a_pod_that_does_not_fit_at_all_has_no_capacity() -> None:
    found = capacity(world([node("a")]), wanted("9"), MOST)
    assert found.total == 0
    assert found.limits[0].reasons == ("Insufficient cpu",)


def in_turn(world: World, pod: Pod, most: int) -> Capacity:
    """The capacity if pods are scheduled one after another, although rows are independent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("podsched.ask.whatif.capacity._by_rows", lambda *_: None)
        return capacity(world, pod, most)


@pytest.mark.parametrize("counted", [capacity, in_turn])
def test_no_more_than_asked_for_are_looked_at(
    counted: Callable[[World, Pod, int], Capacity],
) -> None:
    found = counted(world([node("a"), node("b")]), wanted(), 3)
    assert (found.total, found.message) == (3, "")


def test_the_number_of_pods_of_a_node_is_a_bound_too() -> None:
    made = world([node("a", allocatable={"cpu": "100", "pods": "7"})])
    found = capacity(made, wanted("1m"), MOST)
    assert (found.total, found.limits[0].reasons) == (7, ("Too many pods",))


def test_pods_whose_order_matters_are_counted_up_to_a_limit() -> None:
    made = world([node(name, labels={HOSTNAME: name}) for name in "ab"])
    spread = wanted("1", topologySpreadConstraints=[SPREAD | {"topologyKey": HOSTNAME}])
    found = capacity(made, spread, in_turn=3)
    assert (found.total, found.message) == (3, "")
    assert capacity(made, wanted(), in_turn=3).total == 8


def test_a_node_with_room_for_more_than_a_million_is_not_filled_one_by_one() -> None:
    made = world([node("a", allocatable={"cpu": "10000", "pods": "3000000"})])
    placed: list[int] = []
    found = capacity(made, wanted("1m"), placed=placed.append)
    assert (found.total > 1_000_000, found.message, placed) == (True, "", [])


def test_nodes_are_filled_all_at_once_though_a_pod_is_nominated_to_one() -> None:
    preemptor = owned("preemptor", cpu="3")
    preemptor.status.nominated_node_name = "a"
    found = capacity(world([node("a"), node("b"), preemptor]), wanted(), in_turn=1)
    assert found.by_node == {"a": 1, "b": 4}


TERM = {"labelSelector": {"matchLabels": {"app": "more"}}}
SPREAD = TERM | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
ANTI = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM | {"topologyKey": ZONE}]}
SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"topologySpreadConstraints": [SPREAD | {"topologyKey": ZONE}]},
    {"topologySpreadConstraints": [SPREAD | {"topologyKey": HOSTNAME}]},
    {"affinity": {"podAntiAffinity": ANTI}},
    {"affinity": {"podAffinity": ANTI}},
    {"tolerations": [{"operator": "Exists"}]},
    {"containers": [container({"cpu": "500m"}, ports=[80])]},
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Nodes in zones, some cordoned or tainted, with pods on them."""
    objects: list[Any] = []
    for number in range(draw(st.integers(1, 5))):
        name = f"n{number}"
        allocatable = {
            "cpu": f"{draw(st.integers(0, 40)) * 100}m",
            "memory": f"{draw(st.integers(1, 6))}Gi",
            "pods": str(draw(st.integers(0, 12))),
        }
        labels = {HOSTNAME: name} | ({ZONE: f"z{draw(st.integers(0, 2))}"} if number else {})
        taint = {"key": "dedicated", "effect": "NoSchedule"}
        objects.append(
            node(
                name,
                labels=labels,
                allocatable=allocatable,
                unschedulable=draw(st.integers(0, 5)) == 0,
                taints=[taint] if draw(st.integers(0, 4)) == 0 else [],
            )
        )
        for index in range(draw(st.integers(0, 3))):
            owner = draw(st.sampled_from(("more", "other")))
            objects.append(owned(f"p{number}-{index}", name, "300m", owner=owner))
        if draw(st.integers(0, 2)) == 0:
            nominated = owned(f"nominated-{number}", cpu="500m")
            nominated.status.nominated_node_name = name
            objects.append(nominated)
    return objects


@given(
    objects=clusters(),
    spec=st.sampled_from(SPECS),
    cpu=st.sampled_from(("0", "100m", "700m")),
)
@examples(60)
def test_it_is_what_scheduling_one_by_one_comes_to(
    objects: list[Any], spec: dict[str, Any], cpu: str
) -> None:
    found = capacity(world(objects), wanted(cpu, **spec), MOST)
    plain = world(objects)
    counts: dict[str, int] = {}
    for number in range(MOST):
        one = wanted(cpu, **spec)
        one.metadata.name = one.metadata.uid = f"one-{number}"
        [outcome] = plain.schedule([plain.changes.submit(one)], preempt=False)
        if not outcome.node_name:
            break
        counts[outcome.node_name] = counts.get(outcome.node_name, 0) + 1
    assert found.by_node == counts
    assert found.message == outcome.message


@st.composite
def clusters_with_devices(draw: st.DrawFn) -> list[Any]:
    """Nodes with up to six devices of two models, some of them in use, and little cpu."""
    objects: list[Any] = [device_class(), template("some", count=draw(st.integers(1, 3)))]
    if draw(st.booleans()):
        wants = 'device.attributes["gpu.example.com"].model == "a"'
        objects[1] = template("some", wants, count=draw(st.integers(1, 2)))
    for number in range(draw(st.integers(1, 4))):
        name = f"n{number}"
        cpu = f"{draw(st.integers(0, 30)) * 100}m"
        objects.append(node(name, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"}))
        models = draw(st.lists(st.sampled_from("ab"), max_size=6))
        if not models:
            continue
        objects.append(devices(name, len(models), attributes={"gpu.example.com/model": models}))
        for index in range(draw(st.integers(0, len(models)))):
            used = resource_claim(f"used-{number}-{index}")
            result = used.status.allocation.devices.results.add(request="gpus")
            result.driver, result.pool, result.device = DRIVER, name, f"gpu-{index}"
            objects.append(used)
    return objects


@given(objects=clusters_with_devices(), cpu=st.sampled_from(("100m", "700m")))
@examples(40)
def test_pods_with_devices_of_their_own_are_counted_as_if_one_by_one(
    objects: list[Any], cpu: str
) -> None:
    asked = wanted(cpu)
    asked.spec.resource_claims.add(name="mine", resource_claim_template_name="some")
    one_by_one = in_turn(world(objects), asked, MOST)
    found = capacity(world(objects), asked, MOST)
    assert found.by_node == one_by_one.by_node
    assert found.message == one_by_one.message
    assert found.limits == one_by_one.limits


def test_nodes_with_devices_are_filled_all_at_once() -> None:
    placed: list[int] = []
    names = [f"n{number}" for number in range(40)]
    objects = [*map(node, names), *(devices(name, 8) for name in names)]
    asked = wanted("100m")
    asked.spec.resource_claims.add(name="mine", resource_claim_template_name="one")
    made = world([device_class(), template("one"), *objects])
    found = capacity(made, asked, MOST, placed=placed.append)
    assert (found.total, placed) == (320, [])
    assert not made.cluster.list("ResourceClaim"), "nothing stays"


def test_pods_that_share_a_claim_are_counted_on_the_nodes_that_reach_it() -> None:
    objects = [node("a"), node("b"), devices("a", 1), device_class(), resource_claim("shared")]
    asked = wanted("1")
    asked.spec.resource_claims.add(name="mine", resource_claim_name="shared")
    assert capacity(world(objects), asked, MOST).by_node == {"a": 4}


def test_on_a_copy_of_a_cluster_the_first_pod_is_counted_on_its_node_too() -> None:
    made = world([node("a"), node("b")])
    copied = World.on_copy(made._cache, made.profiles.runtimes)
    assert capacity(copied, wanted(), MOST).by_node == {"a": 4, "b": 4}
    assert in_turn(copied, wanted(), MOST).by_node == {"a": 4, "b": 4}
