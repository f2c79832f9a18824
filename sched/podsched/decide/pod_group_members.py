"""The pending members of a pod group, decided one after another in a trial.

Each is decided like a single pod (``Decider``). If it gets a node, it is assumed, so that later
members see it, and reserved at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import Decision, ShouldStop
from podsched.decide.runtime.group_plugins import group_plugins
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import REASON_UNSCHEDULABLE, GroupTrial, Placement, PodGroup
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import SUCCESS, Code, Status, error, unschedulable

REASON_OTHER_FAILED: Final = "failed to schedule other pod from a pod group: {}"
#: Max members passed to the decider in one call. It copies the rest of them after each pod that
#: fits nowhere, so passing all members of a large group would be quadratic.
_WINDOW: Final = 512


#: The only nodes that a member may use, None: all. Members with equal nodes get the same object.
NodesOf = Callable[[PodInfo], frozenset[str] | None]


@dataclass(slots=True)
class GroupDecision:
    """The outcome for a group.

    ``decisions``: one for each member, in their order; fewer if an error ended the attempt. If the
    status is SUCCESS, those with a node are assumed in the trial. If not, nothing is assumed, and
    ``node_name`` is where the member would have gone. ``waiting`` is why the group could not start
    with the members that have a node. ``victims``: the pods to evict so that it can.
    """

    status: Status = field(default_factory=lambda: unschedulable(REASON_UNSCHEDULABLE))
    decisions: list[Decision] = field(default_factory=list)
    waiting: Status = SUCCESS
    victims: Victims | None = None
    #: The plugin that chose the victims, and the node of each member once they are gone, by uid.
    preempting_plugin: str = ""
    nominations: Mapping[str, str] = field(default_factory=dict)
    #: The node of each member once pods have ended by themselves, by uid, if it fits then.
    later: Mapping[str, str] = field(default_factory=dict)
    #: Plugins whose events may make room for the slices that members are in.
    rejected_by: set[str] = field(default_factory=set)
    #: Whether victims of an earlier attempt still have to leave; the nominations stay.
    waits_for_victims: bool = False

    @property
    def placed(self) -> list[Decision]:
        """The decisions with a node."""
        return [decision for decision in self.decisions if decision.node_name]

    @property
    def rejecting(self) -> set[str]:
        """The plugins that rejected members, or their slices."""
        plugins = set(self.rejected_by)
        for decision in self.decisions:
            if decision.diagnosis is not None:
                plugins |= decision.diagnosis.unschedulable_plugins
            elif decision.error is not None and decision.error.plugin:
                plugins.add(decision.error.plugin)
        return plugins

    def also_rejected_by(self, other: GroupDecision) -> None:
        """Add the plugins that rejected members in another try; their events may help, too."""
        if other is self:
            return
        plugins = other.rejecting
        for decision in self.decisions:
            if decision.diagnosis is not None:
                decision.diagnosis.rejected_elsewhere |= plugins


def member_order(queued: QueuedPodInfo) -> tuple[int, float, int]:
    """Return kube-scheduler's order of members: higher priority first, then first attempt."""
    return -queued.info.priority, queued.initial_attempt_timestamp or 0.0, queued.sequence


class GroupMembers:
    """The members, and the decisions for them in ``result``."""

    def __init__(
        self,
        decider: AcceleratedDecider,
        cluster: ClusterView,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        scheduled: Sequence[PodInfo],
        reserve: Callable[[Decision], Status],
        unreserve: Callable[[Decision], None],
        nodes_of: NodesOf | None = None,
    ) -> None:
        """``scheduled``: the members that have a node, bound or assumed.

        ``reserve`` calls the Reserve plugins for a member that was just assumed; ``unreserve``
        takes that back. ``nodes_of``: see ``NodesOf``; None: all members may use all nodes.
        """
        self._decider = decider
        self._cluster = cluster
        self._runtime = runtime
        self._plugins = group_plugins(runtime)
        self._group = group
        self.members = members
        self._scheduled = scheduled
        self._reserve = reserve
        self._unreserve = unreserve
        self._nodes_of = nodes_of
        self.result = GroupDecision()

    def decide_members(
        self,
        trial: GroupTrial,
        placement: Placement,
        members: Sequence[QueuedPodInfo],
        should_stop: ShouldStop,
    ) -> Iterator[None]:
        """Decide for members, add the decisions to the result, and conclude it."""
        decided = end = 0
        while decided < len(members):
            # Not for each call of the decider: it ends after each member that fits nowhere.
            if decided == end:
                allowed = self.allowed(members[decided].info)
                trial.restrict(intersection(placement.node_names, allowed))
                end += self._alike(members[decided : decided + _WINDOW], allowed)
            for decision in self._decider.decide(
                trial, self._runtime, members[decided:end], should_stop=should_stop
            ):
                decided += 1
                if not self.add(trial, decision):
                    return
            if should_stop():
                yield
        # Later passes in this trial may use all nodes.
        trial.restrict(None)
        self.conclude()

    def conclude(self) -> None:
        """Let the group start if enough of the members that were decided for have a node."""
        result = self.result
        placed = len(result.placed)
        result.waiting = self._feasible(placed)
        if placed and result.waiting.ok:
            result.status = SUCCESS

    def _alike(self, members: Sequence[QueuedPodInfo], allowed: frozenset[str] | None) -> int:
        """Return how many of the leading members may use exactly these nodes."""
        if self._nodes_of is None:
            return len(members)
        # By identity (``NodesOf``): a set may have 10,000 names.
        others = (i for i, q in enumerate(members) if self.allowed(q.info) is not allowed)
        return next(others, len(members))

    def allowed(self, pod: PodInfo) -> frozenset[str] | None:
        """Return the only nodes that a member may use; None: all."""
        return None if self._nodes_of is None else self._nodes_of(pod)

    def add(self, trial: GroupTrial, decision: Decision) -> bool:
        """Add a decision to the result; return False if an error ends the attempt."""
        self.result.decisions.append(decision)
        if decision.node_name:
            self._run_reserve(trial, decision)
        if decision.error is None or decision.error.code is not Code.ERROR:
            return True
        self.result.status = error(REASON_OTHER_FAILED.format(decision.error.message))
        return False

    def _run_reserve(self, trial: GroupTrial, decision: Decision) -> None:
        """Run Reserve for a member that was just assumed; if it fails, the member has no node."""
        status = self._reserve(decision)
        if status.ok:
            return
        # The decider assumed it. Without a reservation it must not count for later members.
        trial.forget(decision.queued.info)
        decision.node_name, decision.error = "", status

    def _feasible(self, placed: int) -> Status:
        """Return whether the group may start with ``placed`` members placed now."""
        count = len(self._scheduled) + placed
        for named in self._plugins.feasible:
            status = named.plugin.placement_feasible(self._group, count)
            if not status.ok:
                return status.by(named.name)
        return SUCCESS

    @cached_property
    def needed(self) -> int:
        """How many of the members have to be placed for the group to start."""
        needed = (self._group.min_count or 1) - len(self._scheduled)
        # If the group may also start with one member fewer, there is no minimum: it is a basic
        # group, or the profile has no GangScheduling.
        return 1 if needed < 1 or self._feasible(needed - 1).ok else needed

    def unreserve_all(self) -> None:
        """Unreserve all members, the latest first; the caller rolls their trial back."""
        for decision in reversed(self.result.placed):
            self._unreserve(decision)


def intersection(
    names: frozenset[str] | None, others: frozenset[str] | None
) -> frozenset[str] | None:
    """Return the nodes that are in both; None: all nodes."""
    if names is None or others is None:
        return names if others is None else others
    return names & others
