"""Ray is imported before a replica races where it will be used, and nowhere else."""

from __future__ import annotations

import importlib

import pytest

from podsched.actors.term_actors import ActorOptions, ReplicaActors
from podsched.config.settings import EvaluatorSettings
from support.fake_ray import CountingMetrics


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is imported."""
    names: list[str] = []
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(importlib, "import_module", names.append)
    return names


@pytest.mark.parametrize(
    ("settings", "nodes", "expected"),
    [
        pytest.param(
            EvaluatorSettings(evaluator="ray", ray_address="head:6379"), 0, ["ray"], id="always"
        ),
        pytest.param(
            EvaluatorSettings(ray_address="head:6379", ray_from_nodes=10), 10, ["ray"], id="large"
        ),
        pytest.param(
            EvaluatorSettings(ray_address="head:6379", ray_from_nodes=10), 9, [], id="small"
        ),
        pytest.param(
            EvaluatorSettings(evaluator="local", ray_address="head:6379"), 99, [], id="local"
        ),
        pytest.param(EvaluatorSettings(evaluator="ray"), 99, [], id="no address"),
    ],
)
async def test_ray_is_imported_before_the_race_where_it_will_be_used(
    imported: list[str], settings: EvaluatorSettings, nodes: int, expected: list[str]
) -> None:
    actors = ReplicaActors(ActorOptions(settings, (), ("127.0.0.1:1",)), CountingMetrics())
    await actors.load(nodes)
    assert imported == expected
