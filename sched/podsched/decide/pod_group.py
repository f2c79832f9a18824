"""Decide for a pod group: all members in one trial, which is kept if the group may start.

::

    for each placement, in a trial that is rolled back: decide for the members one after another,
    like single pods (``Decider``); assume and reserve each, so that the next ones see it
        |
        |-- some placements are feasible --> decide again in the best one, and keep the trial
        '-- none is --> other orders of the members, then any placement (``pod_group_search``)
                |-- found --> keep it
                '-- none --> PodGroupPostFilter: the same passes without some pods (victims)

A group without a topology constraint has one placement: all nodes. Its first pass is kept at once.

A decision for a large group takes longer than an event-loop turn. So ``run`` is a generator that
yields when the turn is used up. The trial stays open meanwhile, and events are applied beneath it.

Source: ``schedule_one_podgroup.go`` of kube-scheduler v1.36, podGroupSchedulingDefaultAlgorithm and
podGroupSchedulingPlacementAlgorithm. Three things differ. Members never wait at Permit. Nothing is
reserved a second time after the trial. A member that needs preemption does not count as placed,
because victims are chosen for the whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import Decision, ShouldStop
from podsched.decide.domain_search import DomainSearch, Where
from podsched.decide.placement_bounds import PlacementBounds
from podsched.decide.pod_group_search import (
    MAX_MEMBERS,
    MAX_STEPS,
    Budget,
    PodGroupSearch,
    Step,
    greedy_is_exact,
    worth_searching,
)
from podsched.decide.runtime.group_plugins import group_plugins
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import (
    REASON_UNSCHEDULABLE,
    GroupTrial,
    Later,
    Placement,
    PodGroup,
    TriedPlacement,
    Try,
    VictimSearch,
)
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import SUCCESS, Code, Status, error, unschedulable

REASON_OTHER_FAILED: Final = "failed to schedule other pod from a pod group: {}"
REASON_NONE: Final = "no placement exists"
REASON_TOO_MANY: Final = (
    f"no placement was found: of more than {MAX_MEMBERS} members only some orders are tried"
)
REASON_NOT_FOUND: Final = f"no placement was found in {MAX_STEPS} steps"
REASON_PLACEMENTS: Final = "0/{} placements are available, first placement status: {}"
GENERATE_WORDING = 'running PlacementGenerate plugin "{}"'
SCORE_WORDING = 'running PlacementScore plugin "{}"'
POST_FILTER_WORDING = 'running PodGroupPostFilter plugin "{}"'
#: Max members passed to the decider in one call. It copies the rest of them after each pod that
#: fits nowhere, so passing all members of a large group would be quadratic.
_WINDOW: Final = 512


#: The only nodes that a member may use, None: all. Members with equal nodes get the same object.
NodesOf = Callable[[PodInfo], frozenset[str] | None]
#: Runs an attempt over several turns of the event loop; other tasks run where it yields.
Turns = Generator[None, None, None]
#: Max orders of the members that are tried, and max members decided for in all of them together: so
#: a group of more than 4,000 members is tried in one order only.
MAX_ORDERS: Final = 8
MAX_ORDERED: Final = 8000


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
        for decision in self.decisions:
            if decision.diagnosis is not None:
                decision.diagnosis.rejected_elsewhere |= other.rejecting


@dataclass(frozen=True, slots=True)
class _Pass:
    """A search for a placement of the whole group, in a trial.

    ``keep``: whether the members of the placement that is found stay assumed. ``note``: see
    ``Try``.
    """

    trial: GroupTrial
    placements: Sequence[Placement]
    should_stop: ShouldStop
    keep: bool = True
    note: Callable[[Sequence[PodInfo]], object] = len


def member_order(queued: QueuedPodInfo) -> tuple[int, float, int]:
    """Sort key of members: higher priority first, then the earlier first attempt."""
    return -queued.info.priority, queued.initial_attempt_timestamp or 0.0, queued.sequence


class PodGroupAttempt:
    """One attempt to place the pending members of a group."""

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

    def run(self, trial: GroupTrial, should_stop: ShouldStop, *, preempts: bool = True) -> Turns:
        """Decide, with the outcome in ``result``; yields whenever ``should_stop`` returns True.

        ``preempts``: search for victims if the group does not fit.
        """
        placements = self.placements()
        if isinstance(placements, Status):
            self.result = GroupDecision(placements)
            return
        yield from self._place_in_any_order(_Pass(trial, placements, should_stop))
        if preempts and self.result.status.code.rejects:
            for named in self._plugins.post_filter[:1]:
                members = [queued.info for queued in self.members]
                words = named.name, POST_FILTER_WORDING
                call = named.plugin.search_victims
                search = partial(guarded, *words, call, self._group, members, self._cluster)
                yield from self.search_victims(trial, should_stop, search, named.name)

    def _place_in_any_order(self, run: _Pass) -> Iterator[None]:
        """Place the members in their order; if they do not fit, in others, then anyhow."""
        for place in (self._place, self._try_other_orders, self._search):
            yield from place(run)
            if not self.result.status.code.rejects:
                return

    def _try_other_orders(self, run: _Pass) -> Iterator[None]:
        """Try members that found no node first, before others take the only nodes they fit.

        kube-scheduler stops after one order. Other orders may still miss a placement that exists.
        """
        refused, given = self.result, self.members
        if len({queued.info.cls for queued in given}) == 1:
            return  # Every order of equal members is the same.
        tried = {_classes(given)}
        while len(tried) < min(MAX_ORDERS, MAX_ORDERED // len(given)):
            placed = {decision.queued.info.uid for decision in self.result.placed}
            # Sorting is stable: members without a node come first, the others keep their order.
            order = sorted(self.members, key=lambda queued: queued.info.uid in placed)
            if _classes(order) in tried:
                break
            tried.add(_classes(order))
            self.members = order
            yield from self._place(run)
            if not self.result.status.code.rejects:
                return
        self.result, self.members = refused, given

    def _search(self, run: _Pass) -> Iterator[None]:
        """Search for any placement, if it can succeed; see ``pod_group_search``."""
        members, refused = self.members, self.result
        if self._group.slices:
            return  # Other placements may split a slice.
        pods = [queued.info for queued in members]
        # A pod that is nominated to a node is tried there first.
        proved = not any(map(self._cluster.nominated_node, (pod.uid for pod in pods)))
        if not worth_searching(pods):
            if proved and greedy_is_exact(self._runtime, pods):
                self._refuse(refused, REASON_NONE)
            elif len(pods) > MAX_MEMBERS:
                self._refuse(refused, REASON_TOO_MANY)
            return
        if len({self._allowed(pod) for pod in pods}) > 1:
            return  # A search has one set of nodes.
        budget = Budget()
        for placement in run.placements:
            if not self._bounds.may_hold(placement):
                continue
            search = PodGroupSearch(
                self._decider,
                self._cluster,
                self._runtime,
                members,
                self._needed,
                budget,
                run.should_stop,
            )
            with run.trial.inner() as inner:
                inner.restrict(_both(placement.node_names, self._allowed(pods[0])))
                steps = yield from search.run(inner)
            if steps is None:
                proved = proved and search.proved
                continue
            with run.trial.inner() as inner:
                yield from self._follow(inner, placement, steps, run.should_stop)
                self._end_trial(inner, run)
            if not self.result.status.code.rejects:
                return
            proved = False
        self._refuse(refused, REASON_NONE if proved else REASON_NOT_FOUND)

    def _refuse(self, refused: GroupDecision, verdict: str) -> None:
        """Make ``refused`` the result again; ``verdict``: the search's result, as a reason."""
        refused.status = replace(refused.status, reasons=(*refused.status.reasons, verdict))
        self.result = refused

    def _follow(
        self,
        trial: GroupTrial,
        placement: Placement,
        steps: Sequence[Step],
        should_stop: ShouldStop,
    ) -> Iterator[None]:
        """Place members as a search has found, then decide for the members that it left out."""
        self.result = GroupDecision()
        done = set[str]()
        for queued, node_name in steps:
            # The search only assumed members. A decision on the found node also makes the state
            # that Reserve reads.
            trial.restrict(frozenset((node_name,)))
            [decision] = self._decider.decide(trial, self._runtime, [queued])
            if not self.add(trial, decision):
                return
            done.add(queued.info.uid)
            if should_stop():
                yield
        left = [queued for queued in self.members if queued.info.uid not in done]
        yield from self._try_members(trial, placement, left, should_stop)

    # ------------------------------------------------------------------ placements

    def placements(self) -> Sequence[Placement] | Status:
        """Return the placements to try, or why there are none."""
        for named in self._plugins.generate[:1]:
            call = named.plugin.generate_placements
            words = named.name, GENERATE_WORDING
            try:
                found = guarded(*words, call, self._group, self._scheduled, self._cluster)
            except PluginFailure as failure:
                return failure.status
            return found.by(named.name) if isinstance(found, Status) else found
        return [Placement()]

    def _place(self, run: _Pass) -> Iterator[None]:
        """Fill domains, or try the placements."""
        group, scheduled = self._group, self._scheduled
        search = DomainSearch(
            self._decider,
            self._cluster,
            self._runtime,
            group,
            self.members,
            scheduled,
            self._allowed,
            run.placements,
        )
        # Members that run already may be in several domains of a level that is only preferred.
        if group.slices or (group.levels and not (scheduled and group.preferred_topology)):
            for where in search.tries(run.trial, self._needed):
                if (yield from self._fill(run, search, where)):
                    return
        if group.slices:
            # Only for the members' reasons: such a placement may split a slice.
            yield from self._place_in_one(replace(run, keep=False, note=len))
            if self.result.status.ok:
                self.result.status = unschedulable()
            self.result.rejected_by.update(named.name for named in self._runtime.filter)
        else:
            yield from self._place_in_one(run)
        if search.reason and (status := self.result.status).code.rejects:
            self.result.status = replace(status, reasons=(search.reason, *status.reasons))

    def _place_in_one(self, run: _Pass) -> Iterator[None]:
        """Try one placement after another, then keep the best one."""
        placements = run.placements
        if len(placements) == 1 and run.keep:
            # There is nothing to compare, so the members are decided for only once.
            with run.trial.inner() as inner:
                yield from self.try_placement(inner, placements[0], run.should_stop)
                self._end_trial(inner, run)
            self._count_placements(placements, self.result)
            return
        trying = replace(run, keep=False)
        first: GroupDecision | None = None
        feasible: list[TriedPlacement] = []
        for placement in placements:
            # Placements are in the order of their levels.
            if feasible and placement.level > feasible[0].placement.level:
                break
            # The first placement is always tried: the members' reasons are those from there.
            if first is not None and not self._bounds.may_hold(placement):
                first.also_rejected_by(GroupDecision(rejected_by=self._bounds.plugins))
                continue
            with run.trial.inner() as inner:
                yield from self.try_placement(inner, placement, run.should_stop)
                self._end_trial(inner, trying)
            if self.result.status.code is Code.ERROR:
                return
            first = first or self.result
            first.also_rejected_by(self.result)
            if self.result.status.ok:
                pods = [(d.queued.info, d.node_name) for d in self.result.placed]
                count = len(self._scheduled) + len(pods)
                feasible.append(TriedPlacement(placement, count, pods))
                if not run.keep:
                    return  # The caller only asks whether the group fits somewhere.
        if not feasible:
            assert first is not None
            self._count_placements(placements, first)
            return
        # The trials of all placements were rolled back, so the best one is tried again. Events may
        # have come in between, so it may no longer be feasible.
        best = feasible[0] if len(feasible) == 1 else self._best(feasible)
        with run.trial.inner() as inner:
            yield from self.try_placement(inner, best.placement, run.should_stop)
            self._end_trial(inner, run)

    def _fill(self, run: _Pass, search: DomainSearch, where: Where) -> Generator[None, None, bool]:
        """Place the members in parts; return whether that ends the attempt, also by an error."""
        self.result = GroupDecision()
        with run.trial.inner() as inner:
            if not (yield from self._fill_each(inner, search, where, run.should_stop)):
                self.take_back()
                return self.result.status.code is Code.ERROR
            self._end_trial(inner, run)
            return True

    def _fill_each(
        self, trial: GroupTrial, search: DomainSearch, where: Where, should_stop: ShouldStop
    ) -> Generator[None, None, bool]:
        """Fill domains with one shape after another; return whether all were filled as planned."""
        filled: set[str] = set()
        rest: list[QueuedPodInfo] = []
        later = len(self.members)
        for members in search.shapes:
            later -= len(members)
            # How many have to fit if all of the later shapes do.
            needed = where.needed - len(self.result.placed) - later
            parts, done = search.fill(trial, members, needed, where), 0
            if not parts and needed > 0:
                return False
            for part in parts:
                some = members[done : done + part.members]
                place = Placement("", part.node_names)
                before = len(self.result.placed)
                yield from self._try_members(trial, place, some, should_stop)
                if len(self.result.placed) < before + len(some):
                    return False  # A constraint that ``DomainSearch`` does not count.
                done += part.members
                filled |= part.node_names
            rest += members[done:]
        # With slices, the rest might split one.
        names = frozenset() if self._group.slices else frozenset(filled)
        yield from self._try_members(trial, Placement("", names), rest, should_stop)
        return True

    @cached_property
    def _needed(self) -> int:
        """How many of the members have to be placed for the group to start."""
        needed = (self._group.min_count or 1) - len(self._scheduled)
        # If the group may also start with one member fewer, there is no minimum: it is a basic
        # group, or the profile has no GangScheduling.
        return 1 if needed < 1 or self._feasible(needed - 1).ok else needed

    @cached_property
    def _bounds(self) -> PlacementBounds:
        members = [queued.info for queued in self.members]
        return PlacementBounds(self._runtime, self._cluster.nodes, members, self._needed)

    def _count_placements(self, placements: Sequence[Placement], first: GroupDecision) -> None:
        """Set the result after no placement was feasible: outcomes of the first, number of all."""
        if first.status.code.rejects:
            text = REASON_PLACEMENTS.format(len(placements), first.status.message)
            first.status = replace(first.status, reasons=(text,))
        self.result = first

    def _best(self, feasible: Sequence[TriedPlacement]) -> TriedPlacement:
        """Return the placement with the highest weighted sum of scores; the first of equals."""
        totals = [0.0] * len(feasible)
        for named in self._plugins.score:
            score = named.plugin.score_placements
            scores = guarded(named.name, SCORE_WORDING, score, self._group, feasible, self._cluster)
            totals = [t + named.weight * s for t, s in zip(totals, scores, strict=True)]
        return feasible[max(range(len(totals)), key=totals.__getitem__)]

    # ------------------------------------------------------------------ one pass over the members

    def try_placement(
        self, trial: GroupTrial, placement: Placement, should_stop: ShouldStop
    ) -> Iterator[None]:
        """Decide for all members in one placement; those that fit stay assumed in the trial.

        They stay reserved as well, although they may be too few.
        """
        self.result = GroupDecision()
        yield from self._try_members(trial, placement, self.members, should_stop)

    def _try_members(
        self,
        trial: GroupTrial,
        placement: Placement,
        members: Sequence[QueuedPodInfo],
        should_stop: ShouldStop,
    ) -> Iterator[None]:
        """Decide for members, add the decisions to the result, and conclude it."""
        decided = 0
        while decided < len(members):
            allowed = self._allowed(members[decided].info)
            trial.restrict(_both(placement.node_names, allowed))
            window = members[decided : decided + _WINDOW]
            window = window[: self._alike(window, allowed)]
            for decision in self._decider.decide(
                trial, self._runtime, window, should_stop=should_stop
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
        others = (i for i, q in enumerate(members) if self._allowed(q.info) is not allowed)
        return next(others, len(members))

    def _allowed(self, pod: PodInfo) -> frozenset[str] | None:
        return None if self._nodes_of is None else self._nodes_of(pod)

    def add(self, trial: GroupTrial, decision: Decision) -> bool:
        """Add a decision to the result; return False if an error ends the attempt."""
        self.result.decisions.append(decision)
        if decision.node_name:
            self._book(trial, decision)
        if decision.error is None or decision.error.code is not Code.ERROR:
            return True
        self.result.status = error(REASON_OTHER_FAILED.format(decision.error.message))
        return False

    def _book(self, trial: GroupTrial, decision: Decision) -> None:
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

    def _end_trial(self, trial: GroupTrial, run: _Pass) -> None:
        """Keep the members assumed if the group may start and ``run.keep``, or take them back."""
        if self.result.status.ok:
            run.note([decision.queued.info for decision in self.result.placed])
            if run.keep:
                trial.commit()
                return
        self.take_back()

    def take_back(self) -> None:
        """Unreserve all members, the latest first; the caller rolls their trial back."""
        for decision in reversed(self.result.placed):
            self._unreserve(decision)

    # ------------------------------------------------------------------ preemption

    def search_victims(
        self,
        trial: GroupTrial,
        should_stop: ShouldStop,
        begin: Callable[[], VictimSearch],
        name: str,
    ) -> Iterator[None]:
        """Search for victims: pods whose eviction lets the group start, after it did not fit.

        ``begin`` begins the search of the plugin ``name``.
        """
        refused, members = self.result, self.members
        placements = self.placements()
        if isinstance(placements, Status):
            return
        fits: bool | None = None
        chosen = refused
        step: Try | Victims | Later | Status
        try:
            words = name, POST_FILTER_WORDING
            # Closed in any case: an unfinished search then undoes its changes to quotas.
            with closing(begin()) as search:
                while isinstance(step := guarded(*words, _advance, search, fits), Try):
                    # Always rolled back: victims leave the cache only once they are evicted.
                    with trial.inner() as without:
                        step.begin(without)
                        run = _Pass(without, placements, should_stop, keep=False, note=step.note)
                        place = self._place_in_any_order if step.thorough else self._place
                        yield from place(run)
                    fits = self.result.status.ok
                    chosen = self.result if fits else chosen
        except PluginFailure as failure:
            step = failure.status
        # The members' reasons are those of the attempt with all pods; ``chosen`` only has the
        # nodes to nominate.
        self.result, self.members = refused, members
        nodes = {decision.queued.info.uid: decision.node_name for decision in chosen.placed}
        if isinstance(step, Victims):
            refused.victims, refused.preempting_plugin = step, name
            refused.nominations = nodes
        elif isinstance(step, Later):
            refused.later = nodes
        elif step.code is Code.WAIT:
            refused.waits_for_victims = True
        elif step.code is Code.ERROR:
            refused.status = step
        else:
            reasons = dict.fromkeys((*refused.status.reasons, *step.reasons))
            refused.status = replace(refused.status, reasons=tuple(reasons))


def _both(names: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    """Return the nodes that are in both; None: all nodes."""
    if names is None or others is None:
        return names if others is None else others
    return names & others


def _classes(members: Sequence[QueuedPodInfo]) -> tuple[int, ...]:
    """Return the class ids in order: orders that differ only within classes are the same."""
    return tuple(queued.info.cls.id for queued in members)


def _advance(search: VictimSearch, fits: bool | None) -> Try | Victims | Later | Status:
    """Return the next state to try the group in, or the end of the search."""
    try:
        step = search.send(fits)
        return step if isinstance(step, Try) else Try(step)
    except StopIteration as end:
        found: Victims | Later | Status = end.value
        return found
