"""Choices of flavors that take no more than was promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from podsched.queues.assignment import Mode
from podsched.queues.choices import fitting, fitting_by_set, fitting_into
from podsched.queues.cycle import Rules, nominate
from podsched.queues.objects import (
    ClusterQueue,
    Flavor,
    Fungibility,
    FungibilityPolicy,
    PodSet,
    ResourceGroup,
    Workload,
)
from podsched.queues.quota import Cohort, FlavorResource, Quota
from podsched.queues.snapshot import Snapshot

A, B = (FlavorResource(name, "cpu") for name in "ab")


def team_of(quotas: Mapping[FlavorResource, Quota]) -> ClusterQueue:
    """A queue that goes on to the next flavor where the first would have to be borrowed."""
    try_next = Fungibility(when_can_borrow=FungibilityPolicy.TRY_NEXT)
    group = ResourceGroup(frozenset({"cpu"}), ("a", "b"))
    return ClusterQueue("team", "all", (group,), quotas, fungibility=try_next)


def sets_of(amounts: Sequence[int]) -> tuple[PodSet, ...]:
    """Pod sets of one pod each."""
    return tuple(PodSet(f"set-{index}", 1, {"cpu": one}) for index, one in enumerate(amounts))


def test_a_choice_is_found_again_that_was_preferred_because_it_borrows_nothing() -> None:
    amounts = (8_000, 3_000, 5_000, 1, 1, 1, 1, 1)
    team = team_of({A: Quota(7_000), B: Quota(13_005)})
    snapshot = Snapshot([team], [Cohort("all", quotas={A: Quota(99_000)})], map(Flavor, "ab"))
    workload = Workload("unit", sets_of(amounts), "team")
    promised = next(fitting(snapshot, team, workload, Rules()))
    assert promised.usage == {A: 3_005, B: 13_000}
    found = fitting_into(snapshot, workload, Rules(), promised.usage)
    assert [one.choice for one in found] == [promised.choice]
    assert snapshot.node("team").usage.get(A, 0) == 0


def test_a_workload_that_may_shrink_gets_as_many_pods_as_were_promised() -> None:
    quotas = {A: Quota(9_000)}
    group = ResourceGroup(frozenset({"cpu"}), ("a",))
    team = ClusterQueue("team", groups=(group,), quotas=quotas)
    sets = (PodSet("main", 8, {"cpu": 1_000}, min_count=2),)
    workload = Workload("unit", sets, "team")
    [found] = fitting_into(Snapshot([team], (), [Flavor("a")]), workload, Rules(), {A: 5_500})
    assert found.usage == {A: 5_000}


def test_a_choice_is_found_again_that_comes_late_among_all_choices() -> None:
    """The first quarter of them gives ``a`` to the first two pod sets, and has no room."""
    amounts = (3_000, 4_000, 1, 1, 1, 1, 1, 1)
    team = team_of({A: Quota(0), B: Quota(3_000)})
    snapshot = Snapshot([team], [Cohort("all", quotas={A: Quota(99_000)})], map(Flavor, "ab"))
    workload = Workload("unit", sets_of(amounts), "team")
    promised = next(fitting(snapshot, team, workload, Rules()))
    assert promised.usage == {A: 4_006, B: 3_000}
    found = fitting_into(snapshot, workload, Rules(), promised.usage)
    assert promised.choice in [one.choice for one in found]


def test_the_choices_are_those_of_all_combinations_that_have_room() -> None:
    """With few pod sets, all combinations can be tried."""
    sets = sets_of((3, 1, 2, 2))
    workload = Workload("unit", sets, "team")
    team = team_of({A: Quota(4), B: Quota(5)})
    snapshot = Snapshot([team], (), map(Flavor, "ab"))
    expected = []
    for flavors in product("ab", repeat=len(sets)):
        chosen = {(pods.name, "cpu"): flavor for pods, flavor in zip(sets, flavors, strict=True)}
        one, _ = nominate(snapshot, team, workload, Rules(), chosen)
        if one.mode is Mode.FIT:
            expected.append(one)
    assert 4 < len(expected) < 16
    assert list(fitting_by_set(snapshot, team, workload, Rules())) == expected


def test_a_search_without_result_ends() -> None:
    workload = Workload("unit", sets_of([2] * 40), "team")
    team = team_of({A: Quota(41), B: Quota(37)})
    snapshot = Snapshot([team], (), map(Flavor, "ab"))
    assert list(fitting_by_set(snapshot, team, workload, Rules())) == []
