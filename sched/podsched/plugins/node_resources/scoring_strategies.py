"""NodeResourcesFit's scoring strategies: LeastAllocated, MostAllocated, RequestedToCapacityRatio.

Formulas: kube-scheduler v1.36 ``noderesources/{least,most}_allocated.go`` and
``requested_to_capacity_ratio.go``. As in Go, int64 wraps around and divisions truncate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from podsched.config.plugin_args import ScoringStrategy, ScoringStrategyType
from podsched.framework.nodes import Int64s
from podsched.framework.plugin import MAX_NODE_SCORE
from podsched.framework.verdicts import Scores
from podsched.plugins.node_resources.node_amounts import Floats
from podsched.plugins.node_resources.resource_amounts import ResourceColumn
from podsched.plugins.rows.normalize import truncated_quotient

#: Returns the scores, shape ``(rows,)``, from the columns of one or more resources.
Strategy = Callable[[Sequence[ResourceColumn]], Scores]

#: Points of a shape score 0..10, nodes 0..100.
_SHAPE_SCALE = MAX_NODE_SCORE // 10


def strategy_of(scoring: ScoringStrategy) -> Strategy:
    """Return the function that computes the scores of a configured strategy."""
    ratio = scoring.requested_to_capacity_ratio
    if scoring.type == ScoringStrategyType.MOST_ALLOCATED:
        return most_allocated
    if scoring.type == ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO and ratio is not None:
        return requested_to_capacity_ratio([(p.utilization, p.score) for p in ratio.shape])
    return least_allocated


def least_allocated(columns: Sequence[ResourceColumn]) -> Scores:
    """Return the weighted mean of the free shares in percent; 0 for an overcommitted resource."""
    return _weighted_mean(columns, _free_percent)


def least_allocated_exactly(allocatable: Floats, used: Floats, wanted: Sequence[int]) -> Scores:
    """Return the result of ``least_allocated`` for two resources of weight 1, in 12 passes.

    ``allocatable`` and ``used`` have shape ``(2, rows)``, the result ``(rows,)``. ``wanted``: the
    pod's request of each resource. ``node_amounts`` explains why float64 is exact here.
    """
    request = np.array(wanted, dtype=np.float64)[:, np.newaxis]
    percent = allocatable - used
    percent -= request
    percent *= MAX_NODE_SCORE
    percent /= allocatable
    # An overcommitted node scores 0. After that no value is negative, so floor truncates.
    np.maximum(percent, 0.0, out=percent)
    np.floor(percent, out=percent)
    mean = percent[0]
    mean += percent[1]
    mean *= 0.5
    scores: Scores = mean.astype(np.int64)
    return scores


def most_allocated(columns: Sequence[ResourceColumn]) -> Scores:
    """Return the weighted mean of the used shares in percent, 100 at most."""
    return _weighted_mean(columns, _used_percent)


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """Return the strategy that interpolates linearly between points over the used share.

    ``shape``: points (utilization in percent, score 0..10), ascending in utilization. Resources
    that score 0 take no part in the mean, which is rounded half up.
    """
    line = np.array([_on_line(shape, percent) for percent in range(101)], dtype=np.int64)

    def score(columns: Sequence[ResourceColumn]) -> Scores:
        total, weights = _zeros(columns), _zeros(columns)
        for column in columns:
            percent = np.clip(_used_percent(column), 0, 100)
            points = np.where(column.allocatable == 0, 0, line[percent])
            total += points * column.weight
            weights += np.where(points > 0, column.weight, 0)
        return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)

    return score


def _on_line(shape: Sequence[tuple[int, int]], percent: int) -> int:
    """Return the score, 0 to 100, of a utilization in percent (``BuildBrokenLinearFunction``)."""
    before: tuple[int, int] | None = None
    for utilization, score in shape:
        if percent <= utilization:
            if before is None:
                return score * _SHAPE_SCALE
            rise = (score - before[1]) * _SHAPE_SCALE
            run = utilization - before[0]
            step = abs(rise) * (percent - before[0]) // run
            return before[1] * _SHAPE_SCALE + (step if rise >= 0 else -step)
        before = (utilization, score)
    return shape[-1][1] * _SHAPE_SCALE


def _weighted_mean(
    columns: Sequence[ResourceColumn], percent: Callable[[ResourceColumn], Int64s]
) -> Scores:
    total, weights = _zeros(columns), _zeros(columns)
    for column in columns:
        there = column.allocatable != 0
        total += np.where(there, percent(column), 0) * column.weight
        weights += there * np.int64(column.weight)
    mean = truncated_quotient(total, np.maximum(weights, 1))
    # A sum that overflowed may be out of range, and a score out of range is an error that fails the
    # pod's attempt. Without the clip, one kubelet that reports 10^18 bytes of memory would stop all
    # scheduling, as it does in kube-scheduler.
    return np.clip(mean, 0, MAX_NODE_SCORE)


def _zeros(columns: Sequence[ResourceColumn]) -> Int64s:
    return np.zeros(len(columns[0].wanted), dtype=np.int64)


def _free_percent(column: ResourceColumn) -> Int64s:
    free = (column.allocatable - column.wanted) * MAX_NODE_SCORE
    scores = truncated_quotient(free, np.maximum(column.allocatable, 1))
    return np.where(column.wanted > column.allocatable, 0, scores)


def _used_percent(column: ResourceColumn) -> Int64s:
    used = np.minimum(column.wanted, column.allocatable)
    return truncated_quotient(used * MAX_NODE_SCORE, np.maximum(column.allocatable, 1))
