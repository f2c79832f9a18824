"""Run PreScore, Score and NormalizeScore of a profile, over any rows of any columns.

Rules: kube-scheduler v1.36 ``framework/runtime/framework.go``, RunPreScorePlugins and
RunScorePlugins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.nodes import ClusterView, JournaledColumns, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, CycleState, ScorePlugin
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores

PRE_SCORE_WORDING = 'running PreScore plugin "{}"'
#: kube-scheduler's texts, word for word.
SCORE_WORDING = 'running Score plugins: plugin "{}" failed with'
NORMALIZE_WORDING = 'running Normalize on Score plugins: plugin "{}" failed with'
OUT_OF_RANGE = (
    'applying score defaultWeights on Score plugins: plugin "{}" returns an invalid score {}, '
    "it should in the range of [{}, {}] after normalizing"
)


@dataclass(frozen=True, slots=True)
class NodeScores:
    """Weighted scores per plugin and their total; all of shape ``(len(rows),)``."""

    rows: Rows
    plugins: dict[str, Scores]
    total: Scores


def pre_score_one(
    runtime: ProfileRuntime,
    named: Named[ScorePlugin],
    state: CycleState,
    pod: PodInfo,
    cluster: ClusterView,
    feasible: Rows,
) -> None:
    """Run one plugin's PreScore, if it has one, and note a Skip in the state.

    Raises PluginFailure.
    """
    of_plugin = runtime.pre_score.get(named.name)
    if of_plugin is None:
        return
    name = named.name
    # PreScore may run again with other feasible rows, and then not skip.
    state.skip_score -= {name}
    status = of_plugin.runs.call(
        name, PRE_SCORE_WORDING, of_plugin.plugin.pre_score, state, pod, cluster, feasible
    )
    if status.skipped:
        state.skip_score |= {name}
    elif not status.ok:
        raise PluginFailure(name, f"{PRE_SCORE_WORDING.format(name)}: {status.message}")


def run_pre_score(
    runtime: ProfileRuntime, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
) -> None:
    """Run all PreScore plugins. Raises PluginFailure."""
    for named in runtime.score:
        pre_score_one(runtime, named, state, pod, cluster, feasible)


def score_one(
    named: Named[ScorePlugin], state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
) -> Scores:
    """Return one plugin's raw scores. Raises PluginFailure."""
    return named.runs.call(named.name, SCORE_WORDING, named.plugin.score, state, pod, nodes, rows)


def score_all(
    named: Named[ScorePlugin], state: CycleState, pod: PodInfo, nodes: JournaledColumns, alive: Rows
) -> Scores:
    """Return one plugin's raw scores of all rows, in a new array of shape ``(size,)``.

    Entries of rows that are not ``alive`` are undefined. Raises PluginFailure.
    """
    if named.whole is not None:
        whole: Scores = named.runs.call(named.name, SCORE_WORDING, named.whole, state, pod, nodes)
        return whole
    of_alive = score_one(named, state, pod, nodes, alive)
    if len(alive) == nodes.size:
        return np.array(of_alive, dtype=np.int64)
    raw = np.zeros(nodes.size, dtype=np.int64)
    raw[alive] = of_alive
    return raw


def in_range(scores: Scores) -> bool:
    """Whether all scores are 0..100."""
    if scores.dtype != np.int64:  # A mistake of a plugin, but the scores may be in range.
        return bool(((scores >= MIN_NODE_SCORE) & (scores <= MAX_NODE_SCORE)).all())
    # One pass instead of two: viewed as unsigned, a negative score is larger than the maximum.
    return not len(scores) or int(np.maximum.reduce(scores.view(np.uint64))) <= MAX_NODE_SCORE


def weighted(named: Named[ScorePlugin], state: CycleState, raw: Scores) -> Scores:
    """Normalise and weight raw scores. Raises PluginFailure for a score out of 0..100."""
    scores = raw
    if named.normalize is not None:
        scores = guarded(named.name, NORMALIZE_WORDING, named.normalize, state, raw)
    if not in_range(scores):
        low, high = int(scores.min()), int(scores.max())
        bad = low if low < MIN_NODE_SCORE else high
        text = OUT_OF_RANGE.format(named.name, bad, MIN_NODE_SCORE, MAX_NODE_SCORE)
        raise PluginFailure(named.name, text)
    return scores if named.weight == 1 else scores * named.weight


def run_score(
    runtime: ProfileRuntime, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
) -> NodeScores:
    """Score all feasible rows; without Score plugins each has 1.

    Raises PluginFailure.
    """
    plugins: dict[str, Scores] = {}
    total = np.zeros(len(rows), dtype=np.int64)
    for named in runtime.score:
        if named.name in state.skip_score:
            continue
        raw = score_one(named, state, pod, nodes, rows)
        plugins[named.name] = weighted(named, state, raw)
        total += plugins[named.name]
    if not runtime.score:
        total += 1
    return NodeScores(rows, plugins, total)
