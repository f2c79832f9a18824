"""One node and one pod, as the page shows them when somebody asks."""

from __future__ import annotations

from podsched.api.objects import Pod, ResourceClaim
from podsched.ask.web import details
from podsched.ask.web.board import Board
from podsched.ask.web.details import node_details, pod_details, pod_group_details
from support.device_objects import DRIVER, devices, resource_claim
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


def with_device(pod: Pod, claim: str, device: str = "") -> ResourceClaim:
    """A claim that a pod uses, with a device of the node n0 if it has one."""
    pod.spec.resource_claims.add(name="gpu", resource_claim_name=claim)
    made = resource_claim(claim)
    if device:
        result = made.status.allocation.devices.results.add(device=device, pool="n0")
        result.driver = DRIVER
    return made


def test_a_node_is_shown_with_its_devices_and_the_pods_that_use_them() -> None:
    world = World()
    world.put(node("n0"))
    old = devices("n0", 3)
    old.metadata.name = "old"
    new = devices("n0", 2, attributes={"model": "h100"}, capacity={"memory": {"value": "80Gi"}})
    new.spec.pool.generation = 2
    for piece in (old, new, devices("n1", 4)):
        world.put(piece)
    user = pod("p0", "n0")
    world.put(with_device(user, "train", "gpu-1"))
    world.put(user)
    found = node_details(world, looked_at(world), "n0")
    assert found is not None
    values = {"model": "h100", "memory": "80Gi"}
    assert found["devices"] == [
        [DRIVER, "gpu-0", values, []],
        [DRIVER, "gpu-1", values, ["default/p0"]],
    ]
    assert found["deviceCount"] == 2


def test_a_pod_is_shown_with_its_claims_and_their_devices() -> None:
    world = World()
    user = pod("p0", "n0")
    world.put(with_device(user, "train", "gpu-1"))
    world.put(with_device(user, "waits"))
    user.spec.resource_claims.add(name="made", resource_claim_template_name="one")
    world.put(user)
    found = pod_details(world, looked_at(world), "default/p0")
    assert found is not None
    assert found["claims"] == [
        ["gpu", "train", "allocated", [[DRIVER, "n0", "gpu-1"]]],
        ["gpu", "waits", "pending", []],
        ["made", "", "missing", []],
    ]


def test_a_slice_that_moves_to_another_node_or_goes_is_shown_there_no_more() -> None:
    board = Board()
    board.put("ResourceSlice", "s", devices("n0", 1))
    assert board.slices_of("n0") == ["s"]
    board.put("ResourceSlice", "s", devices("n1", 1))
    assert (board.slices_of("n0"), board.slices_of("n1")) == ([], ["s"])
    board.put("ResourceSlice", "s", None)
    assert board.slices_of("n1") == []


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
