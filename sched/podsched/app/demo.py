"""``sched demo``: the main job once, on real parts, with the leader killed on the way.

What is reported at the end is read back from etcd, not taken from any scheduler's memory.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

from podsched.api import quantity
from podsched.api.manifest import from_manifest, load_documents
from podsched.api.objects import AnyObject, Pod, ReplicaSet
from podsched.api.resources import pod_requests
from podsched.app.local_cluster import LocalCluster, LocalClusterOptions
from podsched.app.stored_state import StoredState, read_truth
from podsched.client.api_client import ApiClient
from podsched.client.errors import of_result
from podsched.client.informer import Batch, Informer
from podsched.store.endpoints import EtcdOptions
from podsched.store.etcd import connect

SUBMIT_BATCH = 5
SUBMIT_PAUSE = 0.03
WITHIN = 45.0
RAY_WITHIN = 20.0


class DemoFailed(Exception):
    """Something that the demo waits for did not happen in time."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    evaluator: str = "ray"
    kills: int = 1


@dataclass(frozen=True, slots=True)
class Leader:
    """Who led: identity, term (the revision at which it won), wall time when it was first seen."""

    identity: str
    term: int
    since: float


@dataclass(frozen=True, slots=True)
class Kill:
    """A leader that was killed, and the seconds from the signal until the next pod was bound."""

    signal: str
    identity: str
    gap_seconds: float


@dataclass(slots=True)
class DemoReport:
    """What happened. ``placed``: pods by (workload, zone)."""

    nodes: int = 0
    pods: int = 0
    bound: int = 0
    lost: int = 0
    bound_twice: int = 0
    overcommitted_nodes: int = 0
    seconds: float = 0.0
    leaders: list[Leader] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    #: Calls of Ray actors by the replicas that were alive at the end.
    ray_calls: int = 0
    placed: dict[tuple[str, str], int] = field(default_factory=dict)
    workloads: dict[str, str] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return self.bound == self.pods and not (
            self.lost or self.bound_twice or self.overcommitted_nodes
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "pods": self.pods,
            "bound": self.bound,
            "lost": self.lost,
            "bound_twice": self.bound_twice,
            "overcommitted_nodes": self.overcommitted_nodes,
            "seconds": round(self.seconds, 2),
            "leaders": [
                {"identity": x.identity, "term": x.term, "since": round(x.since, 3)}
                for x in self.leaders
            ],
            "kills": [
                {"signal": k.signal, "identity": k.identity, "gap_seconds": round(k.gap_seconds, 3)}
                for k in self.kills
            ],
        }


def manifests(name: str) -> list[AnyObject]:
    """Return the objects of one of the example manifests that come with podsched."""
    text = resources.files("podsched.app").joinpath("manifests", name).read_text()
    return [from_manifest(document).message for document in load_documents(text)]


def pods_of(owner: ReplicaSet) -> list[Pod]:
    """Return the pods that a ReplicaSet controller would make."""
    pods = []
    for index in range(owner.spec.replicas):
        pod = Pod()
        pod.metadata.CopyFrom(owner.spec.template.metadata)
        pod.spec.CopyFrom(owner.spec.template.spec)
        pod.metadata.name = f"{owner.metadata.name}-{index:03d}"
        pod.metadata.namespace = owner.metadata.namespace
        reference = pod.metadata.owner_references.add()
        reference.api_version, reference.kind = "apps/v1", "ReplicaSet"
        reference.name, reference.uid = owner.metadata.name, owner.metadata.uid
        reference.controller = True
        pods.append(pod)
    return pods


class Observer:
    """Watches pods and the lease: when pods were bound, who led in which order."""

    def __init__(self) -> None:
        self.bound_at: dict[str, float] = {}
        self.nodes_of: dict[str, set[str]] = {}
        self.leaders: list[Leader] = []
        self.won_at: list[float] = []
        self._transitions = -1
        self.changed = asyncio.Event()

    def handle(self, batch: Batch) -> None:
        now = time.monotonic()
        for event in batch.events:
            if event.kind == "Lease" and event.key == "kube-system/kube-scheduler":
                self._lease(event.new)
            elif event.kind == "Pod" and isinstance(event.new, Pod) and event.new.spec.node_name:
                self.bound_at.setdefault(event.key, now)
                self.nodes_of.setdefault(event.key, set()).add(event.new.spec.node_name)
        self.changed.set()

    def _lease(self, lease: Any) -> None:
        if lease is None or not lease.spec.holder_identity:
            return
        if lease.spec.lease_transitions == self._transitions:
            return
        self._transitions = lease.spec.lease_transitions
        term = int(lease.metadata.resource_version)
        self.leaders.append(Leader(lease.spec.holder_identity, term, time.time()))
        self.won_at.append(time.monotonic())

    def first_bound_after(self, when: float) -> float | None:
        """When the first pod was bound after a moment; None when none was."""
        return min((at for at in self.bound_at.values() if at > when), default=None)

    async def until(self, what: str, condition: Callable[[], bool], within: float = WITHIN) -> None:
        """Wait for a condition on what was observed.

        Raises:
            DemoFailed: it did not come true in time.
        """
        try:
            async with asyncio.timeout(within):
                while not condition():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise DemoFailed(f"{what}: not within {within:.0f} s") from None


async def run_demo(options: DemoOptions, say: Callable[[str], None]) -> DemoReport:
    """Run the demo on a cluster of its own and take it down again.

    Raises:
        DemoFailed: and what starting the cluster raises.
    """
    began = time.monotonic()
    report = DemoReport()
    with tempfile.TemporaryDirectory(prefix="podsched-demo-") as directory:
        nodes_file = resources.files("podsched.app").joinpath("manifests", "nodes.yaml")
        with resources.as_file(nodes_file) as nodes_path:
            cluster = LocalCluster(
                LocalClusterOptions(
                    data_dir=Path(directory),
                    agent_arguments=(f"--manifests={nodes_path}",),
                    evaluator=options.evaluator,
                )
            )
            say("Starting etcd, Ray, an API server, 3 scheduler replicas and an agent ...")
            await cluster.start()
            try:
                say(f"  ready after {time.monotonic() - began:.1f} s")
                await _play(cluster, options, report, say)
            finally:
                await cluster.stop()
    report.seconds = time.monotonic() - began
    return report


async def _play(
    cluster: LocalCluster, options: DemoOptions, report: DemoReport, say: Callable[[str], None]
) -> None:
    observer = Observer()
    async with ApiClient(cluster.server) as client:
        informer = Informer(client, ["Lease", "Node", "Pod"])
        watching = asyncio.create_task(informer.run(observer.handle), name="watch")
        try:
            await informer.synced.wait()
            await observer.until("the hollow nodes", lambda: len(informer.objects("Node")) >= 14)
            await observer.until("a leader", lambda: bool(observer.leaders))
            if options.evaluator == "ray":
                await _wait_for_ray(cluster, observer, say)
            pods = await _workload(client, report, say)
            await _submit(client, cluster, observer, pods, options, report, say)
            keys = [f"{p.metadata.namespace}/{p.metadata.name}" for p in pods]
            await observer.until(
                "all pods bound", lambda: all(k in observer.bound_at for k in keys)
            )
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    report.leaders = observer.leaders
    report.ray_calls = await _ray_calls(cluster)
    store = await connect(EtcdOptions(endpoints=cluster.etcd_endpoints))
    try:
        _judge(report, keys, await read_truth(store), observer)
    finally:
        await store.close()


async def _wait_for_ray(
    cluster: LocalCluster, observer: Observer, say: Callable[[str], None]
) -> None:
    """Ray takes some seconds to start; the leader would not wait for it, but the demo shows it."""
    began = time.monotonic()
    while time.monotonic() < began + RAY_WITHIN:
        leader = cluster.replica_of(observer.leaders[-1].identity)
        if await leader.metric("podsched_evaluator_mode", mode="ray"):
            say(f"  Ray actors at work {time.monotonic() - began:.1f} s later")
            return
        await asyncio.sleep(0.1)
    say("  Ray is not there yet: nodes are evaluated locally until it is")


async def _ray_calls(cluster: LocalCluster) -> int:
    """Call of Ray actors that the replicas made, as far as they live."""
    calls = [process.metric("podsched_ray_calls_total") for process in cluster.schedulers]
    return int(sum(await asyncio.gather(*calls)))


async def _workload(client: ApiClient, report: DemoReport, say: Callable[[str], None]) -> list[Pod]:
    for obj in manifests("priority-classes.yaml"):
        await client.create(obj)
    pods: list[Pod] = []
    for owner in manifests("workload.yaml"):
        assert isinstance(owner, ReplicaSet)
        owner.metadata.namespace = owner.metadata.namespace or "default"
        stored = await client.create(owner)
        report.workloads[owner.metadata.name] = _describe(stored)
        pods += pods_of(stored)
    say(f"Submitting {len(pods)} pods of {len(report.workloads)} workloads over gRPC ...")
    return pods


def _describe(owner: ReplicaSet) -> str:
    spec = owner.spec.template.spec
    requests = spec.containers[0].resources.requests
    text = ", ".join(f"{name} {amount}" for name, amount in sorted(requests.items()))
    return f"{owner.spec.replicas} pods of {text}"


class Submission:
    """Submits pods in small batches, so that there is something to do while leaders come and go."""

    def __init__(self, client: ApiClient, pods: Sequence[Pod]) -> None:
        self._client = client
        self._pods = pods
        self.submitted = 0
        self.progress = asyncio.Event()

    async def run(self) -> None:
        for start in range(0, len(self._pods), SUBMIT_BATCH):
            for result in await self._client.create_pods(self._pods[start : start + SUBMIT_BATCH]):
                if (error := of_result(result)) is not None:
                    raise error
            self.submitted = start + SUBMIT_BATCH
            self.progress.set()
            await asyncio.sleep(SUBMIT_PAUSE)

    async def until(self, count: int) -> None:
        while self.submitted < count:
            self.progress.clear()
            await self.progress.wait()


async def _submit(
    client: ApiClient,
    cluster: LocalCluster,
    observer: Observer,
    pods: Sequence[Pod],
    options: DemoOptions,
    report: DemoReport,
    say: Callable[[str], None],
) -> None:
    submission = Submission(client, pods)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(submission.run(), name="submit pods")
            for number in range(options.kills):
                await submission.until(len(pods) * (number + 1) // (options.kills + 2))
                report.kills.append(await _kill_leader(cluster, observer, say))
    except ExceptionGroup as failed:
        # Whoever runs the demo is told what failed first, in one line.
        raise failed.exceptions[0] from None


async def _kill_leader(
    cluster: LocalCluster, observer: Observer, say: Callable[[str], None]
) -> Kill:
    terms = len(observer.leaders)
    leader = observer.leaders[-1].identity
    process = cluster.replica_of(leader)
    killed = time.monotonic()
    process.kill(signal.SIGKILL)
    say(f"Killed the leader, {leader}, with SIGKILL; pods go on being submitted")
    await observer.until("a new leader", lambda: len(observer.leaders) > terms)
    won = observer.won_at[terms]
    # What the old leader had sent may still arrive after its end: the new one's first binding
    # is the first after it won.
    await observer.until("the next binding", lambda: observer.first_bound_after(won) is not None)
    gap = (observer.first_bound_after(won) or won) - killed
    say(f"  {observer.leaders[terms].identity} leads; the next pod was bound after {gap:.2f} s")
    return Kill("SIGKILL", leader, gap)


def _judge(report: DemoReport, keys: Sequence[str], truth: StoredState, observer: Observer) -> None:
    report.nodes = len(truth.nodes)
    report.pods = len(keys)
    there = {key: truth.pods[key] for key in keys if key in truth.pods}
    report.lost = len(keys) - len(there)
    report.bound = sum(bool(pod.spec.node_name) for pod in there.values())
    report.bound_twice = sum(len(nodes) > 1 for nodes in observer.nodes_of.values())
    report.overcommitted_nodes = len(overcommitted(truth))
    placed: Counter[tuple[str, str]] = Counter()
    for pod in there.values():
        workload = pod.metadata.owner_references[0].name
        node = truth.nodes.get(pod.spec.node_name)
        zone = node.metadata.labels.get("topology.kubernetes.io/zone", "?") if node else "?"
        if node is not None and node.spec.taints:
            zone = "gpu"
        placed[workload, zone] += 1
    report.placed = dict(placed)


def overcommitted(truth: StoredState) -> list[str]:
    """Nodes that carry more than their allocatable, in any resource or in number of pods."""
    used: dict[str, Counter[str]] = {}
    for pod in truth.pods.values():
        if not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
            continue
        usage = used.setdefault(pod.spec.node_name, Counter())
        usage["pods"] += 1
        for name, amount in pod_requests(pod).items():
            usage[name] += amount  # type: ignore[assignment]
    found = []
    for name, usage in used.items():
        node = truth.nodes.get(name)
        room = node.status.allocatable if node is not None else {}
        if any(amount > Fraction(quantity.parse(room.get(r, "0"))) for r, amount in usage.items()):
            found.append(name)
    return found
