from __future__ import annotations

import pytest

from podsched.api.conditions import condition_of
from podsched.api.objects import Node, timestamp
from podsched.config.settings import ControllerSettings
from podsched.term.controllers import node_lifecycle
from podsched.term.controllers.node_health import zone_of
from podsched.term.controllers.node_lifecycle import NodeLifecycleController
from support.controller_world import ControllerWorld, bound_pod, ready_node

UNREACHABLE = ["unreachable:NoExecute", "unreachable:NoSchedule"]
NOT_READY = ["not-ready:NoExecute", "not-ready:NoSchedule"]


def started(world: ControllerWorld) -> ControllerWorld:
    world.start(NodeLifecycleController(world, world, world, ControllerSettings(), world.pods_on))
    return world


@pytest.fixture
def world() -> ControllerWorld:
    """Three nodes, all of which report."""
    world = started(ControllerWorld())
    for name in ("n1", "n2", "n3"):
        world.put(ready_node(name))
    world.renew("n1", "n2", "n3")
    world.settle()
    return world


def live(world: ControllerWorld, seconds: float, *names: str) -> None:
    """Time passes while these nodes report."""
    for _ in range(int(seconds)):
        world.renew(*names)
        world.wait(1)


def ready_status(world: ControllerWorld, name: str) -> str:
    condition = condition_of(world.node(name).status, "Ready")
    return condition.status if condition is not None else "none"


def test_a_silent_node_becomes_unknown_and_unreachable(world: ControllerWorld) -> None:
    live(world, 50, "n2", "n3")
    assert ready_status(world, "n1") == "True"
    live(world, 6, "n2", "n3")
    conditions = {c.type: c.status for c in world.node("n1").status.conditions}
    pressures = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), "Unknown")
    assert conditions == {"Ready": "Unknown", **pressures}
    assert world.taints("n1") == UNREACHABLE
    assert all(t.HasField("time_added") for t in world.node("n1").spec.taints)
    assert world.taints("n2") == world.taints("n3") == []


def test_a_node_that_reports_again_is_clean(world: ControllerWorld) -> None:
    live(world, 56, "n2", "n3")
    world.put(node_with(world.node("n1"), "True"))
    world.renew("n1")
    world.settle()
    assert world.taints("n1") == []
    live(world, 56, "n1", "n2", "n3")
    assert ready_status(world, "n1") == "True"


def node_with(node: Node, ready: str) -> Node:
    changed = Node()
    changed.CopyFrom(node)
    for condition in changed.status.conditions:
        if condition.type == "Ready":
            condition.status = ready
    return changed


def test_a_node_that_says_it_is_not_ready_is_tainted_so(world: ControllerWorld) -> None:
    world.put(node_with(world.node("n1"), "False"))
    world.settle()
    assert world.taints("n1") == NOT_READY
    live(world, 56, "n2", "n3")
    assert world.taints("n1") == UNREACHABLE


@pytest.mark.parametrize(
    ("condition", "taint"),
    [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)
def test_pressure_is_a_taint_while_it_lasts(
    world: ControllerWorld, condition: str, taint: str
) -> None:
    world.put(ready_node("n1", **{condition: "True"}))
    world.settle()
    assert world.taints("n1") == [f"{taint}:NoSchedule"]
    world.put(node_with(world.node("n1"), "True"))
    changed = Node()
    changed.CopyFrom(world.node("n1"))
    changed.status.conditions[1].status = "False"
    world.put(changed)
    world.settle()
    assert world.taints("n1") == []


def test_a_cordoned_node_is_tainted_unschedulable(world: ControllerWorld) -> None:
    node = ready_node("n1")
    node.spec.unschedulable = True
    world.put(node)
    world.settle()
    assert world.taints("n1") == ["unschedulable:NoSchedule"]


def test_beta_labels_have_the_values_of_the_stable_ones(world: ControllerWorld) -> None:
    node = ready_node("n1")
    node.metadata.labels.update({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "plan9"})
    node.metadata.labels["kubernetes.io/arch"] = "arm64"
    node.metadata.labels["disk"] = "ssd"
    world.put(node)
    world.settle()
    assert dict(world.node("n1").metadata.labels) == {
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/arch": "arm64",
        "disk": "ssd",
    }


def test_taints_of_others_are_left_alone(world: ControllerWorld) -> None:
    node = ready_node("n1", "False")
    node.spec.taints.add(key="dedicated", value="gpu", effect="NoSchedule")
    node.spec.taints.add(key="node.kubernetes.io/memory-pressure", effect="NoExecute")
    world.put(node)
    world.settle()
    ours = ["dedicated:NoSchedule", "memory-pressure:NoExecute", *NOT_READY]
    assert world.taints("n1") == sorted(ours)


def test_a_no_execute_taint_without_a_time_gets_it(world: ControllerWorld) -> None:
    node = ready_node("n1")
    node.spec.taints.add(key="maint", effect="NoExecute")
    world.put(node)
    world.settle()
    assert world.node("n1").spec.taints[0].time_added == timestamp(world.time, whole=True)


def test_nodes_of_a_zone_are_given_up_one_in_ten_seconds(world: ControllerWorld) -> None:
    for name in ("n4", "n5", "n6"):
        world.put(ready_node(name))
    for name in ("n1", "n2"):
        world.put(node_with(world.node(name), "False"))
    world.settle()
    evicting = [name for name in ("n1", "n2") if world.taints(name) == NOT_READY]
    assert evicting == ["n1"]
    assert world.taints("n2") == ["not-ready:NoSchedule"]
    live(world, 9, "n3")
    assert world.taints("n2") == ["not-ready:NoSchedule"]
    live(world, 2, "n3")
    assert world.taints("n2") == NOT_READY


def test_nodes_that_may_not_be_given_up_yet_are_looked_at_once_a_second(
    world: ControllerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller works after any change in the cluster, which says nothing of these nodes."""
    for name in ("n1", "n2"):
        world.put(node_with(world.node(name), "False"))
    world.settle()
    assert world.taints("n2") == ["not-ready:NoSchedule"]
    looked_at: list[Node] = []

    def seen(node: Node) -> str:
        looked_at.append(node)
        return zone_of(node)

    monkeypatch.setattr(node_lifecycle, "zone_of", seen)
    world.wait(1)
    assert looked_at
    looked_at.clear()
    for _ in range(5):
        assert world.controller is not None
        world.controller.work(world.now)
    assert not looked_at


def test_when_all_nodes_fall_silent_no_pod_is_evicted(world: ControllerWorld) -> None:
    world.wait(60)
    assert [world.taints(name) for name in ("n1", "n2", "n3")] == [["unreachable:NoSchedule"]] * 3
    world.put(node_with(world.node("n3"), "True"))
    live(world, 30, "n3")
    assert world.taints("n1") == world.taints("n2") == UNREACHABLE
    assert world.taints("n3") == []


def test_nodes_that_are_labelled_so_do_not_count_for_their_zone(world: ControllerWorld) -> None:
    node = ready_node("n3")
    node.metadata.labels["node.kubernetes.io/exclude-disruption"] = ""
    world.put(node)
    world.wait(5)
    for name in ("n1", "n2"):
        world.put(node_with(world.node(name), "False"))
    live(world, 15, "n3")
    assert world.taints("n1") == world.taints("n2") == ["not-ready:NoSchedule"]


def test_a_node_given_up_already_is_spared_when_all_fall_silent(world: ControllerWorld) -> None:
    world.put(node_with(world.node("n1"), "False"))
    world.settle()
    assert world.taints("n1") == NOT_READY
    world.wait(60)
    assert world.taints("n1") == ["unreachable:NoSchedule"]


def test_a_node_that_changes_while_its_taint_is_on_the_way_still_gets_it(
    world: ControllerWorld,
) -> None:
    world.put(node_with(world.node("n1"), "False"))
    assert world.controller is not None
    world.controller.work(world.now)
    changed = node_with(world.node("n1"), "False")
    changed.metadata.labels["poke"] = "1"
    world.put(changed)
    world.settle()
    assert world.taints("n1") == NOT_READY


def test_a_node_that_has_never_reported_is_left_alone(world: ControllerWorld) -> None:
    bare = Node()
    bare.metadata.name = "bare"
    world.put(bare)
    world.put(ready_node("made-by-hand"))
    live(world, 60, "n1", "n2", "n3")
    assert world.taints("bare") == world.taints("made-by-hand") == []
    assert ready_status(world, "made-by-hand") == "True"


def test_a_new_leader_waits_only_for_what_is_left_of_the_silence() -> None:
    world = ControllerWorld()
    for name in ("n1", "n2"):
        world.put(ready_node(name))
    world.renew("n1", "n2")
    world.time += 35
    world.renew("n2")
    started(world)
    live(world, 14, "n2")
    assert ready_status(world, "n1") == "True"
    live(world, 8, "n2")
    assert ready_status(world, "n1") == "Unknown"


def test_a_new_leader_gives_nodes_time_to_show_themselves() -> None:
    world = ControllerWorld()
    for name in ("n1", "n2"):
        world.put(ready_node(name))
    world.renew("n1", "n2")
    world.time += 1000
    started(world)
    live(world, 9, "n2")
    assert ready_status(world, "n1") == ready_status(world, "n2") == "True"
    live(world, 8, "n2")
    assert ready_status(world, "n1") == "Unknown"


def test_pods_of_a_lost_node_are_not_ready(world: ControllerWorld) -> None:
    world.put(bound_pod("here", "n1"))
    world.put(bound_pod("there", "n2"))
    live(world, 56, "n2", "n3")
    condition = condition_of(world.pod("default/here").status, "Ready")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "NodeNotReady")
    other = condition_of(world.pod("default/there").status, "Ready")
    assert other is not None
    assert other.status == "True"
    assert world.events == [
        "Node n1 Normal NodeNotReady: Node n1 status is now: NodeNotReady",
        "Pod here Warning NodeNotReady: Node is not ready",
    ]


def test_pods_of_a_node_that_says_it_is_not_ready_stay_as_they_are(world: ControllerWorld) -> None:
    world.put(bound_pod("here", "n1"))
    world.put(node_with(world.node("n1"), "False"))
    live(world, 56, "n2", "n3")
    assert ready_status(world, "n1") == "Unknown"
    condition = condition_of(world.pod("default/here").status, "Ready")
    assert condition is not None
    assert condition.status == "True"
    assert not world.events


def test_clocks_of_other_machines_do_not_matter(world: ControllerWorld) -> None:
    for _ in range(60):
        world.renew("n1", skew=-3600)
        world.renew("n2", "n3")
        world.wait(1)
    assert ready_status(world, "n1") == "True"


FAR = 253_402_300_800
"""The first second of the year 10000, which no library shows."""


@pytest.mark.parametrize("where", ["lease", "condition"])
@pytest.mark.parametrize("at_the_start", [False, True])
def test_a_heartbeat_beyond_the_year_9999_is_one_like_any_other(
    where: str, at_the_start: bool
) -> None:
    world = ControllerWorld()
    if not at_the_start:
        started(world)
    node = ready_node("n1")
    if where == "condition":
        node.status.conditions[0].last_heartbeat_time.seconds = FAR
    world.put(node)
    if where == "lease":
        world.renew("n1", skew=FAR - world.time)
    world.put(ready_node("n2"))
    world.renew("n2")
    if at_the_start:
        started(world)
    live(world, 56, "n2")
    assert (ready_status(world, "n1"), ready_status(world, "n2")) == ("Unknown", "True")


def test_of_many_nodes_a_part_is_looked_at_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader has pods to bind, too; the next part is due soon, and none is forgotten."""
    world = ControllerWorld()
    for number in range(600):
        item = ready_node(f"n{number}")
        item.spec.unschedulable = True
        world.put(item)
    patched: list[str] = []
    monkeypatch.setattr(world, "send", lambda key, request, again: patched.append(key))
    controller = NodeLifecycleController(world, world, world, ControllerSettings(), world.pods_on)
    for _ in world.starting(controller):
        assert not patched
    due = [controller.work(world.now) for _ in range(3)]
    assert due[:2] == [0.01, 0.01]
    assert due[2] is not None and due[2] > 1
    assert len(patched) == len(set(patched)) == 600


def test_pods_of_many_lost_nodes_are_marked_in_parts(
    world: ControllerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = [ready_node(f"lost{number}", "Unknown") for number in range(30)]
    for number, node in enumerate(silent):
        world.put(bound_pod(f"p{number}", f"lost{number}"))
        world.put(node)
    marked: list[str] = []
    monkeypatch.setattr(
        world, "send", lambda key, request, again, done=None: marked.append(request.kind)
    )
    assert world.controller is not None
    found = []
    for _ in range(3):
        assert world.controller.work(world.now) is not None
        found.append(marked.count("Pod"))
    assert found == [10, 20, 30]
