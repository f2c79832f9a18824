"""ReplicaSets and Jobs get exactly the pods that they ask for, though leaders are killed."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Job, ReplicaSet
from podsched.lib.tasks import in_background
from podsched.serve.client.informer import Batch, Informer
from support.eventually import eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration

SIZE = 500
INDEX = "batch.kubernetes.io/job-completion-index"
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}


async def create(real: RealCluster, document: dict[str, Any]) -> Any:
    metadata = {"namespace": "default", **document.pop("metadata")}
    return await real.client.create(from_manifest({"metadata": metadata, **document}).message)


async def kill_leader(real: RealCluster) -> None:
    terms = len(real.observer.leaders)
    real.leader().kill(signal.SIGKILL)
    await eventually("a new leader", lambda: len(real.observer.leaders) > terms)


@asynccontextmanager
async def every_pod(real: RealCluster) -> AsyncIterator[set[str]]:
    """The names of all pods that are ever seen from now on."""
    seen: set[str] = set()

    def handle(batch: Batch) -> None:
        seen.update(event.key for event in batch.events)

    async with in_background(Informer(real.client, ["Pod"]).run(handle), "watch"):
        yield seen


async def test_a_replica_set_has_exactly_its_replicas_though_leaders_were_killed(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, replicas=3, nodes=10) as real, every_pod(real) as seen:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
        selector = {"matchLabels": {"app": "web"}}
        spec = {"replicas": SIZE, "selector": selector, "template": template}
        await create(
            real,
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}}
            | {"spec": spec},
        )

        async def there() -> int:
            return len((await real.client.list("Pod", "default")).items)

        for part in (3, 2):
            await eventually("some pods", lambda p=part: reached(there, SIZE // p), pause=0.01)
            await kill_leader(real)

        async def status() -> tuple[int, int]:
            found = await real.client.get("ReplicaSet", "web", "default")
            assert isinstance(found, ReplicaSet)
            return found.status.replicas, found.status.ready_replicas

        await eventually("all replicas", status, (SIZE, SIZE))
        await eventually("all were seen", lambda: len(seen) >= SIZE)
        assert await there() == len(seen) == SIZE


async def reached(count: Callable[[], Awaitable[int]], wanted: int) -> bool:
    return await count() >= wanted


async def test_a_job_counts_each_completion_once_though_leaders_were_killed(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, replicas=3, nodes=10) as real, every_pod(real) as seen:
        pod = {"restartPolicy": "Never", "containers": [CONTAINER]}
        template = {"metadata": {"annotations": {"podsched.io/run-seconds": "0.5"}}, "spec": pod}
        spec = {
            "completions": SIZE,
            "parallelism": 100,
            "completionMode": "Indexed",
            "template": template,
        }
        await create(
            real,
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": spec},
        )

        async def status() -> tuple[int, int, str]:
            found = await real.client.get("Job", "sum", "default")
            assert isinstance(found, Job)
            ended = [c.type for c in found.status.conditions if c.status == "True"]
            return found.status.succeeded, found.status.failed, ended[-1] if ended else ""

        async def succeeded() -> int:
            return (await status())[0]

        for part in (5, 2):
            await eventually("successes", lambda p=part: reached(succeeded, SIZE // p), pause=0.01)
            await kill_leader(real)
        await eventually("the end", status, (SIZE, 0, "Complete"))
        await eventually("all were seen", lambda: len(seen) >= SIZE)
        pods = (await real.client.list("Pod", "default")).items
        indexes = Counter(item.metadata.annotations[INDEX] for item in pods)
        assert len(pods) == len(indexes) == len(seen) == SIZE
        assert not any(item.metadata.finalizers for item in pods)
