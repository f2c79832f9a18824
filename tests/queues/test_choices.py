"""Choices of flavors that take no more than was promised."""

from __future__ import annotations

from podsched.queues.choices import fitting, fitting_into
from podsched.queues.cycle import Rules
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


def test_a_choice_is_found_again_that_was_preferred_because_it_borrows_nothing() -> None:
    """With 8 pod sets, only the first quarter of all choices are tried one by one."""
    try_next = Fungibility(when_can_borrow=FungibilityPolicy.TRY_NEXT)
    group = ResourceGroup(frozenset({"cpu"}), ("a", "b"))
    quotas = {A: Quota(7_000), B: Quota(13_005)}
    team = ClusterQueue("team", "all", (group,), quotas, fungibility=try_next)
    snapshot = Snapshot([team], [Cohort("all", quotas={A: Quota(99_000)})], map(Flavor, "ab"))
    amounts = (8_000, 3_000, 5_000, 1, 1, 1, 1, 1)
    sets = (PodSet(f"set-{index}", 1, {"cpu": one}) for index, one in enumerate(amounts))
    workload = Workload("unit", tuple(sets), "team")
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
