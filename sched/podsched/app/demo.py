"""``sched demo``: run a workload on real processes, and kill the leader in the middle.

The final report is computed from etcd's content, not from any scheduler's memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from podsched.api.manifest import from_manifest, load_documents
from podsched.api.objects import AnyObject, Pod, ReplicaSet, object_key
from podsched.api.owners import follow_template
from podsched.app.demo_observer import Observer
from podsched.app.demo_report import DemoReport, Kill
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.app.stored_state import read_stored_state
from podsched.config.flags import flag
from podsched.config.settings import Evaluator
from podsched.lib.tasks import in_background, task_group
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import raise_first
from podsched.serve.client.informer import Informer
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.etcd import connect

#: Pods per create call and the pause between calls, so that 300 pods take about two seconds: the
#: leader is killed while pods are still arriving.
SUBMIT_BATCH = 5
SUBMIT_PAUSE = 0.03
#: Seconds to wait for Ray, whose first start in a fresh installation is slow.
RAY_WITHIN = 20.0
#: Nodes in manifests/nodes.yaml.
NODES = 14


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How to run the demo."""

    evaluator: Evaluator = flag("ray")
    """Where nodes are evaluated; local does not start Ray."""
    kills: int = flag(1, "N", min=0, max=2)
    """Number of times to kill the leader."""


async def run_demo(options: DemoOptions, say: Callable[[str], None]) -> DemoReport:
    """Start a cluster, run the demo on it, and stop it.

    Raises:
        DemoFailed: a step did not happen in time; and what starting the cluster raises.
    """
    began, load = time.monotonic(), os.getloadavg()[0]
    nodes_file = resources.files("podsched.app").joinpath("manifests", "nodes.yaml")
    with (
        tempfile.TemporaryDirectory(prefix="podsched-demo-") as directory,
        resources.as_file(nodes_file) as nodes_path,
    ):
        cluster = LocalCluster(
            LocalClusterOptions(
                data_dir=Path(directory),
                agent_arguments=(f"--manifests={nodes_path}",),
                # The demo submits the pods of its ReplicaSets itself.
                scheduler_arguments=("--controllers=*,-replicaset-controller",),
                evaluator=options.evaluator,
            )
        )
        ray = "" if options.evaluator == "local" else "Ray, "
        say(f"Starting etcd, {ray}an API server, 3 scheduler replicas and an agent ...")
        await cluster.start()
        try:
            say(f"  ready after {time.monotonic() - began:.1f} s")
            demo = Demo(cluster, say, options.kills)
            await demo.run()
        finally:
            await cluster.stop()
    demo.report.seconds = time.monotonic() - began
    demo.report.load, demo.report.processors = load, os.cpu_count() or 1
    return demo.report


class Demo:
    """One run of the demo on a running cluster."""

    def __init__(self, cluster: LocalCluster, say: Callable[[str], None], kills: int = 1) -> None:
        self.observer = Observer()
        self.report = DemoReport()
        self._cluster = cluster
        self._kills = kills
        self._say = say

    async def run(self) -> None:
        """Submit the workload, kill leaders meanwhile, and fill in the report."""
        observer = self.observer
        async with ApiClient(self._cluster.server) as client:
            informer = Informer(client, ["Lease", "Node", "Pod"])
            async with in_background(informer.run(observer.handle), "watch"):
                await informer.synced.wait()
                await observer.until(
                    "the hollow nodes", lambda: len(informer.objects("Node")) >= NODES
                )
                await observer.until("a leader", lambda: bool(observer.leaders))
                if self._cluster.specs.options.evaluator == "ray":
                    await self._wait_for_ray()
                pods = await self._create_workloads(client)
                await self.submit(client, pods)
                keys = [object_key(pod) for pod in pods]
                await observer.until(
                    "all pods to be bound", lambda: all(key in observer.bound_at for key in keys)
                )
        self.report.ray_calls = await self._ray_calls()
        store = await connect(EtcdOptions(endpoints=self._cluster.specs.etcd_endpoints))
        try:
            self.report.check(keys, await read_stored_state(store), observer)
        finally:
            await store.close()

    async def _wait_for_ray(self) -> None:
        """Wait until the leader uses Ray. It would schedule without, but the demo shows Ray."""
        began = time.monotonic()
        while time.monotonic() < began + RAY_WITHIN:
            leader = self._cluster.replica_of(self.observer.leaders[-1].identity)
            if await leader.health.metric("podsched_evaluator_mode", mode="ray"):
                self._say(f"  Ray actors ready {time.monotonic() - began:.1f} s later")
                return
            await asyncio.sleep(0.1)
        self._say("  Ray is not ready yet; evaluating nodes locally until it is")

    async def _ray_calls(self) -> int:
        """Return the number of calls of Ray actors by the replicas that are alive."""
        health = [process.health for process in self._cluster.schedulers]
        calls = [of.metric("podsched_ray_calls_total") for of in health]
        return int(sum(await asyncio.gather(*calls)))

    async def _create_workloads(self, client: ApiClient) -> list[Pod]:
        """Create priority classes and ReplicaSets; return the pods to submit."""
        for obj in manifests("priority-classes.yaml"):
            await client.create(obj)
        pods: list[Pod] = []
        for owner in manifests("workload.yaml"):
            assert isinstance(owner, ReplicaSet)
            owner.metadata.namespace = owner.metadata.namespace or "default"
            stored = await client.create(owner)
            self.report.workloads[owner.metadata.name] = _describe(stored)
            pods += pods_of(stored)
        workloads = len(self.report.workloads)
        self._say(f"Submitting {len(pods)} pods of {workloads} workloads over gRPC ...")
        return pods

    async def submit(self, client: ApiClient, pods: Sequence[Pod]) -> None:
        """Create the pods, and kill the leader at even intervals meanwhile.

        Raises:
            DemoFailed: a killed leader was not replaced in time. ClientError: a pod was rejected.
        """
        submission = Submission(client, pods)
        async with task_group() as group:
            group.create_task(submission.run(), name="submit pods")
            for number in range(self._kills):
                await submission.until(len(pods) * (number + 1) // (self._kills + 2))
                self.report.kills.append(await self._kill_leader())

    async def _kill_leader(self) -> Kill:
        observer = self.observer
        terms = len(observer.leaders)
        leader = observer.leaders[-1].identity
        process = self._cluster.replica_of(leader)
        killed = time.monotonic()
        process.kill(signal.SIGKILL)
        self._say(f"Killed the leader, {leader}, with SIGKILL; still submitting pods")
        await observer.until("a new leader", lambda: len(observer.leaders) > terms)
        won = observer.won_at[terms]
        # Bindings that the old leader sent may still arrive after its death, so the new leader's
        # first binding is the first one seen after it won.
        await observer.until("the next binding", lambda: bool(observer.first_bound_after(won)))
        gap = (observer.first_bound_after(won) or won) - killed
        new = observer.leaders[terms].identity
        self._say(f"  new leader {new}; the next pod was bound after {gap:.2f} s")
        return Kill("SIGKILL", leader, gap)


class Submission:
    """Submits pods in small batches, so that pods arrive while leaders change."""

    def __init__(self, client: ApiClient, pods: Sequence[Pod]) -> None:
        self._client = client
        self._pods = pods
        self._submitted = 0
        self._progress = asyncio.Event()

    async def run(self) -> None:
        """Submit all pods. Raises ``ClientError`` if one is rejected."""
        for start in range(0, len(self._pods), SUBMIT_BATCH):
            raise_first(await self._client.create_pods(self._pods[start : start + SUBMIT_BATCH]))
            self._submitted = start + SUBMIT_BATCH
            self._progress.set()
            await asyncio.sleep(SUBMIT_PAUSE)

    async def until(self, count: int) -> None:
        """Wait until ``count`` pods are submitted."""
        while self._submitted < count:
            self._progress.clear()
            await self._progress.wait()


def manifests(name: str) -> list[AnyObject]:
    """Return the objects in one of the example manifests that are part of podsched."""
    text = resources.files("podsched.app").joinpath("manifests", name).read_text()
    return [from_manifest(document).message for document in load_documents(text)]


def pods_of(owner: ReplicaSet) -> list[Pod]:
    """Return the pods that a ReplicaSet controller would create."""
    pods = []
    for index in range(owner.spec.replicas):
        pod = Pod(spec=owner.spec.template.spec)
        pod.metadata.name = f"{owner.metadata.name}-{index:03d}"
        follow_template(pod.metadata, owner.spec.template.metadata, owner)
        pods.append(pod)
    return pods


def _describe(owner: ReplicaSet) -> str:
    requests = owner.spec.template.spec.containers[0].resources.requests
    text = ", ".join(f"{name} {amount}" for name, amount in sorted(requests.items()))
    return f"{owner.spec.replicas} with {text}"
