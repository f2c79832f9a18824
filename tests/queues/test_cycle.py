"""One round over the heads of the queues."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.queues.assignment import Mode, Waiting
from podsched.queues.cycle import Cycle, Entry, Rules, lacks, nominate, reserved, run_cycle
from podsched.queues.objects import (
    ClusterQueue,
    Flavor,
    PodSet,
    Policy,
    Preemption,
    ResourceGroup,
    Workload,
)
from podsched.queues.order import Requeue
from podsched.queues.quota import Cohort, FlavorResource, Node, Quota
from podsched.queues.shares import dominant_share
from podsched.queues.snapshot import Snapshot
from support.examples import examples
from support.queue_trees import CPU, admit, assert_permitted, nodes, snapshots

CPUS = (ResourceGroup(frozenset(("cpu",)), ("default",)),)


def queue(
    name: str, quota: int, cohort: str | None = "team", preemption: Preemption = Preemption()
) -> ClusterQueue:
    return ClusterQueue(name, cohort, CPUS, {CPU: Quota(quota)}, preemption=preemption)


def head(key: str, count: int, priority: int = 0, least: int | None = None) -> Workload:
    pods = PodSet("main", count, {"cpu": 1}, least)
    return Workload(key, (pods,), uid=key, priority=priority, queued_at=0.0)


def running(key: str, amount: int, priority: int = 0) -> Workload:
    return Workload(key, priority=priority, reserved_at=0.0, usage={CPU: amount})


def cycle(
    snapshot: Snapshot, heads: dict[str, Workload], rules: Rules = Rules()
) -> dict[str, Entry]:
    placed = [replace(workload, queue=name) for name, workload in heads.items()]
    return {entry.workload.key: entry for entry in run_cycle(snapshot, placed, rules)}


def cluster(*queues: ClusterQueue, cohorts: tuple[Cohort, ...] = ()) -> Snapshot:
    return Snapshot(queues, cohorts, [Flavor("default")])


def test_of_two_heads_that_need_the_same_quota_one_is_admitted() -> None:
    snapshot = cluster(
        queue("a", 0), queue("b", 0), cohorts=(Cohort("team", None, {CPU: Quota(8)}),)
    )
    entries = cycle(snapshot, {"a": head("late", 8), "b": head("first", 8, 1)})
    assert entries["first"].admitted
    assert not entries["late"].admitted
    assert entries["late"].waiting is Waiting.QUOTA
    assert entries["late"].message == "Workload no longer fits after processing another workload"
    assert all(not node.usage.get(CPU) for node in nodes(snapshot))


def test_a_head_that_another_one_stands_in_the_way_of_goes_on_with_its_next_flavor() -> None:
    groups = (ResourceGroup(frozenset(("cpu",)), ("default", "spare")),)
    queues = (ClusterQueue(name, "team", groups, {CPU: Quota(0)}) for name in "ab")
    flavors = [Flavor("default"), Flavor("spare")]
    snapshot = Snapshot(queues, [Cohort("team", None, {CPU: Quota(8)})], flavors)
    entries = cycle(snapshot, {"a": head("late", 8), "b": head("first", 8, 1)})
    assert entries["first"].admitted
    assert entries["late"].requeue is Requeue.FAILED_AFTER_NOMINATION
    assert entries["late"].untried
    assert entries["late"].assignment.tried == {"main": {"cpu": 1}}


def test_heads_that_do_not_borrow_come_first() -> None:
    snapshot = cluster(queue("a", 2), queue("b", 6))
    entries = cycle(snapshot, {"a": head("borrows", 4, 9), "b": head("own", 6)})
    assert list(entries) == ["own", "borrows"]
    assert entries["own"].admitted
    assert not entries["borrows"].admitted


@pytest.mark.parametrize("fair", [False, True])
def test_a_head_whose_promised_start_has_come_is_before_all_others(fair: bool) -> None:
    snapshot = cluster(queue("a", 2), queue("b", 6), queue("c", 6))
    heads = [
        replace(head("promised", 7), queue="a"),
        replace(head("own", 2, 9), queue="b"),
        replace(head("less", 1), queue="c"),
    ]
    found = Cycle(snapshot, heads, Rules(fair=fair), due={"promised"})
    turns = []
    for entry in found.turns():
        found.take(entry)
        turns.append(entry.workload.key)
    assert turns == ["promised", "own", "less"]
    found.taken.end()


def test_with_fair_sharing_the_smallest_share_after_admission_comes_first() -> None:
    snapshot = cluster(
        queue("b", 0), queue("c", 0), cohorts=(Cohort("team", None, {CPU: Quota(100)}),)
    )
    admit(snapshot, "b", running("b0", 10))
    heads = {"b": head("b1", 50), "c": head("c1", 75)}
    entries = cycle(snapshot, heads, Rules(fair=True))
    assert [key for key, entry in entries.items() if entry.admitted] == ["b1"]


def test_a_cohort_whose_head_was_admitted_has_a_larger_share_with_the_next() -> None:
    cohorts = (Cohort("team", None, {CPU: Quota(100)}), Cohort("left", "team"))
    snapshot = cluster(queue("a", 0, "left"), queue("b", 0, "left"), queue("c", 0), cohorts=cohorts)
    heads = {"a": head("a1", 10, 1), "b": head("b1", 10), "c": head("c1", 15)}
    assert list(cycle(snapshot, heads, Rules(fair=True))) == ["a1", "c1", "b1"]


def test_a_head_that_may_not_reclaim_what_it_needs_keeps_what_is_left_of_its_quota() -> None:
    snapshot = cluster(queue("a", 2), queue("b", 0))
    admit(snapshot, "a", running("a1", 1))
    entries = cycle(snapshot, {"a": head("a2", 2), "b": head("b1", 1)})
    assert [entry.admitted for entry in entries.values()] == [False, False]
    assert entries["a2"].requeue is Requeue.NO_CANDIDATES
    always = Preemption(reclaim=Policy.ANY)
    snapshot = cluster(queue("a", 2, preemption=always), queue("b", 0))
    admit(snapshot, "a", running("a1", 1))
    assert cycle(snapshot, {"a": head("a2", 2), "b": head("b1", 1)})["b1"].admitted


def test_victims_are_named_and_nothing_is_admitted_in_their_place_yet() -> None:
    snapshot = cluster(queue("a", 4, preemption=Preemption(Policy.LOWER)))
    admit(snapshot, "a", running("low", 3))
    entry = cycle(snapshot, {"a": head("high", 4, 9)})["high"]
    assert entry.preempts
    assert [victim.workload.key for victim in entry.victims] == ["low"]
    assert entry.requeue is Requeue.PENDING_PREEMPTION
    assert entry.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
        "default, 3m more needed. Pending the preemption of 1 workload(s)"
    )


def test_as_many_pods_are_admitted_as_fit() -> None:
    entry = cycle(cluster(queue("a", 7, None)), {"a": head("group", 10, least=3)})["group"]
    assert entry.admitted
    assert entry.assignment.pod_sets[0].count == 7
    entry = cycle(cluster(queue("a", 2, None)), {"a": head("group", 10, least=3)})["group"]
    assert not entry.admitted
    assert entry.waiting is Waiting.EXCEEDS_MAX_QUOTA


@given(snapshots(), st.data())
@examples(300)
def test_what_a_cycle_admits_fits_together(snapshot: Snapshot, data: st.DataObject) -> None:
    """No victim is shared, and after victims have gone, all that preempted fit."""
    names = sorted(snapshot.queues)
    for index in range(data.draw(st.integers(0, 6))):
        name = data.draw(st.sampled_from(names))
        amount = data.draw(st.integers(0, min(6, snapshot.node(name).available(CPU))))
        admit(snapshot, name, running(f"w{index}", amount, data.draw(st.integers(0, 3))))
    before = {node: node.usage.get(CPU, 0) for node in nodes(snapshot)}
    heads = {
        name: head(f"head-{name}", data.draw(st.integers(1, 8)), data.draw(st.integers(0, 3)))
        for name in names
    }
    entries = cycle(snapshot, heads, Rules(fair=data.draw(st.booleans())))
    assert {node: node.usage.get(CPU, 0) for node in nodes(snapshot)} == before
    assert entries.keys() == {workload.key for workload in heads.values()}
    for entry in entries.values():
        assert not (entry.admitted and entry.preempts)
        assert entry.admitted or entry.waiting is not None
        if entry.admitted:
            assert entry.mode is Mode.FIT
            snapshot.add_usage(entry.queue.name, entry.assignment.usage)
    assert_permitted(snapshot)
    victims = [
        one.workload for entry in entries.values() if entry.preempts for one in entry.victims
    ]
    assert len({victim.key for victim in victims}) == len(victims)
    for victim in victims:
        snapshot.remove(victim)
    for entry in entries.values():
        if entry.preempts:
            snapshot.add_usage(entry.queue.name, entry.assignment.usage)
    assert_permitted(snapshot)


def plain_winner(snapshot: Snapshot, node: Node, left: dict[str, Entry]) -> str | None:
    """Return the queue of the head that a subtree picks, by the words of the rule."""
    if not node.is_cohort:
        return node.name if node.name in left else None
    picks = []
    for child in node.children:
        name = plain_winner(snapshot, child, left)
        if name is not None:
            workload, usage = left[name].workload, left[name].assignment.usage
            with snapshot.with_usage(name, usage):
                share = dominant_share(child)
            key = (share.borrows_on(usage), share.rank, -workload.priority, workload.queued_at)
            picks.append((key, name))
    return min(picks)[1] if picks else None


@given(snapshots(preempting=False), st.data())
@examples(300)
def test_the_tournament_is_as_if_held_anew_for_each_head(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    """Though only what a head has changed is looked at again."""
    heads = {}
    for place, name in enumerate(sorted(snapshot.queues)):
        snapshot.add_usage(name, {CPU: data.draw(st.integers(0, 3))})
        workload = head(f"head-{name}", data.draw(st.integers(1, 6)), data.draw(st.integers(0, 1)))
        heads[name] = replace(workload, queue=name, queued_at=float(place))
    done = run_cycle(snapshot, heads.values(), Rules(fair=True))
    left = {entry.queue.name: entry for entry in done}
    assert left.keys() == heads.keys()
    for entry in done:
        node = snapshot.node(entry.queue.name)
        assert plain_winner(snapshot, node.root, left) == entry.queue.name
        del left[entry.queue.name]
        usage = entry.assignment.usage
        if entry.requeue is Requeue.NO_CANDIDATES:
            usage = reserved(node, usage, borrowing=entry.assignment.level > 0)
        if entry.admitted or entry.requeue is Requeue.NO_CANDIDATES:
            snapshot.add_usage(entry.queue.name, usage)


def test_a_queue_that_preempts_none_lacks_only_what_is_short() -> None:
    snapshot = cluster(queue("a", 4), queue("b", 4))
    admit(snapshot, "b", running("borrows", 6))
    never = replace(head("large", 3), queue="a")
    assert lacks(snapshot, never, Rules()) == {CPU}
    assert lacks(snapshot, replace(head("small", 2), queue="a"), Rules()) == frozenset()


def test_a_queue_that_preempts_also_lacks_what_it_borrows_and_any_quota_if_sharing_is_fair() -> (
    None
):
    may = Preemption(within=Policy.LOWER)
    snapshot = cluster(queue("a", 1, preemption=may), queue("b", 4))
    small = replace(head("small", 2), queue="a")
    assert lacks(snapshot, small, Rules()) == {CPU}
    assert lacks(snapshot, small, Rules(fair=True)) is None


_RESOURCES, _FLAVORS = ("cpu", "gpu"), ("red", "blue")


def _random_queue(rng: Random, name: str) -> ClusterQueue:
    groups = (ResourceGroup(frozenset(_RESOURCES), _FLAVORS),)
    if rng.random() < 0.5:
        groups = tuple(ResourceGroup(frozenset((one,)), _FLAVORS) for one in _RESOURCES)
    keys = [FlavorResource(flavor, one) for flavor in _FLAVORS for one in _RESOURCES]
    limits = (None, None, 0, 2, 4)
    quotas = {key: Quota(rng.randint(0, 8), rng.choice(limits), rng.choice(limits)) for key in keys}
    preemption = Preemption(
        rng.choice((Policy.NEVER, Policy.LOWER, Policy.LOWER_OR_NEWER)),
        rng.choice((Policy.NEVER, Policy.LOWER, Policy.ANY)),
        rng.random() < 0.3,
    )
    return ClusterQueue(name, rng.choice(("left", "right")), groups, quotas, preemption=preemption)


@examples(3_000)
@given(st.integers(0, 1 << 30))
def test_a_release_of_anything_else_than_a_head_lacks_does_not_help_it(seed: int) -> None:
    rng = Random(seed)
    queues = [_random_queue(rng, name) for name in "abcd"]
    cohorts = [Cohort("left", "root"), Cohort("right", "root")]
    rules = Rules(fair=rng.random() < 0.2)

    def filled(workloads: list[Workload]) -> Snapshot:
        snapshot = Snapshot(queues, cohorts, map(Flavor, _FLAVORS))
        for workload in workloads:
            snapshot.add(workload)
        return snapshot

    def outcome(snapshot: Snapshot) -> bool:
        assignment, victims = nominate(snapshot, queues[0], wanted, rules)
        return assignment.mode is Mode.FIT or bool(victims)

    running_ones = []
    for index in range(rng.randint(1, 8)):
        flavor = rng.choice(_FLAVORS)
        usage = {FlavorResource(flavor, one): rng.randint(0, 5) for one in _RESOURCES}
        running_ones.append(
            Workload(
                f"w{index}",
                queue=rng.choice("abcd"),
                priority=rng.randint(0, 2),
                reserved_at=float(index),
                queued_at=float(index),
                usage=usage,
            )
        )
    pods = [
        PodSet(f"set-{index}", rng.randint(1, 3), {one: rng.randint(0, 4) for one in _RESOURCES})
        for index in range(rng.randint(1, 2))
    ]
    if len(pods) == 1 and rng.random() < 0.3:
        pods = [replace(pods[0], min_count=1)]
    wanted = Workload("head", tuple(pods), "a", priority=1, queued_at=4.0)
    snapshot = filled(running_ones)
    needed = lacks(snapshot, wanted, rules)
    if outcome(snapshot) or needed is None:
        return
    less = [
        replace(
            one,
            usage={
                key: amount if key in needed else rng.randint(0, amount)
                for key, amount in one.usage.items()
            },
        )
        for one in running_ones
    ]
    assert not outcome(filled(less))
