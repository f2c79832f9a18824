"""What docs/observability.md says the scheduler tells is in the leader's /metrics."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Node, PodDisruptionBudget, PodGroup, PriorityClass
from podsched.app.supervisor import ManagedProcess
from support.eventually import PATIENCE, eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration

DOCUMENT = Path(__file__).parents[2] / "docs" / "observability.md"
#: Without a value until what they count has happened.
NOT_HERE = {
    "scheduler_permit_wait_duration_seconds",
    "podsched_fence_lost_total",
    "podsched_evaluator_mode",
    "podsched_evaluator_switches_total",
    "podsched_ray_calls_total",
    "podsched_ray_call_duration_seconds",
    "podsched_ray_actor_restarts_total",
    "podsched_missed_wakeups_total",
    "rest_client_request_retries_total",
    "rest_client_rate_limiter_duration_seconds",
    "podsched_shadow_decisions_total",
    "podsched_backfill_withdrawn_total",
    "podsched_config_reloads_total",
}


def described() -> set[str]:
    """The metrics in the document's table of the scheduler."""
    text = DOCUMENT.read_text()
    table = text[text.index("\nScheduler:\n") : text.index("\nAPI server:\n")]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def with_values(process: ManagedProcess) -> set[str]:
    """The metrics that a process gives values of."""
    url = f"http://127.0.0.1:{process.spec.health_port}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        text = answer.read().decode()
    names = re.findall(r"^(\w+?)(?:_bucket|_count|_sum)?(?:{.*)? \S+$", text, re.MULTILINE)
    typed = re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)
    return set(names) & set(typed)


async def pod(real: RealCluster, name: str, cpu: str, **spec: Any) -> None:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }
    await real.client.create(from_manifest(manifest).message)


async def test_the_leader_gives_values_of_every_metric_that_is_described(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, replicas=1, nodes=1) as real:
        node = (await real.client.list("Node")).items[0]
        assert isinstance(node, Node)
        cpu = node.status.allocatable["cpu"]
        budget = PodDisruptionBudget()  # for a controller to look at
        budget.metadata.name, budget.metadata.namespace = "all", "default"
        budget.spec.min_available = "0"
        await real.client.create(budget)
        urgent = PriorityClass(value=1000)
        urgent.metadata.name = "urgent"
        await real.client.create(urgent)
        for number in range(3):
            await pod(real, f"pod-{number}", "100m")
        await eventually("all bound", lambda: real.bound("pod") == 3)
        await pod(real, "misfit-0", "100k")
        await pod(real, "urgent-0", cpu, priorityClassName="urgent")
        await eventually("one preempts", lambda: real.bound("urgent") == 1)
        group = PodGroup()
        group.metadata.name, group.metadata.namespace = "group", "default"
        group.spec.scheduling_policy.basic.SetInParent()
        await real.client.create(group)
        await pod(real, "member-0", "100k", schedulingGroup={"podGroupName": "group"})

        leader = real.leader()

        async def missing() -> set[str]:
            return described() - NOT_HERE - await asyncio.to_thread(with_values, leader)

        await eventually("all have values", missing, set())
