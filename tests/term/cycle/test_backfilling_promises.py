"""Random jobs with limits in time: each starts when it was first promised to, or earlier."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import datetime
from typing import Any

import pytest

from podsched.api.objects import Pod
from podsched.api.queue_labels import BACKFILL, MAX_EXEC_TIME
from podsched.lab.replay.simulation import run_in_virtual_time
from support.queues import big_node, cluster_queue, flavor, gang, job
from support.term_world import WALL, TermWorld

#: Seconds between two looks, and for an admission after the time has come.
_STEP, _TOLERANCE = 5.0, 2.0


class Jobs:
    """Jobs of random sizes, which end at random times within their limits."""

    def __init__(self, seed: int, policy: str) -> None:
        self.rng = random.Random(seed)
        self.world = TermWorld()
        for index in range(3):
            big_node(self.world, f"n{index}")
        flavor(self.world)
        annotations = {BACKFILL: policy}
        cluster_queue(self.world, "a", {"cpu": 10}, cohort="all", annotations=annotations)
        cluster_queue(self.world, "b", {"cpu": 12}, cohort="all", annotations=annotations)
        self.count = 0
        #: By unit: the first promised start, when it started, and when it ends.
        self.promised: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self._ends: dict[str, float] = {}
        self._limits: dict[str, int] = {}

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def submit(self) -> None:
        rng, name = self.rng, f"j{self.count}"
        self.count += 1
        limit = self._limits[name] = rng.choice((20, 60, 60, 200, 400))
        parts: dict[str, Any] = {
            "labels": {MAX_EXEC_TIME: str(limit)},
            "spec": {"terminationGracePeriodSeconds": rng.choice((0, 10))},
        }
        queue = rng.choice("ab")
        if rng.random() < 0.5:
            job(self.world, name, queue, cpu=rng.randint(1, 8), **parts)
        else:
            gang(self.world, name, queue, rng.randint(2, 4), cpu=rng.randint(1, 4), **parts)

    def look(self) -> None:
        """Note what has been promised and what has started, and let jobs end."""
        objects = [*self.world.cluster.objects("PodGroup"), *self.world.cluster.objects("Pod")]
        for item in objects:
            text = item.metadata.annotations.get("podsched.io/reservation", "")
            if text:
                start = datetime.fromisoformat(json.loads(text)["start"]).timestamp() - WALL
                self.promised.setdefault(item.metadata.name, start)
        for pod in objects:
            if not isinstance(pod, Pod):
                continue
            name = pod.metadata.name.partition("-")[0]
            if pod.spec.node_name and name not in self.started:
                self.started[name] = self.now
                share = self.rng.choice((0.1, 0.5, 0.9, 2.0))  # Some run into their limit.
                self._ends[name] = self.now + share * self._limits[name]
            ended = self._ends.get(name, self.now + 1) <= self.now
            if ended or pod.metadata.HasField("deletion_timestamp"):
                self.world.cluster.delete("Pod", f"default/{pod.metadata.name}")


async def broken_promises(seed: int, policy: str) -> list[str]:
    """Run a random history; return the units that started late, or whose start was withdrawn."""
    jobs = Jobs(seed, policy)
    async with jobs.world.running():
        for _ in range(200):
            if jobs.count < 40 and jobs.rng.random() < 0.3:
                jobs.submit()
            await asyncio.sleep(_STEP)
            jobs.look()
        jobs.world.check()
    assert len(jobs.promised) > 5
    late = [
        f"{name} started at {jobs.started.get(name)} instead of {start}"
        for name, start in jobs.promised.items()
        if jobs.started.get(name, jobs.now) > start + _STEP + _TOLERANCE
    ]
    events = jobs.world.cluster.objects("Event")
    return late + [event.message for event in events if event.reason == "StartWithdrawn"]


@pytest.mark.parametrize("policy", ["EASY", "Conservative"])
@pytest.mark.parametrize("seed", range(2))
def test_no_promise_is_broken_while_limits_hold(seed: int, policy: str) -> None:
    assert run_in_virtual_time(broken_promises(seed, policy)) == []
