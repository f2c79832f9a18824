"""Explains which devices rows lack for a pod's claims, as requirements or device by device.

Rows with equal devices are measured once, and at most ``_MOST_MEASURED`` different ones. For a
claim with one usual request, the columns of ``free_devices`` have the number of free devices of the
others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import numpy as np

from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.requirements import Parts, Requirement
from podsched.framework.verdicts import Rows
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.in_use import users_of_devices
from podsched.plugins.dynamic_resources.node_search import PodNeeds
from podsched.plugins.dynamic_resources.selectors import SelectorCompiler
from podsched.plugins.dynamic_resources.shortfalls import Measured, Users, measure, verdicts
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.matching import match_terms

#: Max nodes with different devices that are measured: eight GPUs take 0.3 ms, their 112 partitions
#: some 2 ms.
_MOST_MEASURED: Final = 16
#: Max nodes that are compared with the measured ones, which takes 20 µs each.
_MOST_ROWS: Final = 400


def requirements_of(
    needs: PodNeeds,
    nodes: NodeColumns,
    rows: Rows,
    compile_selector: SelectorCompiler,
    cluster: ClusterView,
) -> Iterator[Requirement]:
    """Yield the number of devices that each request wants, and the numbers that the rows have.

    ``cluster``: to find the users of devices. On rows that are not measured, requirements are met.
    """
    for terms in needs.allocated:
        reached = match_terms(terms, nodes, rows)
        yield Requirement.met("the devices of an allocated claim, within reach", reached)
    base = rows_of_base(nodes, rows)
    users = users_of_devices(needs.devices.in_use, cluster)
    for variant, mine in needs.by_variant(base):
        if variant.claims:
            by_row = _measured(variant, mine, nodes, rows, compile_selector, users)
            yield from _steps(by_row)
            unmeasured = mine & np.array([not steps for steps in by_row], dtype=np.bool_)
            yield from _free(variant, base, unmeasured)


def parts_of(
    needs: PodNeeds,
    nodes: NodeColumns,
    row: int,
    compile_selector: SelectorCompiler,
    cluster: ClusterView,
) -> list[Parts]:
    """Return why requests cannot get each device of a row; nothing if a request is invalid."""
    users = users_of_devices(needs.devices.in_use, cluster)
    found: list[Parts] = []
    for variant, mine in needs.by_variant(rows_of_base(nodes, np.array([row]))):
        if mine[0] and variant.claims:
            try:
                found += verdicts(nodes.node(row).metadata, variant, compile_selector, users)
            except AllocationError:
                return []
    return found


def _measured(
    needs: PodNeeds,
    mine: Bools,
    nodes: NodeColumns,
    rows: Rows,
    compile_selector: SelectorCompiler,
    users: Users,
) -> list[list[Measured]]:
    """Return the steps of ``measure`` by row; none for rows not in ``mine`` or not measured."""
    measured: dict[Hashable, list[Measured]] = {}
    by_row: list[list[Measured]] = [[] for _ in range(len(rows))]
    for place in np.flatnonzero(mine)[:_MOST_ROWS].tolist():
        node = nodes.node(int(rows[place])).metadata
        situation = needs.devices.situation(node) or node.name
        if situation not in measured and len(measured) < _MOST_MEASURED:
            measured[situation] = measure(node, needs, compile_selector, users)
        by_row[place] = measured.get(situation, [])
    return by_row


def _steps(by_row: Sequence[Sequence[Measured]]) -> Iterator[Requirement]:
    """Yield a requirement for each step, and one for rows on which no single step fails."""
    steps = max(by_row, key=len, default=[])
    lacking = np.zeros(len(by_row), dtype=np.bool_)
    for at, step in enumerate(steps):
        has = [row_steps[at].available if row_steps else step.wanted for row_steps in by_row]
        available = np.array(has, dtype=np.int64)
        lacks = available < step.wanted
        examples = (
            row_steps[at].example
            for row_steps, missing in zip(by_row, lacks, strict=True)
            if missing
        )
        example = next(filter(None, examples), "")
        what = f"{step.what} ({example})" if example else step.what
        yield Requirement(what, "", np.full_like(available, step.wanted), available)
        lacking |= lacks
    if steps:
        unknown = np.array([not row_steps for row_steps in by_row], dtype=np.bool_)
        yield Requirement.met("devices for all requests of its claims at once", lacking | unknown)


def _free(needs: PodNeeds, base: Rows, unmeasured: Bools) -> Iterator[Requirement]:
    """Yield the numbers of free suitable devices on rows that were not measured."""
    if needs.fitting is None or needs.fitting.left is None:
        return
    (claim,) = needs.claims
    (request,) = claim.requests
    wanted = np.full(len(base), needs.count, dtype=np.int64)
    known = unmeasured & ~needs.fitting.unsure[base]
    available = np.where(known, needs.fitting.left[base] + needs.count, wanted)
    what = f"claim {claim.name}, request {request.name}: suitable devices that are free"
    yield Requirement(what, "", wanted, available)
