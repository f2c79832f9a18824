"""Assign flavors to a workload: a search through the flavors of each resource group.

Source: Kueue 0.20, pkg/scheduler/flavorassigner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podsched.api.objects import Taint
from podsched.api.tolerations import find_untolerated
from podsched.lib.groups import lists_by_key
from podsched.queues.amounts import amount_text
from podsched.queues.assignment import (
    SEVERITY,
    Assigned,
    Assignment,
    Outcome,
    PodSetAssignment,
    Waiting,
)
from podsched.queues.objects import (
    PODS,
    ClusterQueue,
    Flavor,
    Fungibility,
    FungibilityPolicy,
    PodSet,
    Policy,
    ResourceGroup,
    Workload,
)
from podsched.queues.quota import FlavorResource, borrowing_level
from podsched.queues.snapshot import Snapshot

#: Returns what preemption for a flavor and resource achieves, and the borrowing level afterwards.
Oracle = Callable[[FlavorResource, int], tuple[Outcome, int]]
_NO_TOPOLOGY: Final = (
    "the pods ask for a Topology, but request no resource of a flavor that has one"
)


@dataclass(frozen=True, slots=True)
class Assigner:
    """The search for the flavors of one workload."""

    snapshot: Snapshot
    queue: ClusterQueue
    workload: Workload
    oracle: Oracle
    fair: bool = False
    nominated: Mapping[tuple[str, str], str] | None = None
    """The only flavor to try, by pod set and resource."""

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """Return the flavors of the pod sets, with ``counts`` pods in place of all that wait.

        Pod sets of one group get their flavors together. The usage of each group counts for the
        next one. The search ends with the first group that gets no flavor.
        """
        counts = counts or [pods.count for pods in self.workload.pod_sets]
        numbered = enumerate(self.workload.pod_sets)
        groups = lists_by_key((pods.group or index, index) for index, pods in numbered)
        done: list[PodSetAssignment] = []
        # Added up, not computed anew for each group: each pod of a unit may be a group of its own.
        taken = Counter[FlavorResource]()
        for members in groups.values():
            of_group = self._assign_group(members, counts, taken)
            done += of_group
            taken.update(Assignment(tuple(of_group)).usage)
            if any(pods.reasons and not pods.flavors for pods in of_group):
                break
        return Assignment(tuple(done))

    def _assign_group(
        self, members: Sequence[int], counts: Sequence[int], taken: Mapping[FlavorResource, int]
    ) -> list[PodSetAssignment]:
        """Return the assignments of the pod sets of one group, given by their indexes.

        ``taken``: what earlier groups of the workload use.
        """
        requests = {index: self._requests(index, counts[index]) for index in members}
        total = Counter[str]()
        for of_one in requests.values():
            total.update(of_one)
        flavors: dict[str, Assigned] = {}
        reasons: list[str] = []
        waiting: list[Waiting | None] = []
        for resource in sorted(total):
            group = self.queue.group(resource)
            # One search finds the flavor for all resources of a resource group. As in Kueue, a
            # request of 0 needs no group.
            if resource in flavors or (group is None and not total[resource]):
                continue
            if group is None:
                reasons = [f"resource {resource} unavailable in ClusterQueue"]
                flavors, waiting = {}, [Waiting.NO_MATCHING_FLAVOR]
                break
            search = _Search(self, group, members, resource)
            found = search.run({r: n for r, n in total.items() if r in group.resources}, taken)
            waiting.append(search.waiting)
            if not found:
                flavors, reasons = {}, search.reasons
                break
            flavors |= found
            reasons += search.reasons
        sets = [self.workload.pod_sets[index] for index in members]
        asks = any(one.level or one.in_topology for one in sets)
        levels = (self.snapshot.flavors[one.flavor].levels for one in flavors.values())
        if asks and (flavors or not reasons) and not any(levels):
            # A Topology belongs to a flavor; without it the level would be ignored.
            flavors, reasons, waiting = {}, [_NO_TOPOLOGY], [Waiting.NO_MATCHING_FLAVOR]
        text = tuple(sorted(reasons))
        worst = max(waiting, key=SEVERITY.index, default=None)
        return [
            PodSetAssignment(
                self.workload.pod_sets[index].name,
                counts[index],
                requests[index],
                {
                    resource: flavors[resource]
                    for resource in requests[index]
                    if resource in flavors
                },
                text,
                worst,
            )
            for index in members
        ]

    def _requests(self, index: int, count: int) -> dict[str, int]:
        requests = self.workload.pod_sets[index].total(count)
        if self.queue.group(PODS) is not None:
            requests[PODS] = count
        return requests


#: An outcome and its borrowing level; Kueue's ``granularMode``.
_Granular = tuple[Outcome, int]


class _Search:
    """The search through the flavors of one resource group, for pod sets that share a flavor."""

    def __init__(
        self, assigner: Assigner, group: ResourceGroup, members: Sequence[int], resource: str
    ) -> None:
        self._assigner = assigner
        self._group = group
        self._pod_sets = [assigner.workload.pod_sets[index] for index in members]
        self._resource = resource
        self.reasons: list[str] = []
        """Why flavors do not fit; none if the best one fits."""
        self.waiting: Waiting | None = None
        """The mildest reason of the flavors that do not fit."""

    def run(
        self, requests: Mapping[str, int], taken: Mapping[FlavorResource, int]
    ) -> dict[str, Assigned]:
        """Return the best flavor for each resource; empty if no flavor can be used."""
        assigner = self._assigner
        best: dict[str, Assigned] = {}
        best_mode: _Granular = (Outcome.NO_FIT, 0)
        failed: list[Waiting | None] = []
        names = self._group.flavors
        # The pod sets of a group share their flavor, so each that requests the resource says what
        # was tried. The last search may have ended before it reached them.
        known = assigner.workload.tried
        of_members = (known.get(pods.name, {}) for pods in self._pod_sets)
        tried = [of for of in of_members if self._resource in of]
        first = tried[0][self._resource] if tried else 0
        index = first - 1
        for index in range(first, len(names)):
            name = names[index]
            if reason := self._unsuitable(name):
                self.reasons.append(reason)
                # A skipped flavor is no reason why the workload waits.
                if not reason.startswith("skipping"):
                    failed.append(Waiting.NO_MATCHING_FLAVOR)
                continue
            found, mode, waiting = self._try(name, requests, taken)
            if mode[0] is Outcome.NO_FIT:
                failed.append(waiting)
            if not _try_next(mode, assigner.queue.fungibility):
                best, best_mode = found, mode
                break
            if _preferred(mode, best_mode, assigner.queue.fungibility):
                best, best_mode = found, mode
        # Flavors are alternatives, so the mildest reason counts. Resource groups are all needed, so
        # of their reasons the most severe counts (``_assign_group``).
        self.waiting = min(failed, key=SEVERITY.index, default=None)
        if best_mode[0] is Outcome.FIT:
            self.reasons = []
        # 0 also if the queue has lost flavors since, and there was none to try.
        after = 0 if index >= len(names) - 1 else index + 1
        if tried and first == 0:
            # All were tried, and only other pod sets have flavors left. Unlike in Kueue they are
            # not tried once more: two pod sets could make each other start again without end.
            after = 0
        return {
            resource: Assigned(one.flavor, one.mode, one.level, after)
            for resource, one in best.items()
        }

    def _unsuitable(self, name: str) -> str | None:
        """Return why the pods cannot use a flavor, whatever its quota."""
        assigner = self._assigner
        pod_sets = self._pod_sets
        if assigner.nominated is not None and not any(
            assigner.nominated.get((pods.name, self._resource)) == name for pods in pod_sets
        ):
            return (
                f"skipping flavor {name} as it is not found in the nomination mapping "
                f"for resource {self._resource}"
            )
        if name in assigner.workload.refused:
            return f"skipping flavor {name} as the pods do not fit on its nodes"
        flavor = assigner.snapshot.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        for pods in pod_sets:
            kept = {pods.kept[r] for r in self._group.resources if r in pods.kept}
            if kept and name not in kept:
                known = ",".join(sorted(kept))
                return f"could not assign {name} flavor since the workload is assigned: {known}"
            # A flavor that only counts pods need not have the Topology that they ask for.
            needed = flavor.levels or self._group.resources & pods.requests.keys()
            if needed and (reason := _lacks_level(pods, flavor)):
                return reason
            taint = find_untolerated(flavor.taints, (*pods.tolerations, *flavor.tolerations))
            if taint is not None:
                return f"untolerated taint {_taint_text(taint)} in flavor {name}"
            if not _affine(pods, flavor):
                return f"flavor {name} doesn't match node affinity"
        return None

    def _try(
        self, name: str, requests: Mapping[str, int], taken: Mapping[FlavorResource, int]
    ) -> tuple[dict[str, Assigned], _Granular, Waiting | None]:
        """Try one flavor: return its result by resource, the worst outcome, the worst reason."""
        found: dict[str, Assigned] = {}
        worst: _Granular = (Outcome.FIT, 0)
        waiting: list[Waiting | None] = [None]
        for resource in sorted(requests):
            key = FlavorResource(name, resource)
            mode, reason = self._quota(key, taken.get(key, 0), requests[resource])
            waiting.append(reason)
            # No break after a resource without quota: the message names all of them.
            if _preferred(worst, mode, self._assigner.queue.fungibility):
                worst = mode
            if worst[0] is not Outcome.NO_FIT:
                found[resource] = Assigned(name, mode[0].mode, mode[1])
        return found, worst, max(waiting, key=SEVERITY.index)

    def _quota(
        self, key: FlavorResource, taken: int, request: int
    ) -> tuple[_Granular, Waiting | None]:
        """Return what the quota allows for a request; append to ``reasons`` if it is short."""
        assigner = self._assigner
        node = assigner.snapshot.node(assigner.queue.name)
        wanted, most = taken + request, node.potential_available(key)
        if wanted > most:
            texts = (amount_text(key.resource, number) for number in (taken, request, most))
            self.reasons.append(
                "insufficient quota for {} in flavor {}, previously considered podsets requests "
                "({}) + current podset request ({}) > maximum capacity ({})".format(
                    key.resource, key.flavor, *texts
                )
            )
            return (Outcome.NO_FIT, 0), Waiting.EXCEEDS_MAX_QUOTA
        level, may_reclaim = borrowing_level(node, key, wanted)
        available = node.available(key)
        if wanted <= available:
            return (Outcome.FIT, level), None
        self.reasons.append(
            f"insufficient unused quota for {key.resource} in flavor {key.flavor}, "
            f"{amount_text(key.resource, wanted - available)} more needed"
        )
        # Preemption can help only within the nominal quota, in a subtree that can reclaim from
        # outside, or if the policies let a borrower preempt.
        preemption = assigner.queue.preemption
        if (
            node.quota.get(key, 0) >= wanted
            or may_reclaim
            or preemption.while_borrowing
            or (assigner.fair and preemption.reclaim is not Policy.NEVER)
        ):
            return assigner.oracle(key, wanted), None
        return (Outcome.NO_FIT, level), Waiting.QUOTA


def _lacks_level(pods: PodSet, flavor: Flavor) -> str:
    """Return that a flavor lacks the Topology, or a level, that pods ask for; else ""."""
    if (pods.level or pods.in_topology) and not flavor.levels:
        return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
    if not {pods.level, *pods.slice_levels} - {""} <= set(flavor.levels):
        return f'Flavor "{flavor.name}" does not contain the requested level'
    return ""


def _taint_text(taint: Taint) -> str:
    # As Go prints the struct; a ResourceFlavor's taint has no timeAdded.
    return f"{{{taint.key} {taint.value} {taint.effect} <nil>}}"


def _affine(pods: PodSet, flavor: Flavor) -> bool:
    """Whether node selector and affinity match, as far as they name labels of the flavor."""
    if any(flavor.labels.get(key, want) != want for key, want in pods.node_selector.items()):
        return False
    terms = [
        [requirement for requirement in term if requirement.key in flavor.labels]
        for term in pods.affinity
    ]
    # A term that names no label of the flavor may match some of its nodes.
    return not terms or any(
        all(requirement.matches(flavor.labels) for requirement in term) for term in terms
    )


def _try_next(mode: _Granular, fungibility: Fungibility) -> bool:
    """Whether the search goes on after a flavor with this outcome."""
    outcome, level = mode
    if outcome <= Outcome.NO_CANDIDATES:
        return True
    if outcome < Outcome.FIT and fungibility.when_can_preempt is FungibilityPolicy.TRY_NEXT:
        return True
    return level > 0 and fungibility.when_can_borrow is FungibilityPolicy.TRY_NEXT


def _preferred(one: _Granular, other: _Granular, fungibility: Fungibility) -> bool:
    """Whether one outcome is better than another."""

    def rank(mode: _Granular) -> tuple[int, int, int]:
        outcome, level = mode
        # Preemption is better than no candidates; outcomes with victims are compared below.
        coarse = min(int(outcome), int(Outcome.PREEMPT))
        if outcome is Outcome.NO_FIT:
            return coarse, 0, 0
        # The comment on Kueue's field ``preference`` says the reverse: its code compares the level
        # first.
        if fungibility.preemption_over_borrowing:
            return coarse, -level, int(outcome)
        return coarse, int(outcome), -level

    return rank(one) > rank(other)
