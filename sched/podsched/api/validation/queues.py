"""ResourceFlavors, queues, cohorts, their priorities and topologies, with Kueue's rules.

Source: config/components/crd and pkg/webhooks of Kueue 0.20. Beyond Kueue, the bounds on flavors
and resources of a ClusterQueue hold for a Cohort, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

from podsched.api import objects as o
from podsched.api.codec import write
from podsched.api.names import dns1123_subdomain, label_value, qualified_name
from podsched.api.node_labels import HOSTNAME
from podsched.api.queue_labels import BACKFILL, DEFAULT_EXEC_TIME, LONGEST_EXEC_TIME
from podsched.api.validation.meta import (
    validate_conditions,
    validate_label_selector,
    validate_labels,
)
from podsched.api.validation.place import Place
from podsched.api.validation.placement import TAINT_EFFECTS, validate_tolerations
from podsched.api.validation.resource_lists import not_negative, validate_quantities

#: Labels, taints and tolerations of a flavor.
_MOST_OF_FLAVOR: Final = 8
_MOST_GROUPS: Final = 16
#: Resources or flavors of a group, flavors of a status, or admission checks.
_MOST_OF_GROUP: Final = 64
_MOST_IN_ALL: Final = 256
_MOST_PAIRS: Final = 512
_MOST_CONDITIONS: Final = 16
_MOST_LEVELS: Final = 16
_MOST_LABEL: Final = 316
_MOST_DESCRIPTION: Final = 2048

_EFFECTS: Final = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
_UNIQUE_TAINTS: Final = "taints must be unique by key and effect pair"
#: A weight that is not 0 is more than this.
_LEAST_WEIGHT: Final = Fraction(1, 10**9)
_BACKFILL: Final = ("Conservative", "EASY")
_NOT_STRICT: Final = "needs spec.queueingStrategy BestEffortFIFO: nothing passes a StrictFIFO head"
#: Digits of a number of seconds.
_MOST_DIGITS: Final = 10
_STOP_POLICIES: Final = ("None", "Hold", "HoldAndDrain")
_SEARCH: Final = ("MayStopSearch", "TryNextFlavor")


# ------------------------------------------------------------------ flavors


def validate_resource_flavor(at: Place, item: o.ResourceFlavor) -> None:
    """Validate labels, taints, tolerations and the name of the topology."""
    spec, at = item.spec, at("spec")
    if at("nodeLabels").bounded(spec.node_labels, _MOST_OF_FLAVOR):
        validate_labels(at("nodeLabels"), spec.node_labels)
    _check_taints(at("nodeTaints"), spec.node_taints)
    if at("tolerations").bounded(spec.tolerations, _MOST_OF_FLAVOR):
        validate_tolerations(at("tolerations"), spec.tolerations)
    if spec.HasField("topology_name"):
        at("topologyName").name(spec.topology_name, dns1123_subdomain)
        if not spec.node_labels:
            at.invalid(write(spec), "at least one nodeLabel is required when topology is set")


def validate_resource_flavor_update(
    at: Place, new: o.ResourceFlavor, old: o.ResourceFlavor
) -> None:
    """Check that the topology stays once there is one."""
    if old.spec.HasField("topology_name") and new.spec.topology_name != old.spec.topology_name:
        reason = "topologyName is immutable when topologyName is set"
        at("spec").invalid(write(new.spec), reason)


def _check_taints(at: Place, taints: Sequence[o.Taint]) -> None:
    seen: set[tuple[str, str]] = set()
    for each, taint in at.each(taints, _MOST_OF_FLAVOR):
        each("key").rule(taint.key, qualified_name)
        each("value").rule(taint.value, label_value)
        if each("effect").present(taint.effect) and taint.effect not in TAINT_EFFECTS:
            each("effect").invalid(taint.effect, _EFFECTS)
        each.once((taint.key, taint.effect), seen, taint, _UNIQUE_TAINTS)


# ------------------------------------------------------------------ ClusterQueues


def validate_cluster_queue(at: Place, item: o.ClusterQueue) -> None:
    """Validate quota, cohort, order, policies, weight, checks and annotations about time."""
    _check_times(at("metadata.annotations"), item)
    spec, at = item.spec, at("spec")
    missing = "" if spec.cohort_name else "cohort"
    check_quota = partial(_check_quota, missing=missing, lends_within_nominal=True)
    _check_groups(at("resourceGroups"), spec.resource_groups, check_quota)
    at("cohortName").optional_name(spec.cohort_name, dns1123_subdomain)
    at("queueingStrategy").one_of(spec.queueing_strategy, ("StrictFIFO", "BestEffortFIFO"))
    validate_label_selector(at("namespaceSelector"), spec.namespace_selector)
    _check_fungibility(at("flavorFungibility"), spec.flavor_fungibility)
    _check_preemption(at("preemption"), spec.preemption)
    at("stopPolicy").one_of(spec.stop_policy, _STOP_POLICIES)
    _check_fair_sharing(at("fairSharing"), spec.fair_sharing)
    if spec.HasField("admission_scope"):
        mode = at("admissionScope.admissionMode")
        modes = ("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
        mode.one_of(spec.admission_scope.admission_mode, modes, required=True)
    if spec.HasField("admission_checks_strategy"):
        _check_checks(at("admissionChecksStrategy.admissionChecks"), spec)


def _check_times(at: Place, item: o.ClusterQueue) -> None:
    """Check the annotations about backfill and execution times."""
    found = item.metadata.annotations
    for name in (DEFAULT_EXEC_TIME, LONGEST_EXEC_TIME):
        text = found.get(name, "1")
        digits = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
        if not digits or int(text) == 0:
            reason = f"must be a number of seconds above 0, of at most {_MOST_DIGITS} digits"
            at[name].invalid(text, reason)
    if BACKFILL not in found:
        return
    policy = found[BACKFILL]
    if policy not in _BACKFILL:
        at[BACKFILL].not_supported(policy, _BACKFILL)
    elif item.spec.queueing_strategy == "StrictFIFO":
        at[BACKFILL].invalid(policy, _NOT_STRICT)


def validate_cluster_queue_update(at: Place, new: o.ClusterQueue, old: o.ClusterQueue) -> None:
    """Check that the policy for concurrent admission stays."""
    policy = new.spec.concurrent_admission_policy
    at("spec.concurrentAdmissionPolicy").fixed(policy, old.spec.concurrent_admission_policy, None)


def _check_fungibility(at: Place, fungibility: o.FlavorFungibility) -> None:
    borrow, preempt = fungibility.when_can_borrow, fungibility.when_can_preempt
    at("whenCanBorrow").one_of(borrow, _SEARCH)
    at("whenCanPreempt").one_of(preempt, _SEARCH)
    if fungibility.HasField("preference"):
        preferences = ("BorrowingOverPreemption", "PreemptionOverBorrowing")
        if fungibility.preference not in preferences:
            at("preference").not_supported(fungibility.preference, preferences)
        if not borrow == preempt == "TryNextFlavor":
            at.invalid(
                write(fungibility),
                "preference can only be set when both whenCanBorrow and whenCanPreempt are "
                "TryNextFlavor",
            )


def _check_preemption(at: Place, preemption: o.ClusterQueuePreemption) -> None:
    within, reclaim = preemption.within_cluster_queue, preemption.reclaim_within_cohort
    borrow = preemption.borrow_within_cohort.policy
    newer = "LowerOrNewerEqualPriority"
    at("withinClusterQueue").one_of(within, ("Never", "LowerPriority", newer))
    at("reclaimWithinCohort").one_of(reclaim, ("Never", "LowerPriority", "Any"))
    at("borrowWithinCohort.policy").one_of(borrow, ("Never", "LowerPriority"))
    if reclaim == "Never" and borrow != "Never":
        reason = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        at.invalid(write(preemption), reason)


def _check_checks(at: Place, spec: o.ClusterQueueSpec) -> None:
    flavors = {flavor.name for group in spec.resource_groups for flavor in group.flavors}
    checks = spec.admission_checks_strategy.admission_checks
    at.present(checks)
    seen: set[str] = set()
    for each, check in at.each(checks, _MOST_OF_GROUP):
        each("name").name(check.name, dns1123_subdomain)
        each.once(check.name, seen, check)
        named: set[str] = set()
        for flavor_at, flavor in each("onFlavors").each(check.on_flavors, _MOST_OF_GROUP):
            flavor_at.once(flavor, named)
            if flavor not in flavors:
                flavor_at.not_supported(flavor, sorted(flavors)[:_MOST_OF_GROUP])


def validate_cluster_queue_status(at: Place, item: o.ClusterQueue) -> None:
    """Validate conditions, usage and counts."""
    _check_status(at("status"), item.status)


# ------------------------------------------------------------------ LocalQueues


def validate_local_queue(at: Place, item: o.LocalQueue) -> None:
    """Validate the name of the ClusterQueue, the policy and the weight."""
    spec, at = item.spec, at("spec")
    at("clusterQueue").optional_name(spec.cluster_queue, dns1123_subdomain)
    at("stopPolicy").one_of(spec.stop_policy, _STOP_POLICIES)
    _check_fair_sharing(at("fairSharing"), spec.fair_sharing)


def validate_local_queue_update(at: Place, new: o.LocalQueue, old: o.LocalQueue) -> None:
    """Check that the ClusterQueue stays once there is one."""
    queue = new.spec.cluster_queue
    if old.spec.cluster_queue:
        at("spec.clusterQueue").fixed(queue, old.spec.cluster_queue, queue)


def validate_local_queue_status(at: Place, item: o.LocalQueue) -> None:
    """Validate conditions, usage, counts and past usage."""
    status, at = item.status, at("status")
    _check_status(at, status)
    consumed = status.fair_sharing.admission_fair_sharing_status.consumed_resources
    where = at("fairSharing.admissionFairSharingStatus.consumedResources")
    validate_quantities(where, consumed)


# ------------------------------------------------------------------ Cohorts


def validate_cohort(at: Place, item: o.Cohort) -> None:
    """Validate quota, parent and weight. A cycle of parents is allowed: it stops admission."""
    spec, at = item.spec, at("spec")
    missing = "" if spec.parent_name else "parent"
    check_quota = partial(_check_quota, missing=missing, lends_within_nominal=False)
    _check_groups(at("resourceGroups"), spec.resource_groups, check_quota)
    at("parentName").optional_name(spec.parent_name, dns1123_subdomain)
    _check_fair_sharing(at("fairSharing"), spec.fair_sharing)


# ------------------------------------------------------------------ priorities and topologies


def validate_workload_priority_class(at: Place, item: o.WorkloadPriorityClass) -> None:
    """Check that the description is not too long."""
    at("description").within(len(item.description), _MOST_DESCRIPTION)


def validate_topology(at: Place, item: o.Topology) -> None:
    """Validate the levels: labels, each once, a node's name at the lowest alone."""
    levels, at = item.spec.levels, at("spec.levels")
    at.present(levels)
    for each, level in at.each(levels, _MOST_LEVELS):
        if each("nodeLabel").within(len(level.node_label), _MOST_LABEL):
            each("nodeLabel").name(level.node_label, qualified_name)
    labels = [level.node_label for level in levels[:_MOST_LEVELS]]
    if len(set(labels)) < len(labels):
        at.invalid(labels, "must be unique")
    if HOSTNAME in labels[:-1]:
        reason = f"the {HOSTNAME} label can only be used at the lowest level of topology"
        at.invalid(labels, reason)


def validate_topology_update(at: Place, new: o.Topology, old: o.Topology) -> None:
    """Check that levels change only above the names of nodes."""
    before, after = ([each.node_label for each in item.spec.levels] for item in (old, new))
    if after != before and not after[-1:] == before[-1:] == [HOSTNAME]:
        at("spec.levels").invalid(
            after[:_MOST_LEVELS],
            f"levels are mutable only when {HOSTNAME} is the lowest level both before and after "
            "the change",
        )


# ------------------------------------------------------------------ parts


_CheckQuota = Callable[[Place, o.FlavorResourceQuota], None]


def _check_groups(at: Place, groups: Sequence[o.ResourceGroup], check_quota: _CheckQuota) -> None:
    if not at.bounded(groups, _MOST_GROUPS):
        return
    flavors = sum(len(group.flavors) for group in groups)
    resources = sum(len(group.covered_resources) for group in groups)
    for what, total in (("flavors", flavors), ("covered resources", resources)):
        if total > _MOST_IN_ALL:
            reason = (
                f"total number of {what} across all resourceGroups must be ≤ {_MOST_IN_ALL}, "
                f"got {total}"
            )
            at.invalid(total, reason)
    seen: set[tuple[str, str]] = set()
    for each, group in at.each(groups):
        _check_group(each, group, check_quota, seen)


def _check_group(
    at: Place, group: o.ResourceGroup, check_quota: _CheckQuota, seen: set[tuple[str, str]]
) -> None:
    """Check a group. seen: its resources and flavors are added, which occur in one group only."""
    names, pairs = group.covered_resources, sum(len(f.resources) for f in group.flavors)
    if pairs > _MOST_PAIRS:
        at.invalid(
            pairs,
            "number of flavor-resource combinations in a resourceGroup must be "
            f"≤ {_MOST_PAIRS}, got {pairs}",
        )
        return
    at("coveredResources").present(names)
    at("flavors").present(group.flavors)
    for each, name in at("coveredResources").each(names, _MOST_OF_GROUP):
        each.rule(name, qualified_name)
        each.once(("resource", name), seen, name)
    if any(len(flavor.resources) != len(names) for flavor in group.flavors):
        at.invalid("", "flavors must have the same number of resources as the coveredResources")
    for each, flavor in at("flavors").each(group.flavors, _MOST_OF_GROUP):
        each("name").name(flavor.name, dns1123_subdomain)
        each("name").once(("flavor", flavor.name), seen, flavor.name)
        for (quota_at, quota), name in zip(
            each("resources").each(flavor.resources, _MOST_OF_GROUP), names, strict=False
        ):
            if quota.name != name:
                quota_at("name").invalid(quota.name, "must match the name in coveredResources")
            check_quota(quota_at, quota)


def _check_quota(
    at: Place, quota: o.FlavorResourceQuota, *, missing: str, lends_within_nominal: bool
) -> None:
    """Check a quota.

    missing: what there are no limits without, if that is not set. lends_within_nominal: whether no
    more than the nominal quota may be lent.
    """
    if not at("nominalQuota").present(quota.nominal_quota):
        return
    nominal = not_negative(at("nominalQuota"), quota.nominal_quota)
    for name, path in (("borrowing_limit", "borrowingLimit"), ("lending_limit", "lendingLimit")):
        if not quota.HasField(name):
            continue
        text, where = getattr(quota, name), at(path)
        limit = not_negative(where, text)
        if missing:
            where.invalid(text, f"must be nil when {missing} is empty")
        too_much = nominal is not None and limit is not None and limit > nominal
        if name == "lending_limit" and lends_within_nominal and too_much:
            where.invalid(text, "must be less than or equal to the nominalQuota")


def _check_fair_sharing(at: Place, sharing: o.FairSharing) -> None:
    if not sharing.HasField("weight"):
        return
    weight = not_negative(at("weight"), sharing.weight)
    if weight is not None and 0 < weight <= _LEAST_WEIGHT:
        at("weight").invalid(sharing.weight, "When not 0, weight must be > 10e-9")


def _check_status(at: Place, status: o.ClusterQueueStatus | o.LocalQueueStatus) -> None:
    """Validate the status that both kinds of queues have."""
    validate_conditions(at("conditions"), status.conditions, _MOST_CONDITIONS)
    for name in ("pending", "reserving", "admitted"):
        at(f"{name}Workloads").least(getattr(status, f"{name}_workloads"))
    _check_usage(at("flavorsReservation"), status.flavors_reservation)
    _check_usage(at("flavorsUsage"), status.flavors_usage)


def _check_usage(at: Place, flavors: Sequence[o.FlavorUsage]) -> None:
    for each, flavor in at.each(flavors, _MOST_OF_GROUP):
        each("name").name(flavor.name, dns1123_subdomain)
        for resource_at, resource in each("resources").each(flavor.resources, _MOST_OF_GROUP):
            resource_at("name").name(resource.name, qualified_name)
            not_negative(resource_at("total"), resource.total or "0")
            not_negative(resource_at("borrowed"), resource.borrowed or "0")
