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

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

from podsched.decide.decision import ShouldStop
from podsched.decide.domain_search import DomainSearch, Where
from podsched.decide.placement_bounds import PlacementBounds
from podsched.decide.pod_group_members import GroupDecision, GroupMembers, intersection
from podsched.decide.pod_group_search import (
    MAX_MEMBERS,
    MAX_STEPS,
    Budget,
    PodGroupSearch,
    Step,
    greedy_is_exact,
    worth_searching,
)
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import (
    GroupTrial,
    Later,
    Placement,
    TriedPlacement,
    Try,
    VictimSearch,
)
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code, Status, unschedulable

REASON_NO_PLACEMENT: Final = "no feasible placements found"
REASON_NONE: Final = "no placement exists"
REASON_TOO_MANY: Final = (
    f"no placement was found: of more than {MAX_MEMBERS} members only some orders are tried"
)
REASON_NOT_FOUND: Final = f"no placement was found in {MAX_STEPS} steps"
REASON_PLACEMENTS: Final = "0/{} placements are available, first placement status: {}"
GENERATE_WORDING = 'running PlacementGenerate plugin "{}"'
SCORE_WORDING = 'running PlacementScore plugin "{}"'
POST_FILTER_WORDING = 'running PodGroupPostFilter plugin "{}"'
#: Runs an attempt over several turns of the event loop; other tasks run where it yields.
Turns = Generator[None, None, None]
#: A state to try a group in, or the end of a search for victims.
_Step = Try | Victims | Later | Status
#: Max orders of the members that are tried, and max members decided for in all of them together: so
#: a group of more than 4,000 members is tried in one order only.
MAX_ORDERS: Final = 8
MAX_ORDERED: Final = 8000


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


class PodGroupAttempt(GroupMembers):
    """One attempt to place the pending members of a group."""

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
        # If no order fits, the members are told the reasons of the order that kube-scheduler tries.
        self.result, self.members = refused, given

    def _search(self, run: _Pass) -> Iterator[None]:
        """Search for any placement, if it can succeed; see ``pod_group_search``."""
        members, refused = self.members, self.result
        if self._group.slices:
            return  # Other placements may split a slice.
        pods = [queued.info for queued in members]
        # A pod that is nominated to a node is tried there first.
        proved = not any(map(self._cluster.nominator.node_of, (pod.uid for pod in pods)))
        if not worth_searching(pods):
            if proved and greedy_is_exact(self._runtime, pods):
                self._refuse(refused, REASON_NONE)
            elif len(pods) > MAX_MEMBERS:
                self._refuse(refused, REASON_TOO_MANY)
            return
        if len({self.allowed(pod) for pod in pods}) > 1:
            return  # A search has one set of nodes.
        budget = Budget()
        for placement in run.placements:
            yield from _pause(run.should_stop)
            if not self._bounds.may_hold(placement):
                continue
            search = PodGroupSearch(
                self._decider,
                self._cluster,
                self._runtime,
                members,
                self.needed,
                budget,
                run.should_stop,
            )
            with run.trial.inner() as inner:
                inner.restrict(intersection(placement.node_names, self.allowed(pods[0])))
                steps = yield from search.run(inner)
            if steps is None:
                proved = proved and search.proved
                continue
            with run.trial.inner() as inner:
                yield from self._follow(inner, placement, steps, run.should_stop)
                yield from self._end_trial(inner, run)
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
        yield from self.decide_members(trial, placement, left, should_stop)

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
            found = found or unschedulable(REASON_NO_PLACEMENT)  # A status is never false.
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
            self.allowed,
            run.placements,
        )
        # Members that run already may be in several domains of a level that is only preferred.
        if group.slices or (group.levels and not (scheduled and group.preferred_topology)):
            for where in search.tries(run.trial, self.needed):
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
                yield from self._end_trial(inner, run)
            self._count_placements(placements, self.result)
            return
        trying = replace(run, keep=False)
        first: GroupDecision | None = None
        ruled_out = GroupDecision()
        feasible: list[TriedPlacement] = []
        for placement in placements:
            # Placements are in the order of their levels.
            if feasible and placement.level > feasible[0].placement.level:
                break
            yield from _pause(run.should_stop)
            # The first placement is always tried: the members' reasons are those from there.
            if first is not None and not self._bounds.may_hold(placement):
                ruled_out.rejected_by = self._bounds.plugins
                continue
            with run.trial.inner() as inner:
                yield from self.try_placement(inner, placement, run.should_stop)
                yield from self._end_trial(inner, trying)
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
            first.also_rejected_by(ruled_out)
            self._count_placements(placements, first)
            return
        # The trials of all placements were rolled back, so the best one is tried again. Events may
        # have come in between, so it may no longer be feasible.
        best = feasible[0] if len(feasible) == 1 else self._best(feasible)
        with run.trial.inner() as inner:
            yield from self.try_placement(inner, best.placement, run.should_stop)
            yield from self._end_trial(inner, run)

    def _fill(self, run: _Pass, search: DomainSearch, where: Where) -> Generator[None, None, bool]:
        """Place the members in parts; return whether that ends the attempt, also by an error."""
        self.result = GroupDecision()
        with run.trial.inner() as inner:
            if not (yield from self._fill_each(inner, search, where, run.should_stop)):
                self.unreserve_all()
                yield from _giving_way(inner.undoing(), run.should_stop)
                return self.result.status.code is Code.ERROR
            yield from self._end_trial(inner, run)
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
                yield from self.decide_members(trial, place, some, should_stop)
                if len(self.result.placed) < before + len(some):
                    return False  # A constraint that ``DomainSearch`` does not count.
                done += part.members
                filled |= part.node_names
            rest += members[done:]
        # With slices, the rest might split one.
        names = frozenset() if self._group.slices else frozenset(filled)
        yield from self.decide_members(trial, Placement("", names), rest, should_stop)
        return True

    @cached_property
    def _bounds(self) -> PlacementBounds:
        members = [queued.info for queued in self.members]
        return PlacementBounds(self._runtime, self._cluster.nodes, members, self.needed)

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

    def _end_trial(self, trial: GroupTrial, run: _Pass) -> Iterator[None]:
        """Keep the members assumed if the group may start and ``run.keep``, or take them back."""
        if self.result.status.ok:
            run.note([decision.queued.info for decision in self.result.placed])
            if run.keep:
                trial.commit()
                return
        self.unreserve_all()
        # Thousands may have been placed.
        yield from _giving_way(trial.undoing(), run.should_stop)

    def try_placement(
        self, trial: GroupTrial, placement: Placement, should_stop: ShouldStop
    ) -> Iterator[None]:
        """Decide for all members in one placement; those that fit stay assumed in the trial.

        They stay reserved as well, although they may be too few.
        """
        self.result = GroupDecision()
        yield from self.decide_members(trial, placement, self.members, should_stop)

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
        step: _Step
        try:
            # Closed in any case: an unfinished search then undoes its changes to quotas.
            with closing(begin()) as search:
                while isinstance(step := (yield from _next(search, fits, name, should_stop)), Try):
                    # Always rolled back: victims leave the cache only once they are evicted.
                    with trial.inner() as without:
                        # At first all pods of lower priority are removed, and put back: 0.3 s for
                        # 20,000.
                        yield from _giving_way(step.begin(without), should_stop)
                        run = _Pass(without, placements, should_stop, keep=False, note=step.note)
                        place = self._place_in_any_order if step.thorough else self._place
                        yield from place(run)
                        yield from _giving_way(without.undoing(), should_stop)
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


def _pause(should_stop: ShouldStop) -> Iterator[None]:
    """Yield if ``should_stop`` returns True."""
    if should_stop():
        yield


def _classes(members: Sequence[QueuedPodInfo]) -> tuple[int, ...]:
    """Return the class ids in order: orders that differ only within classes are the same."""
    return tuple(queued.info.cls.id for queued in members)


def _giving_way(work: Iterator[None], should_stop: ShouldStop) -> Iterator[None]:
    """Do work in steps; yields whenever ``should_stop`` returns True."""
    for _ in work:
        if should_stop():
            yield


def _next(
    search: VictimSearch, fits: bool | None, name: str, should_stop: ShouldStop
) -> Generator[None, None, _Step]:
    """Return the next step of a search of the plugin ``name``."""
    while (step := guarded(name, POST_FILTER_WORDING, _advance, search, fits)) is None:
        if should_stop():
            yield
    return step


def _advance(search: VictimSearch, fits: bool | None) -> _Step | None:
    """Return the next step of a search; None if it has only done a part of its work."""
    try:
        step = search.send(fits)
        return step if step is None or isinstance(step, Try) else Try(step)
    except StopIteration as end:
        found: Victims | Later | Status = end.value
        return found
