"""Why a pod does not fit: by node, by plugin, and as kube-scheduler's FitError sentence.

Rules and texts: kube-scheduler v1.36 ``framework/types.go``, Diagnosis and FitError.Error.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from podsched.decide.evaluation.pre_filtering import PreFilterOutcome
from podsched.framework.filter_outcome import PASSED, FilterOutcome
from podsched.framework.fit_error import NO_NODES_AVAILABLE, fit_error_message
from podsched.framework.status import Code, Status


@dataclass(slots=True)
class Diagnosis:
    """Why a pod fits no node. ``outcome`` is None when PreFilter rejected the pod."""

    num_all_nodes: int
    pre_filter: PreFilterOutcome = field(default_factory=PreFilterOutcome)
    outcome: FilterOutcome | None = None
    #: The message of PostFilter, such as "preemption: 0/5 nodes are available: ...".
    post_filter_message: str = ""
    #: Plugins that rejected the pod or its group on other nodes, in other tries.
    rejected_elsewhere: set[str] = field(default_factory=set)

    @property
    def pre_filter_message(self) -> str:
        """PreFilter's reasons for rejecting the pod, "" if it did not."""
        return self.pre_filter.status.message

    @property
    def unschedulable_plugins(self) -> set[str]:
        """The plugins that rejected a node or the pod; their events may help it."""
        found = self.rejected_elsewhere | set(self.pre_filter.plugins)
        status = self.pre_filter.status
        if status.code.rejects and status.plugin:
            found.add(status.plugin)
        if (outcome := self.outcome) is not None:
            found.update(outcome.plugins[g.plugin] for g in outcome.groups if g.plugin >= 0)
        return found

    @property
    def pending_plugins(self) -> set[str]:
        """The plugins that returned Pending."""
        status = self.pre_filter.status
        return {status.plugin} if status.code is Code.PENDING and status.plugin else set()

    def statuses(self) -> list[tuple[Status, int]]:
        """Return the distinct statuses of rejected rows and how many rows have each."""
        return [] if self.outcome is None else distinct_statuses(self.outcome)

    def fit_error(self) -> str:
        """Return a FitError's text: ``0/5 nodes are available: 2 Insufficient cpu, ...``."""
        if not self.num_all_nodes:
            return NO_NODES_AVAILABLE
        reasons: Counter[str] = Counter()
        for status, count in self.statuses():
            # Extenders may reject a node without a reason.
            for reason in filter(None, status.reasons):
                reasons[reason] += count
        return fit_error_message(
            self.num_all_nodes, reasons, self.pre_filter_message, self.post_filter_message
        )


def distinct_statuses(outcome: FilterOutcome) -> list[tuple[Status, int]]:
    """Return the distinct statuses of an outcome's rejected rows, and how many rows have each."""
    groups = outcome.groups
    return [(group.status, len(group.places)) for group in groups if group.plugin != PASSED]
