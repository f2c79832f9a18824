"""Ray is imported before a replica races where it will be used; what a term leaves behind."""

from __future__ import annotations

import asyncio
import importlib
import os

import pytest

from podsched.actors import ray_cluster
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
    for name in ("RAY_ADDRESS", *ray_cluster._DRIVER_ENVIRONMENT):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
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


@pytest.mark.usefixtures("imported")
async def test_ray_is_imported_with_the_settings_that_it_reads_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str | None] = []
    read = lambda _: seen.append(os.environ.get("RAY_ENABLE_AUTO_CONNECT"))  # noqa: E731
    monkeypatch.setattr(importlib, "import_module", read)
    settings = EvaluatorSettings(evaluator="ray", ray_address="head:6379")
    actors = ReplicaActors(ActorOptions(settings, (), ("127.0.0.1:1",)), CountingMetrics())
    await actors.load(0)
    assert seen == ["0"]


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
