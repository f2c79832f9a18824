"""The outcome for a pod of a world, read from the decision about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from podsched.decide.decision import Decision
from podsched.decide.pod_group_members import GroupDecision
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code, Status


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for one pod: a node, or why it has none."""

    pod: PodInfo
    node_name: str = ""
    #: kube-scheduler's text, "" for a pod that has a node.
    message: str = ""
    #: How many nodes each plugin rejects first, for a pod that fits none.
    rejections: Mapping[str, int] = field(default_factory=dict)
    victims: tuple[PodInfo, ...] = ()
    #: Whether a plugin failed; then it is not known whether the pod fits.
    failed: bool = False


def refusal(pod: PodInfo, status: Status) -> Outcome:
    """Return the outcome for a pod that Reserve or PreBind refuses."""
    failed = not status.code.rejects
    return Outcome(pod, message=status.message, rejections={status.plugin: 1}, failed=failed)


def group_outcomes(members: Sequence[PodInfo], result: GroupDecision) -> list[Outcome]:
    """Return the outcomes of members; some may have no decision if a plugin failed."""
    decided = {decision.queued.info.uid: decision for decision in result.decisions}
    outcomes = []
    for pod in members:
        decision = decided.get(pod.uid)
        failed = result.status.code is Code.ERROR
        if decision is None or failed:
            outcomes.append(Outcome(pod, message=result.status.message, failed=failed))
        elif decision.diagnosis is not None:
            message = decision.diagnosis.fit_error()
            outcomes.append(Outcome(pod, message=message, rejections=rejections_of(decision)))
        elif decision.error is not None:
            outcomes.append(refusal(pod, decision.error))
        elif result.status.ok:
            outcomes.append(Outcome(pod, decision.node_name))
        else:
            reasons = (result.status.message, result.waiting.message)
            outcomes.append(Outcome(pod, message=", ".join(filter(None, reasons))))
    return outcomes


def rejections_of(decision: Decision) -> dict[str, int]:
    """Return how many nodes each plugin rejects first."""
    diagnosis = decision.diagnosis
    assert diagnosis is not None
    found: dict[str, int] = {}
    status = diagnosis.pre_filter.status
    if not status.ok and status.plugin:
        return {status.plugin: diagnosis.num_all_nodes}
    for rejected, count in diagnosis.statuses():
        found[rejected.plugin] = found.get(rejected.plugin, 0) + count
    return found
