"""Ray is imported before a replica races where it will be used; what a term leaves behind."""

from __future__ import annotations

import asyncio
import importlib

import pytest

from podsched.actors.term_actors import ActorOptions, ReplicaActors, TermActors
from podsched.cache.columns import Columns
from podsched.config.load import default_config
from podsched.config.settings import EvaluatorSettings
from podsched.testing.fake_cluster import FakeCluster
from support.eventually import eventually
from support.fake_ray import CountingMetrics, FakeRay


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


async def test_a_standby_that_has_led_does_not_seem_to_evaluate_with_ray() -> None:
    ray = FakeRay()
    settings = EvaluatorSettings(evaluator="ray", binder="direct", shards=1)
    options = ActorOptions(settings, default_config().profiles, ())
    actors = TermActors(ray, options, 1, Columns(), FakeCluster())  # type: ignore[arg-type]
    running = asyncio.create_task(actors.run())
    await eventually("a shard is current", lambda: ray.metrics.modes[-1] == "ray")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ray.metrics.modes == ["local", "ray", "local"]
