"""What is told of a pod group that cannot start."""

from __future__ import annotations

from podsched.api.objects import AnyObject
from podsched.ask.whatif.pod_group_explanation import CUT_SHORT, MAX_SHAPES, explain_pod_group
from podsched.ask.whatif.world import node_names, pods_on
from podsched.v1.scheduling_pb2 import Explanation
from support.device_objects import device_class, devices, template, user
from support.gangs import gang
from support.whatif_world import node, owned, world

ZONE, RACK = "zone", "rack"


def told(objects: list[AnyObject], *, is_over: bool = False) -> Explanation:
    """The answer about the group "train"."""
    answer = Explanation()
    explain_pod_group(answer, world(objects), "default/train", lambda: is_over)
    return answer


def changes(answer: Explanation) -> dict[str, str]:
    """The descriptions by kind."""
    return {change.kind: change.description for change in answer.changes}


def of_size(name: str, cpu: int, **labels: str) -> AnyObject:
    made: AnyObject = node(name, allocatable={"cpu": str(cpu), "pods": "100"}, labels=labels)
    return made


def racks() -> list[AnyObject]:
    """Two racks of a zone with two cores each, and one of another zone."""
    return [
        of_size("a", 2, rack="r1", zone="z1"),
        of_size("b", 2, rack="r2", zone="z1"),
        of_size("c", 1, rack="r3", zone="z2"),
    ]


def test_a_group_that_fits_says_so_and_needs_no_change() -> None:
    group, members = gang("train", 2, 2)
    answer = told([of_size("a", 2), group, *members])
    assert answer.pod_group.fits
    assert not answer.changes
    [domain] = answer.pod_group.domains
    assert (domain.name, domain.nodes, domain.holds, domain.lacks) == ("", 1, 2, 0)


def test_the_domains_that_hold_most_come_first_and_tell_who_does_not_fit() -> None:
    group, members = gang("train", 4, 4, topology=ZONE, cpu="1")
    room = [of_size("a", 1, zone="z1"), of_size("b", 3, zone="z2")]
    domains = told([*room, group, *members]).pod_group.domains
    assert [(d.name, d.holds, d.lacks) for d in domains] == [("z2", 3, 1), ("z1", 1, 3)]
    assert domains[0].misfit.name == "train-3"
    assert "1 Insufficient cpu" in domains[0].misfit.message


def test_the_least_lower_minimum_and_the_fewest_more_nodes_are_told() -> None:
    group, members = gang("train", 7, 7)
    found = changes(told([of_size("a", 2), group, *members]))
    assert found["min-count"] == "a minCount of 2 in place of 7"
    assert found["node"] == "add 3 nodes like a"


def test_nodes_are_added_to_the_domain_that_holds_most() -> None:
    group, members = gang("train", 3, 3, topology=RACK)
    room = [of_size(f"a{at}", 1, rack=f"r{at}") for at in range(MAX_SHAPES)]
    room.append(of_size("b", 2, rack="large"))
    assert changes(told([*room, group, *members]))["node"] == "add a node like b"


def test_a_label_that_no_node_has_is_told() -> None:
    group, members = gang("train", 2, 2, topology=ZONE)
    answer = told([of_size("a", 2), group, *members])
    assert list(answer.notes) == ["No node has the label zone."]
    assert changes(answer)["topology"] == "do not require zone"


def test_the_narrowest_wider_label_that_is_enough_is_told() -> None:
    group, members = gang("train", 4, 4, topology=RACK)
    found = changes(told([*racks(), group, *members]))
    assert found["topology"] == "require zone in place of rack"
    group, members = gang("train", 5, 5, topology=RACK)
    found = changes(told([*racks(), group, *members]))
    assert found["topology"] == "do not require rack"


def test_a_label_that_all_nodes_share_is_no_wider_topology() -> None:
    group, members = gang("train", 2, 2, topology=RACK)
    room = [of_size("a", 1, rack="r1", arch="amd64"), of_size("b", 1, rack="r2", arch="amd64")]
    found = changes(told([*room, group, *members]))
    assert found["topology"] == "do not require rack"


def test_the_smallest_group_that_is_in_the_way_is_told() -> None:
    group, members = gang("train", 2, 2)
    small, small_members = gang("small", 1, 1, on="a")
    large, large_members = gang("large", 3, 3, on="b")
    objects = [of_size("a", 2), of_size("b", 3), small, *small_members, large, *large_members]
    answer = told([*objects, group, *members])
    found = changes(answer)
    assert found["group-gone"] == "delete pod group default/small (priority 0, 1 pod)"
    [gone] = [change for change in answer.changes if change.kind == "group-gone"]
    assert [pod.name for pod in gone.pods] == ["small-0"]


def test_a_group_that_goes_gives_its_devices_back() -> None:
    made = world([node("a"), devices("a", 1), device_class(), template("one")])
    for name in ("first", "train"):
        group, _ = gang(name, 1, 0)
        with made.changes.part() as parts:
            parts.put("PodGroup", group)
        made.schedule([made.changes.submit(user(f"{name}-0", template="one", group=name))])
    answer = Explanation()
    explain_pod_group(answer, made, "default/train")
    found = changes(answer)
    assert found["group-gone"] == "delete pod group default/first (priority 0, 1 pod)"


def test_of_missing_members_it_is_told_how_many() -> None:
    group, members = gang("train", 4, 3)
    members[0].spec.scheduling_gates.add(name="later")
    answer = told([of_size("a", 9), group, *members])
    assert not answer.pod_group.fits
    assert changes(answer) == {
        "members": "create 2 more members",
        "min-count": "a minCount of 2 in place of 4",
    }


def test_members_that_run_count_and_fix_the_domain() -> None:
    group, members = gang("train", 3, 3, topology=RACK)
    members[0].spec.node_name = "a"
    [domain] = told([*racks(), group, *members]).pod_group.domains
    assert (domain.name, domain.holds, domain.lacks) == ("r1", 2, 1)


def test_nothing_is_left_of_what_was_tried() -> None:
    group, members = gang("train", 4, 4, topology=RACK)
    made = world([*racks(), group, *members, owned("other", "a", "500m")])
    for _ in range(2):
        answer = Explanation()
        explain_pod_group(answer, made, "default/train")
        assert node_names(made) == ["a", "b", "c"]
        assert [pod.name for pod in pods_on(made, "a")] == ["other"]
        assert changes(answer)["topology"] == "do not require rack"


def test_a_search_that_takes_too_long_ends_with_a_note() -> None:
    group, members = gang("train", 7, 7)
    answer = told([of_size("a", 2), group, *members], is_over=True)
    assert CUT_SHORT in answer.notes
    assert set(changes(answer)) == {"min-count"}
