"""Which flavors a workload gets."""

from __future__ import annotations

import pytest

from podsched.api.objects import Taint, Toleration
from podsched.api.selectors import requirement
from podsched.queues.assignment import Assignment, Mode, Outcome, Waiting
from podsched.queues.flavors import Assigner
from podsched.queues.objects import (
    ClusterQueue,
    Flavor,
    Fungibility,
    FungibilityPolicy,
    PodSet,
    ResourceGroup,
    Workload,
)
from podsched.queues.quota import FlavorResource, Quota
from podsched.queues.snapshot import Snapshot

SPOT = Taint(key="spot", value="yes", effect="NoSchedule")
FLAVORS = [
    Flavor("one", {"type": "one"}),
    Flavor("two", {"type": "two"}),
    Flavor("spot", {"type": "spot"}, (SPOT,)),
]


def assign(
    *pod_sets: PodSet,
    quotas: dict[str, int],
    used: dict[str, int] | None = None,
    lent: int = 0,
    fungibility: Fungibility = Fungibility(),
    outcome: tuple[Outcome, int] = (Outcome.NO_CANDIDATES, 0),
    tried: dict[str, dict[str, int]] | None = None,
) -> Assignment:
    """Return the flavors in a queue of CPU quotas by flavor; another one lends the same of each."""
    resources = frozenset(("cpu", "pods")) if "pods" in quotas else frozenset(("cpu",))
    group = ResourceGroup(resources, tuple(name for name in quotas if name != "pods"))
    keys = {FlavorResource(name, "cpu"): Quota(quota) for name, quota in quotas.items()}
    if "pods" in quotas:
        keys |= {FlavorResource(name, "pods"): Quota(quotas["pods"]) for name in group.flavors}
    queue = ClusterQueue("q", "team", (group,), keys, fungibility=fungibility)
    lender = ClusterQueue("lender", "team", (group,), dict.fromkeys(keys, Quota(lent)))
    snapshot = Snapshot([queue, lender], (), FLAVORS)
    for name, amount in (used or {}).items():
        snapshot.add_usage("q", {FlavorResource(name, "cpu"): amount})
    workload = Workload("w", pod_sets, tried=tried or {})
    return Assigner(snapshot, queue, workload, lambda *_: outcome).assign()


def pods(count: int, name: str = "main", **other: object) -> PodSet:
    return PodSet(name, count, {"cpu": 1000}, **other)  # type: ignore[arg-type]


def chosen(assignment: Assignment) -> list[dict[str, str]]:
    return [
        {resource: one.flavor for resource, one in pods.flavors.items()}
        for pods in assignment.pod_sets
    ]


def test_the_first_flavor_with_quota_is_taken() -> None:
    assignment = assign(pods(2), quotas={"one": 1000, "two": 2000})
    assert chosen(assignment) == [{"cpu": "two"}]
    assert assignment.mode is Mode.FIT
    assert assignment.message == ""


def test_pod_sets_see_what_the_ones_before_them_take() -> None:
    assignment = assign(pods(2), pods(2, "more"), quotas={"one": 3000, "two": 2000})
    assert chosen(assignment) == [{"cpu": "one"}, {"cpu": "two"}]


def test_the_search_ends_with_the_first_pod_set_that_gets_no_flavor() -> None:
    assignment = assign(pods(9), pods(1, "more"), quotas={"one": 3000})
    assert [pods.name for pods in assignment.pod_sets] == ["main"]


def test_pod_sets_of_a_group_get_one_flavor() -> None:
    group = (pods(2, group="g"), pods(2, "more", group="g"))
    assert chosen(assign(*group, quotas={"one": 3000, "two": 4000})) == [{"cpu": "two"}] * 2


def test_pods_count_if_a_group_covers_them() -> None:
    assignment = assign(pods(2), quotas={"one": 9000, "pods": 1})
    assert assignment.mode is Mode.NO_FIT
    assert assignment.waiting is Waiting.EXCEEDS_MAX_QUOTA
    assert assignment.pod_sets[0].reasons == (
        "insufficient quota for pods in flavor one, previously considered podsets requests (0) + "
        "current podset request (2) > maximum capacity (1)",
    )


def test_borrowing_stops_the_search_unless_the_next_flavor_is_to_be_tried() -> None:
    quotas = {"one": 1000, "two": 2000}
    assert chosen(assign(pods(2), quotas=quotas, lent=5000)) == [{"cpu": "one"}]
    next_one = Fungibility(FungibilityPolicy.TRY_NEXT)
    assert chosen(assign(pods(2), quotas=quotas, lent=5000, fungibility=next_one)) == [
        {"cpu": "two"}
    ]


@pytest.mark.parametrize(("over_borrowing", "flavor"), [(False, "two"), (True, "one")])
def test_preemption_is_preferred_to_borrowing_if_it_is_to_be(
    over_borrowing: bool, flavor: str
) -> None:
    fungibility = Fungibility(
        FungibilityPolicy.TRY_NEXT, FungibilityPolicy.TRY_NEXT, over_borrowing
    )
    assignment = assign(
        pods(2),
        quotas={"one": 2000, "two": 1000},
        used={"one": 7000},
        lent=5000,
        fungibility=fungibility,
        outcome=(Outcome.PREEMPT, 0),
    )
    assert chosen(assignment) == [{"cpu": flavor}]


def test_a_search_goes_on_after_the_flavors_that_were_tried() -> None:
    assignment = assign(pods(1), quotas={"one": 1000, "two": 1000, "spot": 1000})
    assert assignment.untried
    assert assignment.tried == {"main": {"cpu": 1}}
    assert not assign(pods(1), quotas={"one": 1000}).untried


def test_pod_sets_that_share_their_flavors_go_on_where_the_last_search_ended() -> None:
    """Also if the first of them requests nothing of what the search is for."""
    both = PodSet("leader", 1, {}, group="all"), PodSet("workers", 1, {"cpu": 1000}, group="all")
    quotas, searches = {"one": 1000, "two": 1000}, list[Assignment]()
    for _ in range(2):
        tried = searches[-1].tried if searches else None
        searches.append(assign(*both, quotas=quotas, tried=tried))
    assert [each.pod_sets[1].flavors["cpu"].flavor for each in searches] == ["one", "two"]


def test_a_search_ends_although_each_pod_set_makes_the_other_one_start_again() -> None:
    """On flavor one there is room for either of them, and on two for neither."""
    both = pods(1, "a"), pods(1, "b")
    quotas, used = {"one": 2000, "two": 2000}, {"one": 1000, "two": 2000}
    assignment = assign(*both, quotas=quotas, used=used)
    searches = 1
    while assignment.untried and searches < 9:
        assignment = assign(*both, quotas=quotas, used=used, tried=assignment.tried)
        searches += 1
    assert searches == 2


def test_a_pod_set_that_a_search_did_not_reach_gets_a_flavor_in_the_next_one() -> None:
    three = pods(1, "a"), pods(2, "b"), pods(0, "c")
    quotas = {"one": 2000, "two": 1000}
    first = assign(*three, quotas=quotas)
    assert chosen(first) == [{"cpu": "one"}, {}]
    second = assign(*three, quotas=quotas, tried=first.tried)
    assert chosen(second) == [{"cpu": "two"}, {"cpu": "one"}, {"cpu": "one"}]


def test_each_pod_set_goes_on_with_its_own_flavors_in_whatever_order_they_are_grouped() -> None:
    """``b`` has tried both flavors, and those of the group only the first one."""
    sets = pods(1, "a", group="g"), pods(3, "b"), pods(1, "c", group="g")
    first = assign(*sets, quotas={"one": 2000, "two": 3000})
    assert first.tried == {"a": {"cpu": 1}, "b": {"cpu": 0}, "c": {"cpu": 1}}
    second = assign(*sets, quotas={"one": 3000, "two": 2000}, tried=first.tried)
    assert chosen(second) == [{"cpu": "two"}, {"cpu": "two"}, {"cpu": "one"}]


def test_taints_and_labels_keep_pods_from_a_flavor() -> None:
    quotas = {"spot": 1000, "one": 1000}
    assert chosen(assign(pods(1), quotas=quotas)) == [{"cpu": "one"}]
    tolerant = pods(1, tolerations=(Toleration(key="spot", operator="Exists"),))
    assert chosen(assign(tolerant, quotas=quotas)) == [{"cpu": "spot"}]
    only_two = pods(1, affinity=((requirement("type", "In", ("two",)),),))
    assert assign(only_two, quotas=quotas).message == (
        "couldn't assign flavors to pod set main: flavor one doesn't match node affinity, "
        "untolerated taint {spot yes NoSchedule <nil>} in flavor spot"
    )
    assert assign(only_two, quotas=quotas).waiting is Waiting.NO_MATCHING_FLAVOR
    # Labels that are not the flavor's own say nothing about its nodes.
    assert assign(pods(1, node_selector={"zone": "z"}), quotas=quotas).mode is Mode.FIT


def test_a_resource_without_a_group_is_unavailable_unless_it_is_zero() -> None:
    gpu = PodSet("main", 1, {"gpu": 1})
    assignment = assign(gpu, quotas={"one": 1000})
    assert assignment.message.endswith("resource gpu unavailable in ClusterQueue")
    assert assignment.waiting is Waiting.NO_MATCHING_FLAVOR
    assert assign(PodSet("main", 1, {"gpu": 0, "cpu": 1}), quotas={"one": 1}).mode is Mode.FIT


def test_pods_that_ask_for_a_topology_need_a_resource_that_has_a_flavor() -> None:
    """They would be placed anywhere, because no flavor says what the domains are."""
    found = assign(PodSet("main", 2, {}, level="zone"), quotas={"one": 8000})
    assert found.mode is Mode.NO_FIT
    assert "request no resource of a flavor" in found.message
    assert assign(PodSet("main", 2, {}), quotas={"one": 8000}).mode is Mode.FIT


def test_the_mildest_reason_of_the_alternatives_is_shown() -> None:
    assignment = assign(pods(2), quotas={"spot": 9000, "one": 1000})
    assert assignment.waiting is Waiting.EXCEEDS_MAX_QUOTA
