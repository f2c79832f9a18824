"""Explain why a PodGroup cannot start: what fits in each topology domain, and what would help.

Everything is tried on a ``World``, in trials that are rolled back. The changes are the smallest of
their kind: a lower minCount, more nodes like an existing one, one other group deleted, another
topology label. Large groups in many domains take long, so the caller can limit the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final, cast

import numpy as np
import yaml

from podsched.api.objects import Topology
from podsched.ask.explain.changes.nodes import one_more, shapes
from podsched.ask.explain.changes.question import Question
from podsched.ask.explain.explanation import reference
from podsched.ask.whatif.deciding import exhaust, never
from podsched.ask.whatif.world import World
from podsched.decide.decision import Decision
from podsched.framework.local_queues import local_queue
from podsched.framework.nodes import ClusterView, JournaledColumns
from podsched.framework.pod_groups import Placement, PodGroup, pod_group
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from podsched.lib.counted import counted
from podsched.queues.stored import read_levels
from podsched.term.admission.units import asked_level
from podsched.v1.scheduling_pb2 import Change, Explanation, PodGroupStanding

#: Max domains in an explanation; max other groups, shapes of nodes and added nodes that are tried.
MAX_DOMAINS: Final = 10
MAX_GROUPS: Final = 24
MAX_SHAPES: Final = 8
MAX_NODES: Final = 256
#: Pods of a change that are listed.
MAX_PODS: Final = 20
CUT_SHORT: Final = "The search was cut short: other changes may help, too."
SCHEDULED: Final = "Enough members have a node."


def explain_pod_group(
    answer: Explanation,
    world: World,
    key: str,
    is_over: Callable[[], bool] = never,
    *,
    changes: bool = True,
) -> None:
    """Add to a group's explanation whether it fits, in which domains, and what would help.

    ``key``: "namespace/name" of the group. ``is_over``: whether the search has taken long enough.
    """
    group = asked_group(world.cluster, key)
    if group is None:
        return
    asked = _GroupQuestion(world, group, is_over)
    standing = answer.pod_group
    standing.topology_key = group.topology_key
    if not asked.waiting:
        return
    if (group.min_count or 1) <= len(asked.scheduled):
        answer.notes.append(SCHEDULED)
        return
    domains = asked.domains()
    if isinstance(domains, Status):
        unlabelled = f"No node has the label {group.topology_key}."
        answer.notes.append(domains.message if asked.scheduled or group.levels else unlabelled)
        domains = []
    standing.domains.extend(domains[:MAX_DOMAINS])
    standing.all_domains = len(domains)
    standing.fits = not asked.missing and asked.starts(group)
    if changes and not standing.fits:
        answer.changes.extend(asked.changes(domains))
    if is_over():
        answer.notes.append(CUT_SHORT)


def asked_group(cluster: ClusterView, key: str) -> PodGroup | None:
    """Return a group; if it is in a queue, with the level and the slices that it requires."""
    group, first = pod_group(cluster, key), next(iter(cluster.members(key)), None)
    if group is None or first is None or group.topology_key or not local_queue(cluster, first):
        return group
    level = asked_level(cluster, first)
    required = level.label if level.required else ""
    wanted = {required, *(name for name, _ in level.slices)} - {""}
    for one in cast(Iterable[Topology], cluster.list("Topology")) if wanted else ():
        if wanted.issubset(levels := read_levels(one)):
            return replace(
                group,
                topology_key=required,
                levels=levels,
                topology=one.metadata.name,
                slices=level.slices,
            )
    return group


class _GroupQuestion:
    """A pending group. ``waiting``: its members without a node; ``scheduled``: the others."""

    def __init__(self, world: World, group: PodGroup, is_over: Callable[[], bool]) -> None:
        self._world = world
        self._group = group
        self._is_over = is_over
        members = sorted(world.cluster.members(group.key), key=lambda pod: pod.name)
        members = [pod for pod in members if not pod.terminating]
        self.scheduled = [pod for pod in members if world.has_node(pod)]
        # A member with scheduling gates does not count as present.
        self.waiting = [
            pod for pod in members if not world.has_node(pod) and not pod.pod.spec.scheduling_gates
        ]

    @property
    def missing(self) -> int:
        """How many more members must exist."""
        there = len(self.scheduled) + len(self.waiting)
        return max(0, (self._group.min_count or 1) - there)

    def starts(self, group: PodGroup) -> bool:
        """Whether the members could start if their group were this one."""
        return self._world.deciding.start(group, self.waiting).ok

    def domains(self) -> list[PodGroupStanding.Domain] | Status:
        """Return how many members fit each placement, the largest first; or why there is none."""
        with self._world.changes.trial() as trial:
            attempt = self._world.deciding.attempt(trial, self._group, self.waiting)
            placements = attempt.placements()
        if isinstance(placements, Status):
            return placements
        found = []
        for placement in placements:
            found.append(self._holds(placement))
            if self._is_over():
                break
        return sorted(found, key=lambda domain: -domain.holds)

    def _holds(self, placement: Placement) -> PodGroupStanding.Domain:
        nodes = self._world.cluster.nodes
        with self._world.changes.trial() as trial:
            attempt = self._world.deciding.attempt(trial, self._group, self.waiting)
            exhaust(attempt.try_placement(trial, placement, never))
            decisions = attempt.result.decisions
        domain = PodGroupStanding.Domain(
            name=placement.name,
            nodes=len(placement.rows(nodes)),
            holds=len(self.scheduled) + sum(1 for decision in decisions if decision.node_name),
        )
        domain.lacks = max(0, (self._group.min_count or 1) - domain.holds)
        misfit = next((decision for decision in decisions if not decision.node_name), None)
        if misfit is not None:
            domain.misfit.name = misfit.queued.info.name
            domain.misfit.message = _why(misfit)
        return domain

    def changes(self, domains: Sequence[PodGroupStanding.Domain]) -> Iterator[Change]:
        """Yield the smallest change of each kind that has one."""
        best = domains[0] if domains else PodGroupStanding.Domain()
        if self.missing:
            text = f"create {counted(self.missing, 'more member')}"
            yield Change(kind="members", description=text, cost=self.missing)
        if self._group.min_count is not None and best.holds and best.lacks:
            yield _lower_min_count(self._group, best.holds)
        if self.missing:
            return  # Too few members exist, so that no other change is enough.
        for find in (self._nodes(best), self._another_topology(), self._group_gone()):
            if self._is_over():
                return
            yield from find

    def _nodes(self, best: PodGroupStanding.Domain) -> Iterator[Change]:
        """Yield the addition of the fewest nodes of the smallest shape that is enough."""
        misfits = (pod for pod in self.waiting if pod.name == best.misfit.name)
        question = self._world.question(next(misfits, self.waiting[0]))
        found: tuple[int, str] | None = None
        tried = 0
        for shape in sorted(shapes(question)):
            if tried == MAX_SHAPES or self._is_over():
                break
            if not _is_in(self._world.cluster, shape.name, self._group.topology_key, best.name):
                continue
            tried += 1
            # If it lacks none, the slices of its pods have too little room.
            most = min(MAX_NODES, best.lacks or len(self.waiting))
            most = most if found is None else found[0] - 1
            number = self._fewest(question, shape.name, most)
            if number is not None:
                found = number, shape.name
        if found is not None:
            number, name = found
            text = f"add a node like {name}" if number == 1 else f"add {number} nodes like {name}"
            yield Change(kind="node", description=text, cost=number, node=name)

    def _fewest(self, question: Question, name: str, most: int) -> int | None:
        """Return how many nodes like this one are enough; None if ``most`` are not."""
        low, high = 0, 1
        while not self._starts_with(question, name, min(high, most)):
            low, high = high, high * 2
            if low >= most or self._is_over():
                return None
        high = min(high, most)
        while high - low > 1 and not self._is_over():
            middle = (low + high) // 2
            if self._starts_with(question, name, middle):
                high = middle
            else:
                low = middle
        return high

    def _starts_with(self, question: Question, name: str, number: int) -> bool:
        if number < 1:
            return False
        with ExitStack() as added:
            for _ in range(number):
                added.enter_context(one_more(question, name))
            return self.starts(self._group)

    def _another_topology(self) -> Iterator[Change]:
        """Yield the narrowest label with larger domains that is enough, else no topology at all."""
        old = self._group.topology_key
        if not old:
            return
        for key in [*_wider_labels(self._world.cluster.nodes, old), ""]:
            if self._is_over():
                return
            if self.starts(replace(self._group, topology_key=key)):
                text = f"require {key} in place of {old}" if key else f"do not require {old}"
                yield Change(kind="topology", description=text)
                return

    def _group_gone(self) -> Iterator[Change]:
        """Yield the smallest other group without which this one could start."""
        groups: dict[str, list[PodInfo]] = {}
        for pod in self._world.pods():
            if pod.group and pod.group != self._group.key and self._world.has_node(pod):
                groups.setdefault(pod.group, []).append(pod)
        by_size = sorted(groups.items(), key=lambda item: (len(item[1]), item[0]))
        for key, pods in by_size[:MAX_GROUPS]:
            if self._is_over():
                return
            with self._world.changes.trial():
                for pod in pods:
                    self._world.changes.remove(pod)
                starts = self.starts(self._group)
            if starts:
                other = pod_group(self._world.cluster, key)
                priority = other.priority if other is not None else pods[0].priority
                yield Change(
                    kind="group-gone",
                    description=(
                        f"delete pod group {key} (priority {priority}, {counted(len(pods), 'pod')})"
                    ),
                    cost=len(pods),
                    pods=[reference(pod) for pod in pods[:MAX_PODS]],
                )
                return


def _why(decision: Decision) -> str:
    if decision.diagnosis is not None:
        return decision.diagnosis.fit_error()
    return decision.error.message if decision.error is not None else ""


def _lower_min_count(group: PodGroup, holds: int) -> Change:
    wanted = group.min_count or 1
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": holds}}}}
    return Change(
        kind="min-count",
        description=f"a minCount of {holds} in place of {wanted}",
        patch=yaml.safe_dump(patch, sort_keys=False),
        cost=wanted - holds,
    )


def _is_in(cluster: ClusterView, node_name: str, key: str, domain: str) -> bool:
    """Whether a node like this one would be in the domain."""
    nodes = cluster.nodes
    row = nodes.row_of(node_name)
    if not key or not domain or row is None:
        return True
    return nodes.node(row).metadata.labels.get(key) == domain


def _wider_labels(nodes: JournaledColumns, key: str) -> list[str]:
    """Return labels whose domains are unions of the required label's, the narrowest first.

    A label with the same value on all nodes is left out: it restricts nothing.
    Nodes without the required label belong to none of its domains.
    """
    rows = np.flatnonzero(nodes.alive).tolist()
    labels = [of for row in rows if key in (of := nodes.node(row).metadata.labels)]
    found = []
    for label in set(labels[0]).intersection(*labels[1:]) if labels else ():
        pairs = {(of[key], of[label]) for of in labels}
        narrow, wide = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
        if len(pairs) == len(narrow) > len(wide) > 1:
            found.append((-len(wide), label))
    return [label for _, label in sorted(found)]
