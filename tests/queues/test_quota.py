"""Quota in trees of cohorts."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from podsched.queues.objects import ClusterQueue
from podsched.queues.quota import Cohort, FlavorResource, Node, Quota, borrowing_level, path_of
from podsched.queues.snapshot import Snapshot
from support.examples import examples
from support.queue_trees import CPU, assert_permitted, nodes, plain_available, snapshots


def queue(name: str, cohort: str | None, *quota: int | None) -> ClusterQueue:
    return ClusterQueue(name, cohort, quotas={CPU: Quota(*quota)})  # type: ignore[arg-type]


def node(snapshot: Snapshot, name: str) -> Node:
    return snapshot.forest.queues.get(name) or snapshot.forest.cohorts[name]


def test_a_queue_borrows_what_others_of_its_cohort_do_not_use() -> None:
    snapshot = Snapshot([queue("a", "team", 4), queue("b", "team", 6)])
    assert node(snapshot, "a").available(CPU) == 10
    snapshot.add_usage("b", {CPU: 5})
    assert node(snapshot, "a").available(CPU) == 5
    assert node(snapshot, "a").potential_available(CPU) == 10


def test_what_is_not_lent_stays_for_its_queue() -> None:
    snapshot = Snapshot([queue("a", "team", 4), queue("b", "team", 6, None, 2)])
    assert node(snapshot, "a").available(CPU) == 6
    snapshot.add_usage("a", {CPU: 6})
    assert node(snapshot, "b").available(CPU) == 4


def test_a_borrowing_limit_bounds_a_queue_and_a_subtree() -> None:
    cohorts = [
        Cohort("left", "root", {CPU: Quota(0, 3)}),
        Cohort("root", None, {CPU: Quota(100)}),
    ]
    snapshot = Snapshot([queue("a", "left", 1, 1), queue("b", "left", 1)], cohorts)
    assert node(snapshot, "a").available(CPU) == 2
    assert node(snapshot, "b").available(CPU) == 5
    assert node(snapshot, "b").potential_available(CPU) == 5


def test_an_overused_cohort_leaves_nothing_and_not_less() -> None:
    snapshot = Snapshot([queue("a", "team", 2), queue("b", "team", 2)])
    snapshot.add_usage("a", {CPU: 9})
    assert node(snapshot, "b").available(CPU) == 0
    assert node(snapshot, "team").available(CPU) == -5


def test_the_borrowing_level_is_the_height_of_the_lowest_subtree_that_is_large_enough() -> None:
    cohorts = [Cohort("left", "root"), Cohort("right", "root")]
    queues = [queue("a", "left", 2), queue("b", "left", 2), queue("c", "right", 2)]
    at = node(Snapshot(queues, cohorts), "a")
    assert borrowing_level(at, CPU, 2) == (0, True)
    assert borrowing_level(at, CPU, 4) == (1, True)
    assert borrowing_level(at, CPU, 6) == (2, False)
    assert borrowing_level(at, CPU, 9) == (2, False)


def test_the_path_names_all_cohorts_from_the_root() -> None:
    snapshot = Snapshot([queue("a", "left", 2)], [Cohort("left", "root")])
    assert path_of(node(snapshot, "a")) == "/root/left/a"


def test_queues_below_a_cycle_of_cohorts_admit_nothing_and_others_do() -> None:
    cohorts = [Cohort("x", "y"), Cohort("y", "x"), Cohort("z", "x"), Cohort("sound")]
    queues = [queue("a", "z", 2), queue("b", "sound", 2), queue("c", "y", 2)]
    snapshot = Snapshot(queues, cohorts)
    assert [name for name in "abc" if snapshot.admits(name)] == ["b"]


def test_a_tree_a_thousand_deep_is_no_recursion() -> None:
    cohorts = [Cohort(f"c{index}", f"c{index + 1}") for index in range(1000)]
    snapshot = Snapshot([queue("a", "c0", 5), queue("b", "c1000", 7)], cohorts)
    at = node(snapshot, "a")
    assert (at.available(CPU), at.potential_available(CPU)) == (12, 12)
    assert node(snapshot, "c1000").height == 1001
    snapshot.add_usage("a", {CPU: 12})
    assert node(snapshot, "b").available(CPU) == 0


def test_ten_thousand_queues_and_absurd_quantities_are_counted_exactly() -> None:
    many = [queue(f"q{index}", "team", 2**63 - 1) for index in range(10_000)]
    at = node(Snapshot(many), "q0")
    assert at.available(CPU) == 10_000 * (2**63 - 1)


@given(snapshots(), st.data())
@examples(300)
def test_usage_is_never_above_what_the_tree_permits(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    """Whatever is admitted within what is available, and removed again."""
    admitted: list[tuple[str, int]] = []
    for _ in range(data.draw(st.integers(0, 15))):
        if admitted and data.draw(st.booleans()):
            name, amount = admitted.pop(data.draw(st.integers(0, len(admitted) - 1)))
            snapshot.remove_usage(name, {CPU: amount})
        else:
            name = data.draw(st.sampled_from(sorted(snapshot.queues)))
            available = snapshot.node(name).available(CPU)
            assert available <= snapshot.node(name).potential_available(CPU) - snapshot.node(
                name
            ).usage.get(CPU, 0)
            amount = data.draw(st.integers(0, available))
            snapshot.add_usage(name, {CPU: amount})
            admitted.append((name, amount))
        assert_permitted(snapshot)


@given(snapshots(), st.data())
@examples(300)
def test_available_is_what_the_rule_says(snapshot: Snapshot, data: st.DataObject) -> None:
    """Even where usage exceeds the quota, as after a quota was lowered."""
    for name in sorted(snapshot.queues):
        snapshot.add_usage(name, {CPU: data.draw(st.integers(0, 20))})
    for at in nodes(snapshot):
        plain = plain_available(at)
        assert at.available(CPU) == (plain if at.is_cohort else max(0, plain)), at


def test_an_unknown_flavor_and_resource_has_no_quota() -> None:
    other = FlavorResource("default", "gpu")
    at = Node("a", {CPU: Quota(3)}, Fraction(1), is_cohort=False)
    assert (at.available(other), at.potential_available(other)) == (0, 0)
