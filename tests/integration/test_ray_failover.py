"""Ray actors take part, a new leader takes them over, and nothing stops when Ray is gone."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.eventually import eventually
from support.real_cluster import metric, real_cluster

pytestmark = pytest.mark.integration


@pytest.mark.long
async def test_a_leader_dies_and_then_the_whole_of_ray_and_every_pod_is_bound_once(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, replicas=2, nodes=60, evaluator="ray") as real:

        async def all_bound(prefix: str, count: int = 100) -> None:
            assert await (await real.submit(prefix, count)).wait() == 0
            await eventually(f"{prefix} bound", lambda: real.bound(prefix) == count)

        def calls() -> float:
            return metric(real.leader(), "podsched_ray_calls_total")

        def bound_through_ray() -> float:
            return metric(real.leader(), "podsched_ray_calls_total", call="bind", result="ok")

        await all_bound("early")
        # Deltas reach the shards, and the binder actors are there.
        await eventually("actors at work", lambda: calls() >= 6)
        await all_bound("helped")
        assert bound_through_ray() > 0

        first, terms = real.leader(), len(real.observer.leaders)
        first.kill(signal.SIGKILL)
        await eventually("a new leader", lambda: len(real.observer.leaders) > terms)
        await all_bound("taken-over")
        second = real.leader()
        await eventually("adopted actors", lambda: bound_through_ray() > 0 or calls() >= 6)
        assert metric(second, "podsched_ray_actor_restarts_total") == 0

        assert real.cluster.ray is not None
        await real.cluster.ray.stop()
        await all_bound("alone")
        await eventually(
            "local evaluation", lambda: metric(second, "podsched_evaluator_mode", mode="local") == 1
        )
        assert real.leader() is second
        for prefix in ("early", "helped", "taken-over", "alone"):
            await real.check_history(prefix, 100)
