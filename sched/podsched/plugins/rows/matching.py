"""Match names, labels, node selector terms and taints of nodes, for many rows at once.

Each distinct label value or set of taints is matched once, in Python; the result is then looked up
for all rows in one NumPy step. So a match costs as much as there are distinct values, not nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from podsched.api.node_selectors import NodeTerm, NodeTerms
from podsched.api.selectors import Requirement
from podsched.api.tolerations import find_untolerated
from podsched.framework.nodes import ABSENT, Bools, Int32s, NodeColumns
from podsched.framework.verdicts import Rows
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.v1 import objects_pb2 as v1

#: Up to this many values are compared one by one, which is faster than ``np.isin``.
_FEW = 8


def named(nodes: NodeColumns, rows: Rows, names: Iterable[str]) -> Bools:
    """Return for each row whether its node has one of the names."""
    base = nodes.base
    mine = rows_of_base(nodes, rows)
    found = np.zeros(base.size, dtype=np.bool_)
    found[[row for name in names if (row := base.row_of(name)) is not None]] = True
    return found[mine]


def distinct(ids: Int32s) -> NDArray[np.intp]:
    """Return the distinct ids, none of them negative, in ascending order.

    For 5,000 rows ``np.unique``, which sorts them, takes three to ten times as long.
    """
    seen = np.zeros(int(ids.max(initial=-1)) + 1, dtype=np.bool_)
    seen[ids] = True
    return np.flatnonzero(seen)


def per_taint_set(
    nodes: NodeColumns, rows: Rows, value_of: Callable[[tuple[v1.Taint, ...]], int]
) -> NDArray[np.int64]:
    """Return the value of each row's taints, computed once per distinct set of taints."""
    ids = nodes.taint_set[rows]
    present = distinct(ids)
    if len(present) == 1:
        return np.full(len(rows), value_of(nodes.taints(int(present[0]))), dtype=np.int64)
    table = np.zeros(int(present[-1]) + 1 if len(present) else 0, dtype=np.int64)
    for taint_set in present.tolist():
        table[taint_set] = value_of(nodes.taints(taint_set))
    return table[ids]


def untolerated(nodes: NodeColumns, rows: Rows, tolerations: Sequence[v1.Toleration]) -> Bools:
    """Return for each row whether its node has a hard taint without a toleration."""

    def found(taints: tuple[v1.Taint, ...]) -> int:
        return find_untolerated(taints, tolerations) is not None

    result: Bools = per_taint_set(nodes, rows, found) != 0
    return result


def match_requirement(requirement: Requirement, nodes: NodeColumns, rows: Rows) -> Bools:
    """Return for each row whether its labels meet a requirement.

    A node without the label meets NotIn and DoesNotExist.
    """
    ids = nodes.label(requirement.key)[rows]
    match requirement.operator:
        case "Exists":
            return np.not_equal(ids, ABSENT)
        case "DoesNotExist":
            return np.equal(ids, ABSENT)
        case "In":
            return _is_one_of(ids, nodes, requirement.values)
        case "NotIn":
            return ~_is_one_of(ids, nodes, requirement.values)
        case _:
            return _per_value(ids, nodes, requirement)


def _is_one_of(ids: Int32s, nodes: NodeColumns, values: Iterable[str]) -> Bools:
    wanted = [nodes.value_id(value) for value in values]
    if len(wanted) > _FEW:
        return np.isin(ids, wanted)
    found = np.zeros(len(ids), dtype=np.bool_)
    for value in wanted:
        found |= ids == value
    return found


def _per_value(ids: Int32s, nodes: NodeColumns, requirement: Requirement) -> Bools:
    """Match a requirement once per distinct value of the label; for Gt and Lt."""
    there = ids != ABSENT
    result = np.zeros(len(ids), dtype=np.bool_)
    own = ids[there]
    present = distinct(own)
    if not len(present):
        return result
    table = np.zeros(int(present[-1]) + 1, dtype=np.bool_)
    for value in present.tolist():
        table[value] = requirement.matches({requirement.key: nodes.value(value)})
    result[there] = table[own]
    return result


def match_labels(labels: Mapping[str, str], nodes: NodeColumns, rows: Rows) -> Bools:
    """Return whether each row's node has all of the labels, as a pod's nodeSelector asks."""
    result = np.ones(len(rows), dtype=np.bool_)
    for key, value in labels.items():
        result &= nodes.label(key)[rows] == nodes.value_id(value)
    return result


def match_term(term: NodeTerm, nodes: NodeColumns, rows: Rows) -> Bools:
    """Return whether each row's node meets the term; an empty or invalid term matches nothing."""
    if not term.valid or not (term.expressions or term.fields):
        return np.zeros(len(rows), dtype=np.bool_)
    result = np.ones(len(rows), dtype=np.bool_)
    for requirement in term.fields:
        is_named = named(nodes, rows, requirement.values)
        result &= is_named if requirement.operator == "In" else ~is_named
    for requirement in term.expressions:
        result &= match_requirement(requirement, nodes, rows)
    return result


def match_terms(terms: NodeTerms, nodes: NodeColumns, rows: Rows) -> Bools:
    """Return whether each row's node meets one of the terms; no terms match nothing."""
    result = np.zeros(len(rows), dtype=np.bool_)
    for term in terms.terms:
        result |= match_term(term, nodes, rows)
    return result
