"""Group nodes that are rejected for the same reasons, and measure what they lack.

5,000 nodes make a handful of groups. The examples of a group are the nodes that lack least: the
fewest requirements, then the smallest share of the requested amount.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsched.ask.explain.fitting import Fitting
from podsched.decide.runtime.profile_runtime import Named
from podsched.framework.filter_outcome import EXCLUDED, PASSED
from podsched.framework.nodes import Int64s
from podsched.framework.plugin import FilterPlugin
from podsched.framework.requirements import ExplainsParts, MeasuresRequirements, Requirement
from podsched.framework.status import Status
from podsched.framework.verdicts import Rows
from podsched.v1.scheduling_pb2 import NodeGroup, NodeParts, NodeVerdict, Shortfall, ShortfallOnNode

#: Max groups in an explanation; a note gives the number of the others.
MAX_GROUPS: Final = 50
MAX_EXAMPLES: Final = 5
MAX_SHORTFALLS: Final = 10


class _Rejected(NamedTuple):
    """Indices of the outcome with one status, set by the filter at ``plugin`` or PreFilter."""

    status: Status
    plugin: int
    places: Rows


def groups(fitting: Fitting) -> list[NodeGroup]:
    """Return the groups of rejected nodes, the largest first; there may be many."""
    found = [_group(fitting, rejected) for rejected in _by_status(fitting)]
    return sorted(found, key=lambda group: -group.nodes)


def verdict(fitting: Fitting, name: str) -> NodeVerdict:
    """Return the results of the filters for one node."""
    row = fitting.cluster.columns.row_of(name)
    if row is None:
        return NodeVerdict(node=name, code="NotFound")
    places = np.flatnonzero(fitting.outcome.rows == row)
    place = int(places[0])
    status = fitting.outcome.status(place)
    found = NodeVerdict(
        node=name, code=status.code.text, plugin=status.plugin, reasons=status.reasons
    )
    missed = _missed(fitting, int(fitting.outcome.plugin[place]), places)
    found.shortfalls.extend(_shortfalls([name], missed)[:MAX_SHORTFALLS])
    found.parts.extend(_parts(fitting, places))
    return found


def _parts(fitting: Fitting, places: Rows) -> Iterator[NodeParts]:
    """Yield the verdicts on the parts of one node."""
    if not fitting.pre.status.ok:
        return
    nodes, rows = fitting.seen_by_filters(places)
    for named in fitting.runtime.filter:
        if isinstance(named.plugin, ExplainsParts):
            for of in named.plugin.parts(fitting.state, fitting.pod, nodes, int(rows[0])):
                yield NodeParts(request=of.request, names=of.names, why_not=of.why_not)


def _by_status(fitting: Fitting) -> Iterator[_Rejected]:
    outcome = fitting.outcome
    for index in np.unique(outcome.plugin).tolist():
        if index == PASSED:
            continue
        places = np.flatnonzero(outcome.plugin == index)
        if index == EXCLUDED:
            yield _Rejected(outcome.excluded, index, places)
            continue
        words = outcome.bits[places]
        for word in np.unique(words).tolist():
            mine = places[words == word]
            yield _Rejected(outcome.status(int(mine[0])), index, mine)


def _group(fitting: Fitting, rejected: _Rejected) -> NodeGroup:
    status, places = rejected.status, rejected.places
    names = fitting.cluster.columns.names
    missed = _missed(fitting, rejected.plugin, places)
    group = NodeGroup(
        nodes=len(places),
        plugin=status.plugin,
        code=status.code.text,
        reasons=sorted(set(status.reasons)),
    )
    mine = [names[row] for row in fitting.outcome.rows[places].tolist()]
    group.examples.extend(mine[at] for at in _nearest(mine, missed))
    group.shortfalls.extend(_shortfalls(mine, missed)[:MAX_SHORTFALLS])
    return group


def _missed(fitting: Fitting, index: int, places: Rows) -> list[Requirement]:
    """Return the requirements that some of the rows do not meet, if their plugins can measure them.

    For nodes that PreFilter left out, these are the requirements of the plugins that did so. If it
    rejected the pod as a whole, there is nothing to measure.
    """
    asked: list[Requirement] = []
    nodes, rows = fitting.seen_by_filters(places)
    for named in _rejecting(fitting, index):
        if isinstance(named.plugin, MeasuresRequirements):
            asked += named.plugin.requirements(fitting.state, fitting.pod, nodes, rows)
    return [each for each in asked if (each.wanted > each.available).any()]


def _rejecting(fitting: Fitting, index: int) -> Sequence[Named[FilterPlugin]]:
    """Return the filters that reject nodes, by the outcome's index of the plugin."""
    filters, pre = fitting.runtime.filter, fitting.pre
    if index >= 0:
        return [filters[index]]
    if index == EXCLUDED and pre.status.ok:
        return [named for named in filters if named.name in pre.plugins]
    return []


def _nearest(names: Sequence[str], missed: Sequence[Requirement]) -> list[int]:
    """Return the positions of the examples, by number and relative size of what they lack."""
    count = np.zeros(len(names), dtype=np.int64)
    part: NDArray[np.float64] = np.zeros(len(names))
    for each in missed:
        lacks = _lacks(each)
        count += lacks > 0
        part += lacks / np.maximum(each.wanted, 1)
    order = np.lexsort((part, count))
    if len(order) <= MAX_EXAMPLES:
        near = order.tolist()
    else:
        last = order[MAX_EXAMPLES - 1]
        fewer, same = count < count[last], count == count[last]
        near = np.flatnonzero(fewer | (same & (part <= part[last]))).tolist()
    return heapq.nsmallest(MAX_EXAMPLES, near, lambda at: (count[at], part[at], names[at]))


def _lacks(each: Requirement) -> Int64s:
    lacks: Int64s = np.maximum(each.wanted - each.available, 0)
    return lacks


def _shortfalls(names: Sequence[str], missed: Sequence[Requirement]) -> list[Shortfall]:
    found = []
    for each in missed:
        lacks = _lacks(each)
        missing = np.flatnonzero(lacks)
        least, most = missing[lacks[missing].argmin()], missing[lacks[missing].argmax()]
        found.append(
            Shortfall(
                what=each.what,
                unit=each.unit,
                nodes=len(missing),
                least=_on_node(names, each, int(least)),
                most=_on_node(names, each, int(most)),
            )
        )
    return found


def _on_node(names: Sequence[str], each: Requirement, at: int) -> ShortfallOnNode:
    wanted, available = int(each.wanted[at]), int(each.available[at])
    return ShortfallOnNode(
        node=names[at], wanted=wanted, available=available, lacks=wanted - available
    )
