"""Convert stored objects of queues to the values of ``queues.objects`` and ``queues.quota``.

The objects are valid and defaulted: the API server, or the schemas of a real cluster's
CustomResourceDefinitions, have checked them. A missing value is read as its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from podsched.api import objects as o
from podsched.api.quantity import parse
from podsched.api.queue_labels import BACKFILL
from podsched.queues.amounts import amount
from podsched.queues.objects import (
    Backfill,
    ClusterQueue,
    Flavor,
    Fungibility,
    FungibilityPolicy,
    Policy,
    Preemption,
    ResourceGroup,
    Strategy,
)
from podsched.queues.quota import Cohort, FlavorResource, Quota


def read_flavor(item: o.ResourceFlavor, topologies: Mapping[str, tuple[str, ...]] = {}) -> Flavor:
    """Return a ResourceFlavor as a value; ``topologies``: their levels by name."""
    spec = item.spec
    return Flavor(
        name=item.metadata.name,
        labels=dict(spec.node_labels),
        taints=tuple(spec.node_taints),
        tolerations=tuple(spec.tolerations),
        topology=spec.topology_name,
        levels=topologies.get(spec.topology_name, ()),
    )


def read_cluster_queue(item: o.ClusterQueue) -> ClusterQueue:
    """Return a ClusterQueue as a value. Raises QuantityError."""
    spec = item.spec
    fungibility, preemption = spec.flavor_fungibility, spec.preemption
    borrow = preemption.borrow_within_cohort
    has_threshold = borrow.HasField("max_priority_threshold")
    return ClusterQueue(
        name=item.metadata.name,
        cohort=spec.cohort_name or None,
        groups=tuple(
            ResourceGroup(
                frozenset(group.covered_resources), tuple(each.name for each in group.flavors)
            )
            for group in spec.resource_groups
        ),
        quotas=_quotas(spec.resource_groups),
        strategy=Strategy(spec.queueing_strategy or Strategy.BEST_EFFORT),
        fungibility=Fungibility(
            FungibilityPolicy(fungibility.when_can_borrow or FungibilityPolicy.MAY_STOP),
            FungibilityPolicy(fungibility.when_can_preempt or FungibilityPolicy.TRY_NEXT),
            fungibility.preference == "PreemptionOverBorrowing",
        ),
        preemption=Preemption(
            Policy(preemption.within_cluster_queue or Policy.NEVER),
            Policy(preemption.reclaim_within_cohort or Policy.NEVER),
            borrow.policy == Policy.LOWER,
            borrow.max_priority_threshold if has_threshold else None,
        ),
        weight=_weight(spec.fair_sharing),
        backfill=_backfill(item),
    )


def read_cohort(item: o.Cohort) -> Cohort:
    """Return a Cohort as a value. Raises QuantityError."""
    spec = item.spec
    return Cohort(
        name=item.metadata.name,
        parent=spec.parent_name or None,
        quotas=_quotas(spec.resource_groups),
        weight=_weight(spec.fair_sharing),
    )


def is_stopped(item: o.ClusterQueue | o.LocalQueue) -> bool:
    """Whether a queue admits nothing because of its stopPolicy."""
    return item.spec.stop_policy not in ("", "None")


def read_levels(item: o.Topology) -> tuple[str, ...]:
    """Return the labels of a Topology's levels, the widest first."""
    return tuple(level.node_label for level in item.spec.levels)


def _quotas(groups: Sequence[o.ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor.name, quota.name): _quota(quota)
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _quota(quota: o.FlavorResourceQuota) -> Quota:
    def limit(name: str) -> int | None:
        return amount(quota.name, getattr(quota, name)) if quota.HasField(name) else None

    nominal = amount(quota.name, quota.nominal_quota)
    return Quota(nominal, limit("borrowing_limit"), limit("lending_limit"))


def _backfill(item: o.ClusterQueue) -> Backfill | None:
    """Return the policy of a queue; None with StrictFIFO, where no unit may overtake another."""
    text = item.metadata.annotations.get(BACKFILL, "")
    if item.spec.queueing_strategy == Strategy.STRICT or text not in tuple(Backfill):
        return None
    return Backfill(text)


def _weight(sharing: o.FairSharing) -> Fraction:
    return parse(sharing.weight) if sharing.HasField("weight") else Fraction(1)
