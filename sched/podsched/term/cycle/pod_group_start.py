"""Starts of pod groups: take the members that one decision placed from assumed to bound.

    assumed --> Permit and PreBind of each --all are ready--> recorded --> bound --> done
                     |                                           |           |
          one is rejected, and the            could not be written:     one failed, and the
          others are too few: all undone      all undone                others are too few:
                                                                        decided again at once
                                                                             |
                                                             too few again: taken back, which
                                                             evicts those that are bound

Invariant: no member of a gang is bound before the API has recorded, with this term's fence, that
the gang is being bound (``GroupOutcomes``). So when a leader dies, the next one finds each
gang that may be partly bound, and decides for it before any other pod. The missing members still
have their room, unless a node has gone. If they cannot be placed, the gang is taken back
(``pod_group_taking_back``).

Members that come while a gang starts count on its first start, so they follow it: they are bound
once its bindings are done, and undone if it is given up or taken back.

Three kinds of groups are never taken back: groups that had members with a node before, basic
groups, and groups without a PodGroup object (``label_group``), which have no place for the record.
A start of a single member needs no record, because it is bound by one write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from podsched.framework.pod_groups import PodGroup, pod_group
from podsched.framework.status import SUCCESS, Status, error, unschedulable
from podsched.telemetry.logs import get_logger
from podsched.term.cycle.binding_cycle import BindingCycle
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_taking_back import MESSAGE_TAKEN_BACK, TakingBack
from podsched.term.writes.bind_queue import Assignment

REASON_OTHER_FAILED: Final = "another pod of the pod group was rejected: {}"
REASON_OTHERS_GONE: Final = "other pods of the pod group have lost their nodes"

_log = get_logger("scheduler")


@dataclass(eq=False, slots=True)
class GroupStart:
    """One start of a group. Implements ``GroupMember``.

    ``scheduled``: members that had a node before. ``undecided``: placed members at Permit or
    PreBind, by uid. ``members``: those that passed both. ``asked``: whether Permit was called for
    all. ``lost``: why the start is given up. ``followers``: later starts of the group, which are
    bound after this one. ``unbound``: members whose binding has no outcome yet.
    """

    owner: GroupStarts
    group: PodGroup
    scheduled: int
    undecided: dict[str, Assignment]
    members: list[Assignment] = field(default_factory=list)
    refused: list[tuple[Assignment, Status]] = field(default_factory=list)
    asked: bool = False
    lost: Status | None = None
    followers: list[GroupStart] = field(default_factory=list)
    unbound: int = 0
    over: bool = False

    @property
    def min_count(self) -> int:
        return self.group.min_count or 0

    @property
    def can_be_partial(self) -> bool:
        """Whether the gang has to be completed if only some of these members get bound."""
        return bool(self.group.uid) and not self.scheduled and self.min_count > 1

    def ready(self, assignment: Assignment) -> None:
        del self.undecided[assignment.pod.uid]
        self._add(assignment)
        self._decided()

    def rejected(self, assignment: Assignment, status: Status) -> None:
        if self.undecided.pop(assignment.pod.uid, None) is None:
            # It was ready, and waited for the others.
            self.members.remove(assignment)
            del self.owner.ready[assignment.pod.uid]
        if self.lost is not None:
            self._add(assignment)
        else:
            self.refused.append((assignment, status))
        self._decided()

    def all_asked(self) -> None:
        """Note that Permit was called for all members; some may wait there, or in PreBind."""
        self.asked = True
        if self.undecided and self.lost is not None:
            self.give_up(self.lost)
        elif self.undecided:
            self._decided()

    def bound(self, assignment: Assignment) -> None:
        self._has_outcome()

    def undone(self, assignment: Assignment) -> None:
        if not self.over and not self.undecided:
            self._has_outcome()

    def give_up(self, status: Status) -> None:
        """Undo all members: rejected ones for their own reason, the others for this one.

        The waits of members end first, so that all are undone together.
        """
        self.lost = status
        self.owner.end_waits(self, status.message)
        self._decided()

    def abandon(self, status: Status) -> None:
        """Give up; the caller undoes all members but those at Permit or PreBind."""
        self._forget_members()
        self.undecided = self.owner.waiting_of(self)
        self.asked = True
        self.give_up(status)

    def _add(self, assignment: Assignment) -> None:
        self.members.append(assignment)
        self.owner.ready[assignment.pod.uid] = assignment

    def _decided(self) -> None:
        # Not before, so that members that are rejected at once are undone together.
        if self.undecided and not self.asked:
            return
        if self.lost is not None:
            if not self.undecided:
                self._undo_all(self.lost)
            return
        left = self.scheduled + len(self.members) + len(self.undecided)
        if left < self.min_count:
            self.give_up(self._why_too_few())
            return
        refused, self.refused = self.refused, []
        for assignment, status in refused:
            self.owner.failures.undo(assignment, status, at_once=not self.asked)
        if self.undecided:
            return
        if self.members:
            self.owner.bind(self)
        else:
            self.over = True
            self.owner.start_over(self)

    def _why_too_few(self) -> Status:
        if not self.refused:
            return error(REASON_OTHERS_GONE)
        cause = self.refused[0][1]
        message = REASON_OTHER_FAILED.format(cause.message)
        return unschedulable(message).by(cause.plugin) if cause.code.rejects else error(message)

    def _undo_all(self, status: Status) -> None:
        self.over = True
        others = [(assignment, status) for assignment in self.members]
        # While Permit is called, no other pod is decided that they could have blocked.
        self.owner.failures.undo_all([*self.refused, *others], at_once=not self.asked)
        self._forget_members()
        for follower in self.owner.followers_of(self):
            follower.give_up(status)
        self.owner.start_over(self)

    def _has_outcome(self) -> None:
        self.unbound -= 1
        if not self.unbound:
            self.over = True
            self.owner.ended(self)
            self._forget_members()

    def _forget_members(self) -> None:
        """Drop the assignments. They refer to this start; only the collector frees such cycles."""
        self.owner.forget_ready(self.members)
        self.members, self.refused = [], []


class GroupStarts(TermPart):
    """Starts the pod groups of one term, and finds those that are partly bound."""

    def __init__(
        self,
        parts: TermParts,
        failures: FailureHandler,
        binding: BindingCycle,
        taking_back: TakingBack,
    ) -> None:
        self.failures = failures
        super().__init__(parts)
        self._term = parts.fence.term
        self._binding = binding
        self._taking_back = taking_back
        #: By uid, the members that wait for the other members of their starts.
        self.ready = binding.waiting.ready
        #: By key, the first start of a gang until it is over: the members of later ones count on
        #: it, and would be left alone if it were given up or taken back.
        self._starting: dict[str, GroupStart] = {}
        #: By key, the starts that wait until the group's record is written.
        self._recording: dict[str, list[GroupStart]] = {}
        #: By key, the number of starts whose bindings have no outcome yet.
        self._under_way = Counter[str]()
        #: Groups that may be partly bound and have to be decided before any other pod.
        self._incomplete: list[str] = []

    # ------------------------------------------------------------------ starting

    def begin(self, group: PodGroup, placed: Sequence[Assignment]) -> GroupStart:
        """Begin the start of a group whose members were assumed."""
        undecided = {one.pod.uid: one for one in placed}
        # Counted now: an earlier start may have failed while this one was decided.
        counted = self._taking_back.scheduled(group.key)
        scheduled = sum(pod.uid not in undecided for pod in counted)
        start = GroupStart(self, group, scheduled, undecided)
        for assignment in placed:
            assignment.group = start
        if group.key in self._starting:
            self._starting[group.key].followers.append(start)
        elif start.can_be_partial or self.is_incomplete(group.key):
            self._starting[group.key] = start
        return start

    def waiting_of(self, start: GroupStart) -> dict[str, Assignment]:
        """Return the members at Permit or PreBind, by uid."""
        waiting = self._binding.waiting
        return {uid: one for uid, one in start.undecided.items() if uid in waiting}

    def end_waits(self, start: GroupStart, why: str) -> None:
        """End Permit and PreBind of the members of a gang that cannot start any more."""
        for uid in start.undecided:
            self._binding.waiting.cancel(uid, why)

    def forget_ready(self, members: Sequence[Assignment]) -> None:
        for assignment in members:
            self.ready.pop(assignment.pod.uid, None)

    def followers_of(self, start: GroupStart) -> list[GroupStart]:
        """Return the starts that have waited for a start that is over."""
        if self._starting.get(start.group.key) is start:
            del self._starting[start.group.key]
        followers, start.followers = start.followers, []
        return followers

    def bind(self, start: GroupStart) -> None:
        """Bind the members of a start; a gang that may end up partly bound is recorded first."""
        first = self._starting.get(start.group.key)
        if first is not None and start in first.followers:
            return
        self.forget_ready(start.members)
        # Set only now: members that were undone before have no binding, so they must not count.
        start.unbound = len(start.members)
        self._bind_recorded(start)

    def _bind_recorded(self, start: GroupStart) -> None:
        key = start.group.key
        if key in self._recording:
            self._recording[key].append(start)
        # Recorded already, by an earlier start or term, or there is nothing to record.
        elif not start.can_be_partial or self._group_outcomes.is_recorded(start.group):
            self._bind(start)
            return
        else:
            self._recording[key] = [start]
            count = len(start.members)
            message = f"{count} members are being bound, decided in term {self._term}"
            self._group_outcomes.binding_begins(
                start.group, message, partial(self._after_record, start.group)
            )
        self._binding.hold(start.unbound)

    def _after_record(self, group: PodGroup, problem: str) -> None:
        self._state.after_trial.do(partial(self._recorded, group, problem))

    def _recorded(self, group: PodGroup, problem: str) -> None:
        starts = self._recording.pop(group.key)
        if problem:
            self._group_outcomes.binding_ended(group, error(problem))
        for start in starts:
            self._binding.release(start.unbound)
            if problem:
                start.give_up(error(f"recording the start of the pod group failed: {problem}"))
            else:
                self._bind(start)

    def _bind(self, start: GroupStart) -> None:
        self._under_way[start.group.key] += 1
        self._binding.bind(start.members, at_once=True)

    def ended(self, start: GroupStart) -> None:
        """Handle the end of all bindings of a start."""
        key = start.group.key
        self._under_way[key] -= 1
        if not self._under_way[key]:
            del self._under_way[key]
        self.start_over(start)

    def start_over(self, start: GroupStart) -> None:
        """Find out whether the group of a start that has ended is partly bound."""
        group, key, started = start.group, start.group.key, True
        if self._starting.get(key, start) is not start:
            return  # It has followed one that is not over yet.
        followers = self.followers_of(start)
        if self.is_incomplete(key):
            started = len(self._taking_back.bound(key)) >= start.min_count
            if started:
                self._taking_back.start_ended(key, started=True)
                self._group_outcomes.binding_ended(group, SUCCESS)
                # Members of a queue that were tried meanwhile could not preempt.
                self._admission.turns.note_helped(key)
                self._activator.notify()
            # Only once: the starts that followed one that has failed are given up with it.
            elif key not in self._incomplete:
                self._taking_back.start_ended(key, started=False)
                self.decide_first(key)
        for follower in followers:
            if not started:
                follower.give_up(error(MESSAGE_TAKEN_BACK))
            elif follower.members and not follower.undecided:
                self.bind(follower)

    def is_incomplete(self, key: str) -> bool:
        """Whether a group may be partly bound, and no binding of it is under way."""
        is_being_bound = key in self._recording or key in self._under_way
        return key in self._group_outcomes.binding and not is_being_bound

    # ------------------------------------------------------------------ partly bound groups

    def resume(self) -> None:
        """Find the groups that an earlier term was binding. Call it when the term begins."""
        for key in self._group_outcomes.resume():
            group = pod_group(self._cluster, key)
            if self._is_of_others(key):
                self._group_outcomes.binding.discard(key)
            elif group is not None and self._taking_back.has_started(group):
                self._group_outcomes.binding_ended(group, SUCCESS)
            else:
                _log.info("A pod group was being bound when the last term ended", pod_group=key)
                self._incomplete.append(key)

    def _is_of_others(self, key: str) -> bool:
        """Whether the members of a group name another scheduler, which may be binding them."""
        names = {pod.cls.scheduler_name for pod in self._cluster.members(key)}
        return bool(names) and names.isdisjoint(self._state.profiles)

    def decide_first(self, key: str) -> None:
        """Have a group decided before any other pod, if it may be partly bound."""
        if self.is_incomplete(key) and key not in self._incomplete:
            self._incomplete.append(key)
            self._activator.notify()

    def take_incomplete(self) -> str | None:
        """Remove and return the key of a group to decide before any other pod."""
        return self._incomplete.pop(0) if self._incomplete else None
