"""What the runtime reads of plugins when a profile is made ready to run."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from podsched.cache.objects import ClusterState
from podsched.config.load import load_config
from podsched.config.plugins import ExtensionPoint, PluginSpec
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState, ScorePlugin, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.registry import factories


class Silent:
    """A Score plugin that declares no traits."""

    name: ClassVar[str] = "Mine"

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        return np.zeros(len(rows), dtype=np.int64)


class Prepared(Silent):
    """With a PreScore, and again without traits."""

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Any, feasible: Rows) -> Status:
        return SUCCESS


class Declared(Prepared):
    """With traits and a normalisation."""

    traits: ClassVar[Traits] = Traits(reads_pods=False, depends_on_feasible=False)

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return scores


class SwitchedOff(Declared):
    """An inherited normalisation that is None counts as none."""

    normalize = None  # type: ignore[assignment]


def scoring(plugin: type[Silent]) -> Named[ScorePlugin]:
    """Return the plugin as a profile runs it at Score."""
    known = {"Mine": PluginSpec("Mine", frozenset({ExtensionPoint.SCORE}))}
    config = {"profiles": [{"plugins": {"score": {"enabled": [{"name": "Mine"}]}}}]}
    profile = load_config(config, known_plugins=known).profiles[0]
    plugins = {**factories(), "Mine": lambda args, handle: plugin()}
    runtime = ProfileRuntime(profile, plugins, SimulatedHandle(ClusterState()))
    return next(named for named in runtime.score if named.name == "Mine")


def test_a_plugin_without_traits_promises_nothing() -> None:
    assert scoring(Prepared).traits == Traits(
        reads_only_nodes=False,
        reads_pods=True,
        depends_on_feasible=True,
        normalizes_by_extremes=False,
    )


def test_without_a_pre_score_the_feasible_rows_mean_nothing_to_a_plugin() -> None:
    assert not scoring(Silent).traits.depends_on_feasible


def test_declared_traits_are_taken_over() -> None:
    assert scoring(Declared).traits == Traits(reads_pods=False, depends_on_feasible=False)


def test_scores_are_final_where_a_plugin_normalizes_none() -> None:
    assert scoring(Silent).normalize is None
    assert scoring(SwitchedOff).normalize is None
    normalize = scoring(Declared).normalize
    assert normalize is not None
    assert normalize(CycleState(), np.array([7])).tolist() == [7]
