"""A cluster in memory to try changes on, with the code that makes a replica's decisions.

A world has a cache, profiles and a decider like a replica. The cache is filled from objects or
copied from a replica. A placed pod counts for later decisions. Victims of a preemption leave at
once and the preemptor gets their room, as it would after their grace period.

Changes inside ``trial`` are undone at its end::

    with world.changes.trial():
        world.changes.remove(pod)
        fits = world.schedule([replacement])[0].node_name

Non-goals: extenders, Permit, time (backoff, grace periods), and controllers other than those that
replace pods and those that make ResourceClaims and take devices back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Pod
from podsched.ask.explain.changes.question import Question
from podsched.ask.whatif.claims import carry_out_pre_bind, make_claims, write_patches
from podsched.ask.whatif.world_changes import WorldChanges, WorldProfiles
from podsched.cache.cache import Cache
from podsched.cache.trial import Trial
from podsched.config.load import SchedulerConfiguration
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import Decision
from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.decide.keys import PlacementKey
from podsched.decide.pod_group import PodGroupAttempt
from podsched.decide.pod_group_members import GroupDecision, member_order
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import PluginFactory
from podsched.framework.pod_groups import PodGroup, pod_group
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code, Status
from podsched.term.cycle.reserve_permit import refused, run_reserve, run_unreserve
from podsched.term.state import build_state
from podsched.term.writes.bind_queue import Assignment

#: Pods passed to the decider at a time.
_BATCH = 4096
#: Seed of the random numbers (preemption takes its first candidate node at random).
_SEED = 0


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


class World:
    """A cluster in memory that can be changed and scheduled; see the module."""

    def __init__(
        self, cache: Cache, profiles: Mapping[str, ProfileRuntime], chance: Chance
    ) -> None:
        """``profiles``: of plugins that see the cache's cluster; the first one is the default."""
        self._cache = cache
        #: The cluster as plugins see it.
        self.cluster = cache.cluster
        self.profiles = WorldProfiles(profiles)
        self.changes = WorldChanges(cache, self.profiles)
        self._decider = AcceleratedDecider(cache.cluster, profiles, chance)
        #: Failures by placement key and priority: these determine decision and possible victims.
        self._failed: dict[tuple[PlacementKey, int], tuple[Any, Outcome]] = {}
        #: Whether PodInfos of pods without a node are shared with another cache. Assuming a pod
        #: sets its ``node_name``, so it must then be done to a copy.
        self._shares_pods = False

    @classmethod
    def of_objects(
        cls,
        objects: Iterable[AnyObject],
        config: SchedulerConfiguration,
        plugins: Mapping[str, PluginFactory],
    ) -> Self:
        """Return a world with these objects, each with a uid, in any order.

        Raises QuantityError for an invalid amount, PluginError for a plugin that cannot be created.
        """
        state = build_state(config, plugins, seed=_SEED)
        for obj in sorted(objects, key=_names_first):
            if isinstance(obj, Pod) and not obj.spec.node_name:
                for claim in make_claims(obj, state.cache.cluster):
                    state.cache.apply("ResourceClaim", None, claim)
            state.cache.apply(kind_of(obj).name, None, obj)
        return cls(state.cache, state.profiles, state.chance)

    @classmethod
    def on_copy(cls, cache: Cache, profiles: Mapping[str, ProfileRuntime]) -> World:
        """Return a world on a copy of a live cluster, to be used in another thread."""
        copied = cache.copy()
        handle = SimulatedHandle(copied.cluster)
        remade = {name: runtime.remade(handle) for name, runtime in profiles.items()}
        world = cls(copied, remade, Chance(_SEED))
        world._shares_pods = True
        return world

    # ------------------------------------------------------------------ reading

    def evaluation(self, pod: PodInfo) -> ClassEvaluation:
        """Return the evaluation of the pod's class: the nodes that it fits now."""
        evaluation = self._decider.evaluation(self.profiles.of(pod), pod)
        evaluation.refresh(pod)
        return evaluation

    def pods(self) -> list[PodInfo]:
        """Return the pods that have not ended, bound or not, by name."""
        return sorted(self.cluster.pods.values(), key=lambda pod: pod.key)

    def pods_on(self, node_name: str) -> list[PodInfo]:
        """Return the pods that count on a node, by name; none for a node that is not there."""
        nodes = self.cluster.nodes
        row = nodes.row_of(node_name)
        found = [] if row is None else nodes.pods(row).values()
        return sorted(found, key=lambda pod: pod.key)

    def has_node(self, pod: PodInfo) -> bool:
        """Whether a pod is bound or assumed."""
        return pod.uid in self._cache.held

    def question(self, pod: PodInfo) -> Question:
        """Return the input of a search for changes with which a pod would fit here."""
        return Question(self.profiles.of(pod), self._cache, pod)

    def node_names(self) -> list[str]:
        """Return the names of all nodes, sorted."""
        return sorted(node.metadata.name for node in self.cluster.list("Node"))

    def pending(self) -> list[PodInfo]:
        """Return the pods without a node that a profile decides on, in the queue's order."""
        waiting = [pod for pod in self.pods() if not pod.node_name and not self.has_node(pod)]
        ours = self.profiles.is_ours
        return self.profiles.in_queue_order(p for p in waiting if ours(p.pod) and not p.terminating)

    # ------------------------------------------------------------------ scheduling

    def schedule(self, pods: Sequence[PodInfo], *, preempt: bool = True) -> list[Outcome]:
        """Schedule pods one after another in this order.

        Members of a pod group are decided together, when the first of them has its turn. preempt:
        whether pods that fit nowhere may preempt others, which are then removed.
        """
        groups: dict[str, list[PodInfo]] = {}
        for pod in pods:
            if pod.group:
                groups.setdefault(pod.group, []).append(pod)
        outcomes: dict[str, Outcome] = {}
        for at, first in enumerate(pods):
            if first.uid in outcomes:
                continue
            if (gate := self.profiles.of(first).gate(first)) is not None:
                found = [Outcome(first, message=f"{gate[0]}: {gate[1].message}")]
            elif first.group:
                members = [p for p in groups[first.group] if self.profiles.of(p).gate(p) is None]
                found = self._decide_group(members, preempt=preempt)
            elif (known := self._known_failure(first)) is not None:
                found = [known]
            else:
                found = self._decide(self._run(pods, at), preempt=preempt)
            outcomes.update((one.pod.uid, one) for one in found)
        return [outcomes[pod.uid] for pod in pods]

    def _run(self, pods: Sequence[PodInfo], start: int) -> Sequence[PodInfo]:
        """Return the single pods from ``start`` on that share the first one's class."""
        cls, end = pods[start].cls, start + 1
        most = min(len(pods), start + _BATCH)
        while end < most and pods[end].cls is cls and not pods[end].group:
            end += 1
        return pods[start:end]

    def _known_failure(self, pod: PodInfo) -> Outcome | None:
        """Return the failure of an equal pod, if nothing has changed since."""
        if self.cluster.nominated_node(pod.uid) or pod.nominated_node_name:
            return None
        found = self._failed.get((self._decider.key(pod), pod.priority))
        if found is None or found[0] != self.cluster.stamp:
            return None
        return replace(found[1], pod=pod)

    def _decide(self, pods: Sequence[PodInfo], *, preempt: bool) -> list[Outcome]:
        runtime = self.profiles.of(pods[0])
        queued = [QueuedPodInfo(self._own(pod), 0.0) for pod in pods]
        outcomes = []
        with self.changes.part() as changes:
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

    def _pre_bind(self, changes: Trial, runtime: ProfileRuntime, assignment: Assignment) -> Status:
        try:
            status = carry_out_pre_bind(runtime, assignment, self.cluster, changes)
        except PluginFailure as failure:
            status = failure.status
        if not status.ok:
            run_unreserve(runtime, assignment)
            changes.forget(assignment.pod)
        return status

    def _decide_group(self, members: Sequence[PodInfo], *, preempt: bool) -> list[Outcome]:
        """Decide on the pending members of a pod group together."""
        names = {pod.cls.scheduler_name for pod in members}
        group = pod_group(self.cluster, members[0].group)
        if len(names) > 1 or group is None:
            why = "does not exist" if group is None else "has members of several schedulers"
            message = f"pod group {members[0].group} {why}"
            return [Outcome(pod, message=message) for pod in members]
        with self.changes.part() as changes:
            attempt = self.attempt(changes, group, members)
            exhaust(attempt.run(changes, never, preempts=preempt))
        result = attempt.result
        victims = result.victims.pods if result.victims is not None else ()
        if not victims:
            return self._bound_members(members, result)
        for victim in victims:
            self.changes.remove(victim)
        for pod in members:
            self.changes.nominate(pod, result.nominations.get(pod.uid, ""))
        [first, *others] = self._decide_group(members, preempt=False)
        # Each victim is in one outcome only: callers schedule the victims of all outcomes again.
        return [replace(first, victims=tuple(victims)), *others]

    def _bound_members(self, members: Sequence[PodInfo], result: GroupDecision) -> list[Outcome]:
        """Return the outcomes of members; those that have a node get their claims written."""
        refusals: dict[str, Outcome] = {}
        decisions = result.decisions if result.status.ok else ()
        with self.changes.part() as changes:
            for decision in decisions:
                if decision.node_name:
                    pod, node = decision.queued, decision.node_name
                    assignment = Assignment(pod, node, decision.state)
                    status = self._pre_bind(changes, self.profiles.of(pod.info), assignment)
                    if not status.ok:
                        refusals[pod.info.uid] = _refused(pod.info, status)
        return [refusals.get(one.pod.uid, one) for one in _group_outcomes(members, result)]

    def _own(self, pod: PodInfo) -> PodInfo:
        """Return a pod that may be assumed here."""
        return copy(pod) if self._shares_pods else pod

    def start(self, group: PodGroup, members: Sequence[PodInfo]) -> Status:
        """Return whether members of a group can start together, and why not; changes nothing."""
        with self.changes.trial() as trial:
            attempt = self.attempt(trial, group, members)
            exhaust(attempt.run(trial, never, preempts=False))
            return attempt.result.status

    def attempt(self, trial: Trial, group: PodGroup, members: Sequence[PodInfo]) -> PodGroupAttempt:
        """Return an attempt to place members of a group, to run in a trial.

        What their Reserve plugins do is undone when the trial is rolled back.
        """
        runtime = self.profiles.of(members[0])
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
        numbered = enumerate(map(self._own, members))
        queued = [QueuedPodInfo(pod, pod.creation_time, sequence=n) for n, pod in numbered]
        queued.sort(key=member_order)
        return PodGroupAttempt(
            self._decider, self.cluster, runtime, group, queued, scheduled, reserve, unreserve
        )

    def _unplaced(self, runtime: ProfileRuntime, decision: Decision, *, preempt: bool) -> Outcome:
        diagnosis, pod = decision.diagnosis, decision.queued.info
        assert diagnosis is not None
        result = self._decider.post_filter(runtime, decision) if preempt else None
        with self.changes.part() as changes:
            is_changed = write_patches(decision.state, self.cluster, changes)
        if is_changed:
            return self._decide([pod], preempt=preempt)[0]
        if result is not None and result.status.ok and result.nominated_node_name:
            victims = result.victims.pods if result.victims is not None else ()
            for victim in victims:
                self.changes.remove(victim)
            self.changes.nominate(pod, result.nominated_node_name)
            [after] = self._decide([pod], preempt=False)
            return replace(after, victims=tuple(victims))
        if result is not None:
            diagnosis.post_filter_message = result.status.message
        outcome = Outcome(pod, message=diagnosis.fit_error(), rejections=_rejections(decision))
        if not pod.nominated_node_name:
            stamp = self.cluster.stamp
            self._failed[self._decider.key(pod), pod.priority] = stamp, outcome
        return outcome


def _names_first(obj: AnyObject) -> tuple[bool, str, str]:
    """Sort key of objects: by name, pods last, so that rows and ties are reproducible."""
    return isinstance(obj, Pod), obj.metadata.namespace, obj.metadata.name


def _reserve(runtime: ProfileRuntime, decision: Decision) -> tuple[Assignment, Status]:
    """Call the Reserve plugins; if one refuses, undo what the others have reserved."""
    assignment = Assignment(decision.queued, decision.node_name, decision.state)
    status = run_reserve(runtime, assignment)
    if status.ok:
        return assignment, status
    run_unreserve(runtime, assignment)
    return assignment, refused(status)


def _refused(pod: PodInfo, status: Status) -> Outcome:
    failed = not status.code.rejects
    return Outcome(pod, message=status.message, rejections={status.plugin: 1}, failed=failed)


def never() -> bool:
    """Return False: an attempt is not to be interrupted for other tasks."""
    return False


def exhaust(parts: Iterable[None]) -> None:
    """Run an attempt to its end."""
    deque(parts, maxlen=0)


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
