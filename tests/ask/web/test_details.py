"""One node and one pod, as the page shows them when somebody asks."""

from __future__ import annotations

from podsched.ask.web import details
from podsched.ask.web.board import Board
from podsched.ask.web.details import node_details, pod_details, pod_group_details
from support.page_world import START, World, event, node, pod, pod_group


def looked_at(world: World) -> Board:
    board = Board()
    for kind, objects in world.objects.items():
        for key, found in objects.items():
            board.put(kind, key, found)
    board.delta()
    return board


def test_a_node_is_shown_with_what_runs_there_cpu_first() -> None:
    world = World()
    made = node("n0", zone="a", cordoned=True)
    made.spec.taints.add(key="dedicated", value="batch", effect="NoSchedule")
    world.put(made)
    for name, on in (("p0", "n0"), ("p1", "n0"), ("p2", "n1")):
        world.put(pod(name, on))
    world.put(pod("ended", "n0", phase="Succeeded"))
    found = node_details(world, looked_at(world), "n0")
    assert found is not None
    assert [row[0] for row in found["pods"]] == ["default/p0", "default/p1"]
    assert (found["zone"], found["taints"]) == ("a", ["dedicated=batch:NoSchedule"])
    assert list(found["allocatable"]) == ["cpu", "memory", "pods"]


def test_pods_of_a_node_are_bounded_and_counted() -> None:
    world = World()
    world.put(node("n0"))
    for number in range(details.MOST_PODS + 5):
        world.put(pod(f"p{number}", "n0"))
    found = node_details(world, looked_at(world), "n0")
    assert found is not None
    assert (len(found["pods"]), found["podCount"]) == (details.MOST_PODS, details.MOST_PODS + 5)


def test_a_pod_is_shown_with_its_conditions_and_events() -> None:
    world = World()
    world.put(pod("p0", message="0/1 nodes are available: 1 Insufficient cpu."))
    world.put(event("e0", START, "p0"))
    world.put(event("e1", START, "other"))
    found = pod_details(world, looked_at(world), "default/p0")
    assert found is not None
    assert found["conditions"][0][3] == "0/1 nodes are available: 1 Insufficient cpu."
    assert [row[4] for row in found["events"]] == ["the event e0"]
    assert found["requests"] == {"cpu": 500, "pods": 1}


def test_a_group_is_shown_with_its_first_members_those_that_wait_first() -> None:
    world = World()
    group = pod_group("g", 3, message="0/2 placements are available")
    group.spec.scheduling_constraints.topology.add(key="rack")
    about_it = event("e0", START, "g")
    about_it.involved_object.kind = "PodGroup"
    for made in (group, about_it):
        world.put(made)
    for number in range(details.MOST_MEMBERS + 5):
        world.put(pod(f"p{number:02}", "n0" if number < 4 else "", message="no", group="g"))
    world.put(pod("p99", "n0", phase="Succeeded", group="g"))
    found = pod_group_details(world, looked_at(world), "default/g")
    assert found is not None
    assert (found["state"], found["message"]) == ("Unschedulable", "0/2 placements are available")
    assert (found["withNode"], found["members"], found["hidden"]) == (4, 55, 6)
    assert found["ended"] == 1
    assert len(found["listed"]) == details.MOST_MEMBERS
    assert found["listed"][0] == ["default/p04", "Pending", ""], "it has no node"
    assert found["topology"] == ["rack"]
    assert found["requests"] == {"cpu": 55 * 500, "pods": 55}
    assert found["conditions"][0][:3] == ["PodGroupScheduled", "False", "Unschedulable"]
    assert [row[4] for row in found["events"]] == ["the event e0"]


def test_a_group_that_only_its_members_name_is_shown() -> None:
    world = World()
    world.put(pod("p0", group="g"))
    board = looked_at(world)
    found = pod_group_details(world, board, "default/g")
    assert found is not None
    assert (found["state"], found["policy"]) == ("Waiting for its PodGroup", "")
    assert [row[0] for row in found["listed"]] == ["default/p0"]
    member = pod_details(world, board, "default/p0")
    assert member is not None and member["group"] == "default/g"


def test_nothing_that_could_be_a_secret_is_in_the_details() -> None:
    made = pod("p0", "n0")
    made.spec.containers[0].env.add(name="PASSWORD", value="hunter2")
    made.metadata.annotations["last-applied"] = "hunter2"
    made.spec.scheduling_group.pod_group_name = "g"
    group = pod_group("g")
    group.metadata.annotations["last-applied"] = "hunter2"
    world = World()
    for one in (made, group, node("n0")):
        world.put(one)
    board = looked_at(world)
    shown = str(
        [
            pod_details(world, board, "default/p0"),
            node_details(world, board, "n0"),
            pod_group_details(world, board, "default/g"),
        ]
    )
    assert "hunter2" not in shown and "PASSWORD" not in shown


def test_what_is_gone_has_no_details() -> None:
    world = World()
    assert node_details(world, looked_at(world), "n0") is None
    assert pod_details(world, looked_at(world), "default/p0") is None
    assert pod_group_details(world, looked_at(world), "default/g") is None
