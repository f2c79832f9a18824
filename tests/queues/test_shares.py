"""Dominant resource share."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from podsched.api.quantity import MAX_INT64
from podsched.queues.objects import ClusterQueue
from podsched.queues.quota import Cohort, FlavorResource, Quota
from podsched.queues.shares import Share, dominant_share
from podsched.queues.snapshot import Snapshot
from support.examples import examples
from support.queue_trees import CPU, nodes, snapshots

GPU = FlavorResource("default", "gpu")
SPOT = FlavorResource("spot", "cpu")


def share(
    usage: dict[FlavorResource, int],
    quotas: dict[FlavorResource, int],
    lent: dict[FlavorResource, int],
    weight: Fraction = Fraction(1),
) -> Share:
    """Return the share of a queue in a cohort with a queue that lends."""
    of_queue = {key: Quota(quota) for key, quota in quotas.items()}
    of_lender = {key: Quota(quota) for key, quota in lent.items()}
    queue = ClusterQueue("q", "team", quotas=of_queue, weight=weight)
    snapshot = Snapshot([queue, ClusterQueue("lender", "team", quotas=of_lender)])
    snapshot.add_usage("q", usage)
    return dominant_share(snapshot.node("q"))


def test_it_is_what_is_borrowed_in_thousandths_of_what_can_be_lent() -> None:
    assert share({GPU: 7}, {GPU: 5}, {GPU: 5}).rounded == 200
    assert share({GPU: 7}, {GPU: 5}, {GPU: 5}, Fraction(2)).rounded == 100
    assert share({GPU: 5}, {GPU: 5}, {GPU: 5}) == Share()


def test_the_resource_that_is_borrowed_most_decides_over_all_its_flavors() -> None:
    quotas = {CPU: 0, SPOT: 0, GPU: 0}
    found = share({CPU: 2, SPOT: 2, GPU: 3}, quotas, {CPU: 5, SPOT: 5, GPU: 10})
    assert (found.resource, found.rounded) == ("cpu", 400)


def test_it_is_shown_rounded_up() -> None:
    assert share({GPU: 501}, {GPU: 500}, {GPU: 1500}).rounded == 1


def test_weight_zero_comes_after_all_others_once_it_borrows() -> None:
    idle, borrowing = (share({GPU: used}, {GPU: 5}, {GPU: 5}, Fraction(0)) for used in (5, 6))
    assert idle.rank == (False, 0)
    assert borrowing.rounded == MAX_INT64
    assert borrowing.rank > share({GPU: 10}, {GPU: 5}, {GPU: 5}, Fraction(1, 10**9)).rank
    assert borrowing.rank < share({GPU: 7}, {GPU: 5}, {GPU: 5}, Fraction(0)).rank


def test_a_request_counts_as_used() -> None:
    snapshot = Snapshot([ClusterQueue("q", "team")], [Cohort("team", None, {GPU: Quota(10)})])
    assert dominant_share(snapshot.node("q"), {GPU: 5}).rounded == 0
    quotas = {GPU: Quota()}
    snapshot = Snapshot(
        [ClusterQueue("q", "team", quotas=quotas)], [Cohort("team", None, {GPU: Quota(10)})]
    )
    assert dominant_share(snapshot.node("q"), {GPU: 5}).rounded == 500


@given(snapshots(), st.data())
@examples(200)
def test_a_node_has_a_share_only_while_it_borrows_and_a_root_never(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    for name in sorted(snapshot.queues):
        snapshot.add_usage(name, {CPU: data.draw(st.integers(0, 12))})
    for node in nodes(snapshot):
        found = dominant_share(node)
        assert bool(found.borrowed) == (node.parent is not None and node.borrows(CPU))
        assert found.ratio == 0 or found.borrowed
