"""What users may rely on over time, on real processes: who is tried again when, who gets freed
room, whom budgets protect, whom a silent node loses and when."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.api.manifest import from_manifest
from podsched.api.objects import Node, Pod, PodDisruptionBudget, PriorityClass
from podsched.lib.tasks import in_background
from podsched.serve.agent.nodes import SILENCE_ANNOTATION, registration
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound
from podsched.serve.client.informer import Batch, Informer
from podsched.v1.api_pb2 import PatchRequest
from support.eventually import PATIENCE, eventually
from support.real_cluster import RealCluster, metric, real_cluster

pytestmark = pytest.mark.integration

ATTEMPTS = "scheduler_schedule_attempts_total"
BACKOFF = ("podInitialBackoffSeconds", "podMaxBackoffSeconds")
UNREACHABLE = "node.kubernetes.io/unreachable"


# ---------------------------------------------------------------------- a cluster with a history


class History:
    """When which pod was seen bound, marked for deletion, and gone; seconds of `time.monotonic`."""

    def __init__(self) -> None:
        self.bound: dict[str, tuple[float, str]] = {}
        self.terminating: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        #: In seconds of `time.time`: when it was seen gone, and when it was to be gone.
        self.gone_at: dict[str, float] = {}
        self.deadline: dict[str, float] = {}

    def note(self, batch: Batch) -> None:
        now = time.monotonic()
        for event in batch.events:
            name = event.key.partition("/")[2]
            pod = event.new
            if pod is None:
                self.gone[name], self.gone_at[name] = now, time.time()
                continue
            assert isinstance(pod, Pod)
            if pod.spec.node_name and name not in self.bound:
                self.bound[name] = (now, pod.spec.node_name)
            if pod.metadata.HasField("deletion_timestamp"):
                self.terminating.setdefault(name, now)
                self.deadline[name] = pod.metadata.deletion_timestamp.ToNanoseconds() / 1e9

    def node_of(self, name: str) -> str:
        return self.bound[name][1] if name in self.bound else ""


class Bench:
    """A cluster, and what has happened in it."""

    def __init__(self, real: RealCluster, history: History) -> None:
        self.real = real
        self.history = history

    @property
    def client(self) -> ApiClient:
        return self.real.client

    async def node(self, name: str, cpu: str = "2", **labels: str) -> None:
        node = Node()
        node.metadata.name = name
        node.metadata.labels.update(labels)
        node.status.capacity.update({"cpu": cpu, "memory": "32Gi", "pods": "110"})
        await self.client.create(registration(node, time.time()))

    async def pod(self, name: str, cpu: str = "2", **spec: Any) -> None:
        labels = spec.pop("labels", {})
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
        await self.client.create(from_manifest(manifest).message)

    async def classes(self, values: Mapping[str, int]) -> None:
        for name, value in values.items():
            item = PriorityClass(value=value)
            item.metadata.name = name
            await self.client.create(item)

    async def get(self, name: str) -> Pod | None:
        try:
            pod = await self.client.get("Pod", name, "default")
        except NotFound:
            return None
        assert isinstance(pod, Pod)
        return pod

    async def until_unschedulable(self, name: str) -> None:
        async def told() -> bool:
            pod = await self.get(name)
            assert pod is not None
            return any(
                c.type == "PodScheduled" and c.reason == "Unschedulable"
                for c in pod.status.conditions
            )

        await eventually(f"{name} is found to fit nowhere", told)

    async def until_bound(self, *names: str) -> None:
        await eventually(
            f"{names} are bound",
            lambda: all(n in self.history.bound for n in names),
        )

    async def until_running(self, *names: str) -> None:
        async def running() -> bool:
            pods = [await self.get(name) for name in names]
            return all(pod is not None and pod.status.phase == "Running" for pod in pods)

        await eventually(f"{names} run", running)

    async def attempts(self) -> float:
        return await asyncio.to_thread(metric, self.real.leader(), ATTEMPTS)


@asynccontextmanager
async def running(tmp_path: Path, **options: Any) -> AsyncIterator[Bench]:
    options |= {"replicas": 1, "nodes": 0, "agent_arguments": ("--adopt", "--heartbeat=1")}
    async with real_cluster(tmp_path, **options) as real:
        history = History()
        pods = Informer(real.client, ["Pod"])
        async with in_background(pods.run(history.note), "history"):
            await pods.synced.wait()
            yield Bench(real, history)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running(tmp_path) as made:
        yield made


# ---------------------------------------------------------------------- waking


async def test_a_pod_is_bound_on_the_event_that_makes_it_fit_and_not_after_its_backoff(
    tmp_path: Path,
) -> None:
    """The backoff is longer than anything is waited for here."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(dict.fromkeys(BACKOFF, 10 * int(PATIENCE))))
    async with running(tmp_path, scheduler_config=config) as bench:
        await bench.node("small", cpu="1")
        await bench.pod("pod")
        await bench.until_unschedulable("pod")
        await bench.node("large")
        await bench.until_bound("pod")


@pytest.mark.long
async def test_a_pod_is_not_tried_again_on_1000_events_that_cannot_help_it(bench: Bench) -> None:
    await bench.node("small", cpu="1")
    await bench.pod("large")
    await bench.until_unschedulable("large")
    before = await bench.attempts()
    await _thousand_useless_events(bench)
    await asyncio.sleep(1.5)  # longer than the first backoff: a needless wake-up would be tried
    assert await bench.attempts() == before
    await bench.node("large")
    await bench.until_bound("large")


async def _thousand_useless_events(bench: Bench) -> None:
    """Labels, annotations and status of a node that stays too small, and another pod's labels."""
    await bench.pod("neighbour", cpu="0", nodeName="small")
    for number in range(0, 1000, 4):
        metadata = {"labels": {"n": str(number)}, "annotations": {"n": str(number)}}
        condition = {"type": "Odd", "status": ("True", "False")[number // 4 % 2]}
        patches: Sequence[tuple[str, str, str, dict[str, Any]]] = (
            ("Node", "", "small", {"metadata": metadata}),
            ("Node", "", "small", {"status": {"conditions": [READY, condition]}}),
            ("Pod", "default", "neighbour", {"metadata": metadata}),
            ("Pod", "default", "neighbour", {"metadata": {"annotations": {"m": str(number)}}}),
        )
        requests = [
            PatchRequest(kind=kind, namespace=namespace, name=name, merge_patch=_json(patch))
            for kind, namespace, name, patch in patches
        ]
        for request in requests:  # one after another: each is an event of its own
            results = await bench.client.patch_many([request])
            assert results[0].code == 0, results[0].message


READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}


def _json(patch: Mapping[str, Any]) -> bytes:
    return json.dumps(patch).encode()


# ---------------------------------------------------------------------- preemption


async def test_a_preemptor_gets_its_node_after_the_grace_period_and_no_lower_pod_takes_it(
    bench: Bench,
) -> None:
    grace = 3
    await bench.classes({"low": 1, "mid": 50, "high": 100})
    await bench.node("only")
    await bench.pod("victim", priorityClassName="low", terminationGracePeriodSeconds=grace)
    await bench.until_running("victim")
    told_after = time.time()
    await bench.pod("preemptor", priorityClassName="high")
    await eventually("the victim is told", lambda: "victim" in bench.history.terminating)
    for turn in range(4):
        await bench.pod(f"thief-{turn}", cpu="1", priorityClassName="mid")
    await bench.until_bound("preemptor")
    history = bench.history
    # The victim's end is seen late, if at all, and the seconds of its deadline are whole.
    assert history.gone_at["victim"] >= history.deadline["victim"] - 1
    assert history.deadline["victim"] >= told_after + grace - 1
    # Both come over one stream.
    assert history.bound["preemptor"][0] >= history.gone["victim"]
    assert not any(name.startswith("thief") for name in history.bound)


@pytest.mark.long
async def test_a_budget_is_violated_only_when_no_other_node_would_do(bench: Bench) -> None:
    await bench.classes({"low": 1, "mid": 50, "high": 100})
    await bench.node("guarded", place="guarded")
    await bench.node("open", place="open")
    await bench.pod(
        "protected",
        priorityClassName="low",
        nodeSelector={"place": "guarded"},
        labels={"app": "protected"},
    )
    # The open node's pod is the more important one: without the budget it would be spared.
    await bench.pod("free", priorityClassName="mid", nodeSelector={"place": "open"})
    await bench.until_running("protected", "free")
    await bench.client.create(_budget())
    await eventually("the budget is counted", lambda: _disruptions_allowed(bench, 0))
    await bench.pod("first", priorityClassName="high")
    await bench.until_bound("first")
    assert bench.history.node_of("first") == "open"
    assert "protected" not in bench.history.gone
    await bench.pod("second", priorityClassName="high")
    await bench.until_bound("second")
    assert bench.history.node_of("second") == "guarded"
    assert "protected" in bench.history.gone


def _budget() -> PodDisruptionBudget:
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "b", "default"
    budget.spec.min_available = "1"
    budget.spec.selector.match_labels["app"] = "protected"
    return budget


async def _disruptions_allowed(bench: Bench, number: int) -> bool:
    budget = await bench.client.get("PodDisruptionBudget", "b", "default")
    assert isinstance(budget, PodDisruptionBudget)
    status = budget.status
    return status.current_healthy == 1 and status.disruptions_allowed == number


# ---------------------------------------------------------------------- nodes that fall silent


@pytest.mark.long
async def test_a_silent_node_loses_the_pods_that_do_not_tolerate_it_each_after_its_seconds(
    tmp_path: Path,
) -> None:
    soon = ("--node-monitor-period=0.5", "--node-monitor-grace-period=4")
    async with running(tmp_path, scheduler_arguments=soon) as bench:
        await lose_pods(bench)


async def lose_pods(bench: Bench) -> None:
    """Silence a node, and look which of its pods go, and when."""
    await bench.node("silent", cpu="8", place="silent")
    await bench.node("healthy", cpu="8", place="healthy")
    here, there = {"place": "silent"}, {"place": "healthy"}
    seconds = {"at-once": 0, "soon": 2, "later": 4}
    for name, after in seconds.items():
        await bench.pod(name, cpu="1", nodeSelector=here, tolerations=[_tolerated(after)])
    await bench.pod("for-ever", cpu="1", nodeSelector=here, tolerations=[_tolerated(None)])
    await bench.pod("five-minutes", cpu="1", nodeSelector=here)  # admission's default
    await bench.pod("elsewhere", cpu="1", nodeSelector=there, tolerations=[_tolerated(0)])
    stay = {"for-ever", "five-minutes", "elsewhere"}
    await bench.until_running(*seconds, *stay)
    silence = {"metadata": {"annotations": {SILENCE_ANNOTATION: "true"}}}
    await bench.client.patch("Node", "silent", silence)
    await eventually("the node is tainted", lambda: _unreachable_since(bench, "silent"))
    tainted = await _unreachable_since(bench, "silent")
    gone = bench.history.gone
    await eventually("they are evicted", lambda: seconds.keys() <= gone.keys())
    for name, after in seconds.items():
        assert bench.history.gone_at[name] - tainted >= after, name
    assert sorted(seconds, key=lambda name: gone[name]) == list(seconds)
    await asyncio.sleep(2)
    assert not stay & (bench.history.gone.keys() | bench.history.terminating.keys())


def _tolerated(seconds: int | None) -> dict[str, Any]:
    toleration = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


async def _unreachable_since(bench: Bench, name: str) -> float:
    """When the node was tainted, in seconds of `time.time`; 0 if it is not."""
    node = await bench.client.get("Node", name)
    assert isinstance(node, Node)
    times = [
        taint.time_added.ToNanoseconds() / 1e9
        for taint in node.spec.taints
        if taint.key == UNREACHABLE and taint.effect == "NoExecute"
    ]
    return max(times, default=0)
