"""Decisions in a world: for single pods, and for the members of a group together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from podsched.ask.whatif.claims import carry_out_pre_bind, provision, write_patches
from podsched.ask.whatif.world_changes import WorldChanges
from podsched.cache.cache import Cache
from podsched.cache.trial import Trial
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import Decision
from podsched.decide.keys import PlacementKey
from podsched.decide.pod_group import PodGroupAttempt
from podsched.decide.pod_group_members import GroupDecision, member_order
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pod_groups import PodGroup, pod_group
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code, Status
from podsched.term.cycle.reserve_permit import refused, run_reserve, run_unreserve
from podsched.term.writes.bind_queue import Assignment

#: Placement key, priority, and preemptionPolicy; "" without preemption.
_FailureKey = tuple[PlacementKey, int, str]


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


class Deciding:
    """Decides for the pods of a world, and carries out what is decided."""

    def __init__(
        self, cache: Cache, changes: WorldChanges, decider: AcceleratedDecider, shares_pods: bool
    ) -> None:
        """``shares_pods``: whether PodInfos of pods without a node are another cache's, too.

        Assuming a pod sets its ``node_name``, so it must then be done to a copy.
        """
        self._cache, self._cluster = cache, cache.cluster
        self._changes, self._profiles = changes, changes.profiles
        self._decider, self._shares_pods = decider, shares_pods
        #: Failures by what determines the decision and the possible victims.
        self._failed: dict[_FailureKey, tuple[Any, Outcome]] = {}

    def _own(self, pod: PodInfo) -> PodInfo:
        return copy(pod) if self._shares_pods else pod

    def _pre_bind(self, changes: Trial, runtime: ProfileRuntime, assignment: Assignment) -> Status:
        try:
            status = carry_out_pre_bind(runtime, assignment, self._cluster, changes)
        except PluginFailure as failure:
            status = failure.status
        if not status.ok:
            run_unreserve(runtime, assignment)
            changes.forget(assignment.pod)
        return status

    def decide(self, pods: Sequence[PodInfo], *, preempt: bool) -> list[Outcome]:
        runtime = self._profiles.of(pods[0])
        queued = [QueuedPodInfo(self._own(pod), 0.0) for pod in pods]
        outcomes = []
        with self._changes.part() as changes:
            for decision in self._decider.decide(changes, runtime, queued):
                if decision.node_name:
                    outcomes.append(self._placed(changes, runtime, decision))
                elif decision.error is not None:
                    pod = decision.queued.info
                    outcomes.append(Outcome(pod, message=decision.error.message, failed=True))
                else:
                    outcomes.append(self._unplaced(runtime, decision, preempt=preempt))
        return outcomes

    def _placed(self, changes: Trial, runtime: ProfileRuntime, decision: Decision) -> Outcome:
        pod, node = decision.queued.info, decision.node_name
        assignment, status = _reserve(runtime, decision)
        if not status.ok:
            changes.forget(pod)
            return _refused(pod, status)
        changes.on_undo(lambda: run_unreserve(runtime, assignment))
        status = self._pre_bind(changes, runtime, assignment)
        return Outcome(pod, node) if status.ok else _refused(pod, status)

    def _unplaced(self, runtime: ProfileRuntime, decision: Decision, *, preempt: bool) -> Outcome:
        diagnosis, pod = decision.diagnosis, decision.queued.info
        assert diagnosis is not None
        result = self._decider.post_filter(runtime, decision) if preempt else None
        with self._changes.part() as changes:
            is_changed = write_patches(decision.state, self._cluster, changes)
        if is_changed:
            return self.decide([pod], preempt=preempt)[0]
        if result is not None and result.status.ok and result.nominated_node_name:
            victims = result.victims.pods if result.victims is not None else ()
            for victim in victims:
                self._changes.remove(victim)
            self._changes.nominate(pod, result.nominated_node_name)
            [after] = self.decide([pod], preempt=False)
            return replace(after, victims=tuple(victims))
        with self._changes.part() as changes:
            is_changed = provision(pod, self._cluster, changes)
        if is_changed:
            return self.decide([pod], preempt=preempt)[0]
        if result is not None:
            diagnosis.post_filter_message = result.status.message
        outcome = Outcome(pod, message=diagnosis.fit_error(), rejections=_rejections(decision))
        if not pod.nominated_node_name:
            self._failed[self._failure_key(pod, preempt=preempt)] = self._cluster.stamp, outcome
        return outcome

    def _failure_key(self, pod: PodInfo, *, preempt: bool) -> _FailureKey:
        policy = pod.cls.preemption_policy if preempt else ""
        return self._decider.key(pod), pod.priority, policy

    def known_failure(self, pod: PodInfo, *, preempt: bool) -> Outcome | None:
        """Return the failure of an equal pod, if nothing has changed since."""
        if self._cluster.nominator.node_of(pod.uid) or pod.nominated_node_name:
            return None
        found = self._failed.get(self._failure_key(pod, preempt=preempt))
        if found is None or found[0] != self._cluster.stamp:
            return None
        return replace(found[1], pod=pod)

    def decide_group(self, members: Sequence[PodInfo], *, preempt: bool) -> list[Outcome]:
        """Decide on the pending members of a pod group together.

        Members that have no node when the group starts are tried again: they may preempt, too.
        """
        found = {one.pod.uid: one for one in self._try_group(members, preempt=preempt)}
        left = [one.pod for one in found.values() if not one.node_name]
        if preempt and 0 < len(left) < len(found):
            for one in self.decide_group(left, preempt=True):
                victims = (*found[one.pod.uid].victims, *one.victims)
                found[one.pod.uid] = replace(one, victims=victims)
        return [*found.values()]

    def _try_group(self, members: Sequence[PodInfo], *, preempt: bool) -> list[Outcome]:
        names = {pod.cls.scheduler_name for pod in members}
        group = pod_group(self._cluster, members[0].group)
        if len(names) > 1 or group is None:
            why = "does not exist" if group is None else "has members of several schedulers"
            return [Outcome(pod, message=f"pod group {members[0].group} {why}") for pod in members]
        with self._changes.part() as changes:
            attempt = self.attempt(changes, group, members)
            exhaust(attempt.run(changes, never, preempts=preempt))
        result = attempt.result
        victims = result.victims.pods if result.victims is not None else ()
        if not victims:
            return self._bound_members(members, result)
        for victim in victims:
            self._changes.remove(victim)
        for pod in members:
            self._changes.nominate(pod, result.nominations.get(pod.uid, ""))
        [first, *others] = self._try_group(members, preempt=False)
        # Each victim is in one outcome only: callers schedule the victims of all outcomes again.
        return [replace(first, victims=tuple(victims)), *others]

    def _bound_members(self, members: Sequence[PodInfo], result: GroupDecision) -> list[Outcome]:
        """Return the outcomes of members; those that have a node get their claims written."""
        refusals: dict[str, Outcome] = {}
        decisions = result.decisions if result.status.ok else ()
        with self._changes.part() as changes:
            for decision in decisions:
                if decision.node_name:
                    pod, node = decision.queued, decision.node_name
                    assignment = Assignment(pod, node, decision.state)
                    status = self._pre_bind(changes, self._profiles.of(pod.info), assignment)
                    if not status.ok:
                        refusals[pod.info.uid] = _refused(pod.info, status)
        return [refusals.get(one.pod.uid, one) for one in _group_outcomes(members, result)]

    def start(self, group: PodGroup, members: Sequence[PodInfo]) -> Status:
        """Return whether members of a group can start together, and why not; changes nothing."""
        with self._changes.trial() as trial:
            attempt = self.attempt(trial, group, members)
            exhaust(attempt.run(trial, never, preempts=False))
            return attempt.result.status

    def attempt(self, trial: Trial, group: PodGroup, members: Sequence[PodInfo]) -> PodGroupAttempt:
        """Return an attempt to place members of a group, to run in a trial.

        What their Reserve plugins do is undone when the trial is rolled back.
        """
        runtime = self._profiles.of(members[0])
        reserved: dict[str, Assignment] = {}

        def reserve(decision: Decision) -> Status:
            assignment, status = _reserve(runtime, decision)
            if status.ok:
                reserved[decision.queued.info.uid] = assignment
            return status

        def unreserve(decision: Decision) -> None:
            run_unreserve(runtime, reserved.pop(decision.queued.info.uid))

        def unreserve_all() -> None:
            for assignment in reversed(reserved.values()):
                run_unreserve(runtime, assignment)

        trial.on_undo(unreserve_all)
        scheduled = self._cache.scheduled_members(group.key)
        # As in the queue, those come first that have waited longest.
        queued = [
            QueuedPodInfo(pod, pod.creation_time, pod.creation_time, sequence=number)
            for number, pod in enumerate(map(self._own, members))
        ]
        queued.sort(key=member_order)
        return PodGroupAttempt(
            self._decider, self._cluster, runtime, group, queued, scheduled, reserve, unreserve
        )


def _reserve(runtime: ProfileRuntime, decision: Decision) -> tuple[Assignment, Status]:
    """Call the Reserve plugins; if one refuses, undo what the others have reserved."""
    assignment = Assignment(decision.queued, decision.node_name, decision.state)
    status = run_reserve(runtime, assignment)
    if status.ok:
        return assignment, status
    run_unreserve(runtime, assignment)
    return assignment, refused(status)


def never() -> bool:
    """Return False: an attempt is not to be interrupted for other tasks."""
    return False


def exhaust(parts: Iterable[None]) -> None:
    """Run an attempt to its end."""
    deque(parts, maxlen=0)


def _refused(pod: PodInfo, status: Status) -> Outcome:
    failed = not status.code.rejects
    return Outcome(pod, message=status.message, rejections={status.plugin: 1}, failed=failed)


def _group_outcomes(members: Sequence[PodInfo], result: GroupDecision) -> list[Outcome]:
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
            outcomes.append(Outcome(pod, message=message, rejections=_rejections(decision)))
        elif decision.error is not None:
            outcomes.append(_refused(pod, decision.error))
        elif result.status.ok:
            outcomes.append(Outcome(pod, decision.node_name))
        else:
            reasons = (result.status.message, result.waiting.message)
            outcomes.append(Outcome(pod, message=", ".join(filter(None, reasons))))
    return outcomes


def _rejections(decision: Decision) -> dict[str, int]:
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
