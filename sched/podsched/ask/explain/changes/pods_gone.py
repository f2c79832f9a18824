"""Find the fewest pods to delete so that the pod fits.

Two forms are tried, the smaller wins:

* one pod, on any node: for example, a pod elsewhere in the zone may rule out the whole zone;
* several pods of one node, on which the pod then fits, as in preemption.

If neither is found, a third form is tried: pods that use devices of one node.

Among equal numbers, terminating pods are preferred, then pods of low priority.

A node is excluded if a filter says that no eviction would help. For each other node there is a
lower bound of the number of pods to delete. It follows from the missing resources (the largest pods
first, resource by resource), and from single pods with which alone on the node a filter still
rejects it: these must go in any case. Then all sets of the smallest possible size are tried on
forks, many at a time; equal pods are interchangeable. Sets that fit there are tried in a trial. If
none fits, the size grows by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Final

import numpy as np

from podsched.api.resources import PODS
from podsched.ask.explain.changes.question import MOST_TRIES, Kind, Question, Rejections
from podsched.decide.evaluation.filtering import run_filters
from podsched.framework.filter_outcome import PASSED, FilterOutcome
from podsched.framework.nodes import ForkedColumns
from podsched.framework.plugin import LooksAcrossNodes, Remedy
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows
from podsched.lib.counted import listed
from podsched.v1.scheduling_pb2 import Change

#: Max pods to delete for one pod; more is no useful advice.
MOST_PODS: Final = 16
#: Rows of forks that are tried for one question, at a time and in all.
_AT_ONCE: Final = 256
_MOST_ROWS: Final = 8192
#: Sets of pods that are considered for one node and size.
_MOST_STEPS: Final = 2000
#: Max nodes that are tried of those that a filter rejects for another reason than a lack of
#: resources: there the effect of each single pod is evaluated.
_MOST_REJECTED_OTHERWISE: Final = 64
#: Max nodes that are tried without their users of devices.
_MOST_NODES_OF_USERS: Final = 8
#: Max pods that a description names.
_NAMED: Final = 4


@dataclass(slots=True)
class _Group:
    """Equal pods of a node, which are interchangeable."""

    pods: list[PodInfo]
    amounts: tuple[int, ...]
    must_go: bool = False


@dataclass(slots=True)
class _Node:
    """A node, the least number of its pods to delete, and the missing amounts (``short``)."""

    row: int
    groups: list[_Group]
    short: tuple[int, ...]
    at_least: int = 1


@dataclass(slots=True)
class _Bounds:
    """The remaining budget of the search, and the smallest size whose sets were not all tried."""

    rows: int = _MOST_ROWS
    sure_up_to: int = MOST_PODS

    def cut_short(self, size: int) -> None:
        """Note that not all sets of this size were tried."""
        self.sure_up_to = min(self.sure_up_to, size)


@dataclass(frozen=True, slots=True)
class _Set:
    """Pods of a row to delete."""

    row: int
    pods: tuple[PodInfo, ...] = field(compare=False)

    @property
    def worth(self) -> tuple[int, int, int, tuple[str, ...]]:
        """Sort key: the set with the least important pods comes first."""
        staying = [pod for pod in self.pods if not pod.terminating]
        return (
            len(staying),
            max((pod.priority for pod in staying), default=0),
            sum(pod.priority for pod in staying),
            tuple(pod.key for pod in self.pods),
        )


def pods_gone(question: Question) -> Change | None:
    """Return the fewest pods to delete so that the pod fits; None if no set is found."""
    rejections = question.rejections
    if rejections is None:
        return None
    bounds = _Bounds()
    nodes = _nodes(question, rejections, bounds)
    elsewhere = _one_elsewhere(question, rejections, bounds)
    for size in range(1, MOST_PODS + 1):
        for passing in _passing(question, nodes, size, bounds):
            candidates = sorted(passing + elsewhere, key=lambda candidate: candidate.worth)
            for candidate in candidates:
                change = _tried(question, candidate)
                if change is not None:
                    change.smaller_possible = size > bounds.sure_up_to
                    return change
        elsewhere = []
    return _users_gone(question, rejections)


def _users_gone(question: Question, rejections: Rejections) -> Change | None:
    """Return pods to delete on one node because of the devices that they use; None if none help.

    No set of pods can be judged by itself here, because a claim keeps its devices until all its
    users are gone. So all users of a node are removed, and then put back one by one, the most
    important first, as long as the pod still fits.
    """
    devices, requests = map(question.with_remedy, (Remedy.DEVICES, Remedy.REQUESTS))
    only = set(rejections.rows[rejections.by_none_but(devices)].tolist())
    rows = rejections.rows[rejections.by_none_but([*devices, *requests])]
    pods = question.cluster.columns.pods
    users = {
        row: [pod for pod in pods(row).values() if pod.uid in question.device_users]
        for row in rows.tolist()
    }
    nodes = sorted(filter(users.get, users), key=lambda row: (row not in only, len(users[row])))
    found = [_least_users(question, row, users[row]) for row in nodes[:_MOST_NODES_OF_USERS]]
    best = min(filter(None, found), key=lambda one: one.worth, default=None)
    change = None if best is None else _tried(question, best)
    if change is not None:
        change.smaller_possible = len(change.pods) > 1
    return change


def _least_users(question: Question, row: int, users: Sequence[PodInfo]) -> _Set | None:
    """Return a minimal set of a node's device users without which the pod fits there, or None."""
    gone = list(users)
    for kept in (None, *sorted(users, key=lambda pod: (-pod.priority, pod.start_time or inf))):
        left = [pod for pod in gone if pod is not kept]
        with question.without(left):
            fits = row in question.feasible(question.pod)
        if fits:
            gone = left
        elif kept is None:
            return None
    return _Set(row, tuple(gone)) if 0 < len(gone) <= MOST_PODS else None


def _tried(question: Question, candidate: _Set) -> Change | None:
    with question.without(candidate.pods):
        rows = question.feasible(question.pod)
    if len(candidate.pods) > 1 and candidate.row not in rows:
        return None
    pods = sorted(candidate.pods, key=lambda pod: pod.key)
    node = question.cluster.columns.names[candidate.row]
    names = listed([pod.key for pod in pods], _NAMED)
    text = f"delete pod{'s' if len(pods) > 1 else ''} {names} on node {node}"
    if all(pod.terminating for pod in pods):
        text = f"wait until {names} on node {node} {'are' if len(pods) > 1 else 'is'} gone"
    return question.change(Kind.PODS_GONE, text, len(pods), rows, pods=pods)


# ---------------------------------------------------------------------------------- nodes


def _nodes(question: Question, rejections: Rejections, bounds: _Bounds) -> list[_Node]:
    """Return the nodes on which deletions may help, those with the smallest bound first."""
    possible = ~rejections.unresolvable
    simple = rejections.by_none_but(question.with_remedy(Remedy.REQUESTS))
    columns = question.cluster.columns
    found = list(_described(question, rejections.rows[possible & simple]))
    otherwise = list(_described(question, rejections.rows[possible & ~simple]))
    otherwise.sort(key=lambda n: (n.at_least, columns.names[n.row]))
    if len(otherwise) > _MOST_REJECTED_OTHERWISE:
        bounds.cut_short(otherwise[_MOST_REJECTED_OTHERWISE].at_least)
        otherwise = otherwise[:_MOST_REJECTED_OTHERWISE]
    found += _necessary(question, rejections, otherwise)
    found.sort(key=lambda n: (n.at_least, columns.names[n.row]))
    return found


def _described(question: Question, rows: Rows) -> Iterator[_Node]:
    """Yield the nodes that have pods, each with the least number of its pods to delete."""
    columns, demand = question.cluster.columns, question.demand
    room = question.room(rows)
    short = [demand[resource] - room[resource] for resource in demand]
    if demand:
        short.append(1 - room[PODS])
    amounts: dict[PodClass, tuple[int, ...]] = {}
    for place, row in enumerate(rows.tolist()):
        groups: dict[tuple[PodClass, bool], _Group] = {}
        for pod in columns.pods(row).values():
            group = groups.get((pod.cls, pod.terminating))
            if group is not None:
                group.pods.append(pod)
                continue
            freed = amounts.get(pod.cls)
            if freed is None:
                freed = tuple(pod.cls.requests.get(name, 0) for name in demand)
                freed = amounts[pod.cls] = (*freed, 1) if demand else freed
            groups[pod.cls, pod.terminating] = _Group([pod], freed)
        if groups:
            node = _Node(row, list(groups.values()), tuple(int(lack[place]) for lack in short))
            node.at_least = _at_least(node)
            yield node


def _at_least(node: _Node) -> int:
    """Return the least number of pods to delete; more than there are if that is never enough."""
    most = 1
    for index, lack in enumerate(node.short):
        left, count = lack, 0
        for group in sorted(node.groups, key=lambda g: -g.amounts[index]):
            if left <= 0 or group.amounts[index] <= 0:
                break
            needed = min(len(group.pods), -(-left // group.amounts[index]))
            left -= needed * group.amounts[index]
            count += needed
        if left > 0:
            return MOST_PODS + 1
        most = max(most, count)
    return most


def _necessary(question: Question, rejections: Rejections, nodes: Sequence[_Node]) -> list[_Node]:
    """Find the pods that must go in any case; leave out nodes that stay rejected.

    If a filter rejects the node with only this pod left, it rejects it as long as the pod is there.
    This proves nothing if the pod must be near others, since these may be among the deleted ones.
    """
    places = {int(row): place for place, row in enumerate(rejections.rows.tolist())}
    rows = np.array([n.row for n in nodes for _ in range(len(n.groups) + 1)], dtype=np.intp)
    fork = question.cluster.columns.fork(rows)
    # Of each node first a row without all groups, then for each group a row with one pod of it.
    at = 0
    for node in nodes:
        for group in (None, *node.groups):
            for other in node.groups:
                keep = other.pods[0] if other is group else None
                for pod in other.pods:
                    if pod is not keep:
                        fork.remove_pod(at, pod)
            at += 1
    outcome = _outcome(question, fork)
    affinity = question.pod.cls.spec.affinity.pod_affinity
    near = bool(affinity.required_during_scheduling_ignored_during_execution)
    about_requests = question.with_remedy(Remedy.REQUESTS)
    kept, at = [], 0
    for node in nodes:
        emptied = outcome.plugin[at]
        for offset, group in enumerate(node.groups, start=at + 1):
            plugin = int(outcome.plugin[offset])
            if plugin >= 0 and emptied == PASSED:
                status = outcome.status(offset)
                before = rejections.reasons(status.plugin, places[node.row])
                same = bool(before.intersection(status.reasons))
                group.must_go = same and status.plugin not in about_requests
        at += len(node.groups) + 1
        if emptied == PASSED or near:
            forced = sum(len(group.pods) for group in node.groups if group.must_go)
            node.at_least = max(node.at_least, forced)
            kept.append(node)
    return kept


# ---------------------------------------------------------------------------------- sets of pods


def _passing(
    question: Question, nodes: Sequence[_Node], size: int, bounds: _Bounds
) -> Iterator[list[_Set]]:
    """Yield sets of this size that make the pod fit on forks, batch by batch."""
    every = (one for node in nodes if node.at_least <= size for one in _sets(node, size, bounds))
    while batch := list(islice(every, min(_AT_ONCE, bounds.rows))):
        bounds.rows -= len(batch)
        fork = question.cluster.columns.fork(np.array([s.row for s in batch], dtype=np.intp))
        for place, one in enumerate(batch):
            for pod in one.pods:
                fork.remove_pod(place, pod)
        passed = _outcome(question, fork).plugin == PASSED
        yield [batch[place] for place in np.flatnonzero(passed).tolist()]
    if bounds.rows <= 0:
        bounds.cut_short(size)
    # The caller adds single pods of other nodes to each batch. They have to be tried even if there
    # is not a set of this size.
    yield []


def _outcome(question: Question, fork: ForkedColumns) -> FilterOutcome:
    rows = np.arange(fork.size)
    return run_filters(question.runtime, question.state, question.pod, fork, rows, question.cluster)


def _sets(node: _Node, size: int, bounds: _Bounds) -> Iterator[_Set]:
    """List the sets of ``size`` pods that free enough; the largest pods come first."""
    forced = [pod for group in node.groups if group.must_go for pod in group.pods]
    left = [
        lack - sum(len(g.pods) * g.amounts[index] for g in node.groups if g.must_go)
        for index, lack in enumerate(node.short)
    ]
    if size < len(forced):
        return
    choice = _Choice([group for group in node.groups if not group.must_go], left)
    for chosen in choice.sets(0, size - len(forced), left):
        yield _Set(node.row, (*forced, *chosen))
    if choice.steps > _MOST_STEPS:
        bounds.cut_short(size)


class _Choice:
    """Chooses pods from groups, without choices that cannot free enough."""

    def __init__(self, groups: Sequence[_Group], short: Sequence[int]) -> None:
        short_of = [index for index, lack in enumerate(short) if lack > 0]

        def share(group: _Group) -> float:
            return sum(min(1.0, group.amounts[index] / short[index]) for index in short_of)

        self._groups = sorted(groups, key=share, reverse=True)
        #: By group and resource, the largest amount of this group or one after it.
        self._largest = [
            [
                max((g.amounts[i] for g in self._groups[start:]), default=0)
                for i in range(len(short))
            ]
            for start in range(len(groups) + 1)
        ]
        self.steps = 0

    def sets(self, start: int, count: int, short: list[int]) -> Iterator[tuple[PodInfo, ...]]:
        """Yield sets of ``count`` pods, of the groups from ``start`` on, that free enough."""
        self.steps += 1
        largest = self._largest[start]
        if self.steps > _MOST_STEPS or any(
            lack > 0 and lack > count * most for lack, most in zip(short, largest, strict=True)
        ):
            return
        if count == 0:
            yield ()
        elif start < len(self._groups):
            group = self._groups[start]
            for taken in range(min(count, len(group.pods)), -1, -1):
                left = [
                    lack - taken * freed for lack, freed in zip(short, group.amounts, strict=True)
                ]
                for others in self.sets(start + 1, count - taken, left):
                    yield (*group.pods[:taken], *others)


# ---------------------------------------------------------------------------------- other nodes


def _one_elsewhere(question: Question, rejections: Rejections, bounds: _Bounds) -> list[_Set]:
    """Return single pods whose deletion may make other nodes than their own feasible.

    None unless some node is rejected only because of pods on other nodes.
    """
    if not rejections.by_none_but(question.with_remedy(Remedy.PODS_ELSEWHERE)).any():
        return []
    columns = question.cluster.columns
    concerns = _concern(question, rejections)
    found = [
        _Set(row, (pod,))
        for row in columns.node_table.live_rows.tolist()
        for pod in columns.pods(row).values()
        if concerns(pod)
    ]
    found.sort(key=lambda one: one.worth)
    passing: list[_Set] = []
    for one in found[:MOST_TRIES]:
        with question.without(one.pods):
            if len(question.feasible(question.pod)):
                passing.append(one)
    if len(found) > MOST_TRIES:
        bounds.cut_short(1)
    return passing


def _concern(question: Question, rejections: Rejections) -> Callable[[PodInfo], bool]:
    """Return whether deleting a pod may matter on other nodes, by the plugins that reject there."""
    asked = [
        named.plugin.concern(question.pod, question.cluster)
        for named in question.runtime.filter
        if isinstance(named.plugin, LooksAcrossNodes) and rejections.of(named.name).any()
    ]
    known: dict[PodClass, bool] = {}

    def concerns(other: PodInfo) -> bool:
        if other.cls not in known:
            known[other.cls] = any(ask(other) for ask in asked)
        return known[other.cls]

    return concerns
