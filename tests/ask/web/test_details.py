"""One node and one pod, as the page shows them when somebody asks."""

from __future__ import annotations

from podsched.ask.web import details
from podsched.ask.web.board import Board
from podsched.ask.web.details import node_details, pod_details
from support.page_world import START, World, event, node, pod


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


def test_nothing_that_could_be_a_secret_is_in_the_details() -> None:
    made = pod("p0", "n0")
    made.spec.containers[0].env.add(name="PASSWORD", value="hunter2")
    made.metadata.annotations["last-applied"] = "hunter2"
    world = World()
    world.put(made)
    world.put(node("n0"))
    board = looked_at(world)
    shown = str([pod_details(world, board, "default/p0"), node_details(world, board, "n0")])
    assert "hunter2" not in shown and "PASSWORD" not in shown


def test_what_is_gone_has_no_details() -> None:
    world = World()
    assert node_details(world, looked_at(world), "n0") is None
    assert pod_details(world, looked_at(world), "default/p0") is None
