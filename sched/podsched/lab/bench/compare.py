"""Measure kube-scheduler and podsched in turns on one Kubernetes cluster, by the same means.

Both get the same KubeSchedulerConfiguration, which names a profile of the run's own, so that no
other scheduler touches its pods. Each turn has fresh objects:

    create namespace, nodes and pods --> start the scheduler --> it holds its lease: clock starts
      --> last binding seen: clock stops --> the scheduler is idle: CPU is read --> stop it
      --> check --> delete

The pods wait before the scheduler starts. Otherwise the client, which creates one pod per request,
would be measured instead of a fast scheduler. Both schedulers read the cluster before they acquire
the lease. A clock that starts with the first binding would favour a scheduler that decides many
pods before it binds. CPU read at the last binding would favour one that writes its Events later.
"""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from podsched import __version__
from podsched.api.kinds import KINDS
from podsched.api.manifest import to_manifest
from podsched.api.node_labels import HOSTNAME
from podsched.api.objects import Node, Pod, key_of
from podsched.app.supervisor import ManagedProcess, ProcessFailed, ProcessSpec
from podsched.lab.bench import ops
from podsched.lab.bench.cluster import LOOK_EVERY, PodWatch, Progress, each, watching
from podsched.lab.bench.comparison import (
    KUBE_SCHEDULER,
    ComparisonResult,
    Turn,
    order,
    throughput,
    too_fast,
)
from podsched.lab.bench.control_plane import (
    ControlPlane,
    NotComparableError,
    binaries,
    check_versions,
    comes_true,
    control_plane,
    version_of,
)
from podsched.lab.bench.processes import Usage, spent, usage_of
from podsched.lab.bench.verify import unbound, violations
from podsched.lab.bench.workload_file import sized
from podsched.lib.network import free_port
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import AlreadyExists, NotFound, Unavailable
from podsched.serve.kube.access import from_kubeconfig
from podsched.serve.kube.http import MERGE_PATCH, KubeHttp
from podsched.serve.kube.informer import KubeInformer
from podsched.serve.kube.lists import list_all, pages
from podsched.serve.kube.paths import collection, of_object

#: One template; 100 templates with spreading, every fifth pod with preferred anti-affinity; pods
#: with requests of their own.
WORKLOADS = "SchedulingBasic", "TemplatesMixed", "UniqueRequests"
NODES, PODS = 5000, 2000

_IN_FLIGHT = 32
#: Requests per second that each scheduler may send, far above what an API server answers.
_QPS, _BURST = 5000, 10000
#: Max seconds until the API server first answers, until a scheduler leads, until it has bound all
#: pods, of a request that deletes a whole collection, and until the controller manager has emptied
#: a namespace.
_ANSWERS_WITHIN, _LEADS_WITHIN, _BINDS_WITHIN = 10.0, 120.0, 600.0
_REQUEST_WITHIN, _GONE_WITHIN = 300.0, 120.0
#: Seconds of CPU in a second that still count as idle, and seconds to become idle.
_IDLE, _IDLE_WITHIN = 0.05, 30
_LABEL = "bench.podsched/run"
_AT_ONCE = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """On which cluster to compare, and how long.

    kubeconfig: of a running cluster; None: start a control plane. control_plane: directory of
    kube-scheduler and, for a control plane, kube-apiserver and etcd. shared: use a cluster with
    other nodes or waiting pods, too.
    """

    control_plane: Path
    kubeconfig: Path | None = None
    nodes: int = NODES
    pods: int = PODS
    rounds: int = 3
    shared: bool = False


async def run_compare(options: CompareOptions, progress: Progress) -> ComparisonResult:
    """Run the benchmark; leaves no object, process or file behind.

    Raises NotComparableError, ConfigError, ClientError, ProcessFailed, EmbeddedEtcdError.
    """
    scheduler = binaries(options.control_plane, (KUBE_SCHEDULER,))[KUBE_SCHEDULER]
    version = await version_of(scheduler)
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podsched-bench-")))
        if options.kubeconfig is None:
            plane = await stack.enter_async_context(control_plane(options.control_plane, data))
        else:
            plane = ControlPlane(options.kubeconfig.absolute())
        http = KubeHttp(
            from_kubeconfig(plane.kubeconfig), timeout=_REQUEST_WITHIN, wait_for_server=False
        )
        stack.push_async_callback(http.close)
        served = await version_served(http)
        check_versions(version, served)
        others = await _others(http)
        if others and not options.shared:
            raise NotComparableError(
                f"{http.access.server}: the cluster has {others}, which would take part; use an "
                "empty cluster, or --shared-cluster"
            )
        pods = await stack.enter_async_context(watching(KubeInformer(http, ["Pod"])))
        tasks = TaskSet("the schedulers")
        stack.push_async_callback(tasks.stop)
        runner = _Runner(http, plane, pods, scheduler, data, tasks, bool(others))
        turns = await _turns(runner, options, progress)
        return ComparisonResult(await _about(version, served, plane.etcd), turns)


async def _turns(runner: _Runner, options: CompareOptions, progress: Progress) -> list[Turn]:
    params = {"initNodes": options.nodes, "initPods": 0, "measurePods": options.pods}
    workloads = [sized(name, params) for name in WORKLOADS]
    planned = [
        (workload, scheduler)
        for schedulers in order(options.rounds)
        for workload in workloads
        for scheduler in schedulers
    ]
    turns = []
    for number, (workload, scheduler) in enumerate(planned):
        progress("turns", number, len(planned))
        turns.append(await runner.turn(workload, scheduler))
    return turns


async def version_served(http: KubeHttp) -> str:
    """Return the version of a cluster. Raises ClientError, Unavailable if none answers soon."""
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN):
            return str((await http.request("GET", "/version")).get("gitVersion"))
    except (Unavailable, TimeoutError) as error:
        why = str(error) or f"no answer within {_ANSWERS_WITHIN:g} s"
        raise Unavailable(f"{http.access.server}: {why}") from error


async def _others(http: KubeHttp) -> str:
    """Describe the nodes and the waiting pods of a cluster; "" if it has none."""
    waiting = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}
    parts = []
    for what, kind, params in (("nodes", "Node", {}), ("waiting pods", "Pod", waiting)):
        found = pages(http, collection(KINDS[kind]), params)
        if count := sum([len(page.get("items") or ()) async for page in found]):
            parts.append(f"{count:,} {what}")
    return " and ".join(parts)


class _Runner:
    """Gives schedulers their turns on a running cluster."""

    def __init__(
        self,
        http: KubeHttp,
        plane: ControlPlane,
        pods: PodWatch,
        kube_scheduler: Path,
        data: Path,
        tasks: TaskSet,
        others: bool,
    ) -> None:
        """others: whether the cluster has nodes or pods that are not the run's."""
        self._http = http
        self._plane = plane
        self._pods = pods
        self._kube_scheduler = kube_scheduler
        self._data = data
        self._tasks = tasks
        #: Name of the profile, value of the label, and beginning of all names.
        self._run = f"sched-bench-{secrets.token_hex(3)}"
        self._objects = _Objects(http, plane, self._run, others)
        self._count = 0

    async def turn(self, workload: ops.Workload, scheduler: str) -> Turn:
        """Give a scheduler its turn with a workload. Raises ClientError, ProcessFailed."""
        load = os.getloadavg()[0]
        self._count += 1
        namespace = f"{self._run}-{self._count}"
        async with self._objects.of(workload, namespace) as (nodes, pods):
            process = self._process(scheduler, namespace)
            keys = {key_of(pod) for pod in pods}
            await process.start()
            try:
                rate, cpu = await self._measure(process, namespace, keys)
            finally:
                await process.stop()
            found = [p for p in await list_all(self._http, KINDS["Pod"]) if isinstance(p, Pod)]
            mine = [pod for pod in found if pod.metadata.namespace == namespace]
        self._pods.bound.clear()
        bound = {key_of(pod) for pod in mine if pod.spec.node_name}
        problems = [*unbound(keys, bound), *too_fast(len(bound), rate), *violations(nodes, mine)]
        return Turn(
            workload.name, scheduler, len(nodes), len(pods), len(bound), rate, cpu, load, problems
        )

    async def _measure(
        self, process: ManagedProcess, namespace: str, keys: Collection[str]
    ) -> tuple[float, dict[str, float]]:
        """Return the throughput, and the CPU per pod by process.

        Raises ProcessFailed if the scheduler ends or does not lead, ClientError.
        """
        left, bound = set(keys), self._pods.bound

        async def all_bound() -> bool:
            left.difference_update(bound)
            return not left

        pids = {"scheduler": process.pid, **self._plane.pids, "client": os.getpid()}
        await self._until_it_leads(process, namespace)
        before, began = usage_of(pids), time.monotonic()
        await comes_true(all_bound, process, _BINDS_WITHIN, LOOK_EVERY)
        await _until_idle(process)
        cpu = spent(before, usage_of(pids), len(keys) - len(left))
        return throughput((bound[key] for key in keys if key in bound), began), cpu

    async def _until_it_leads(self, process: ManagedProcess, namespace: str) -> None:
        """Wait until a scheduler holds its lease. Raises ProcessFailed, ClientError."""
        path = of_object(KINDS["Lease"], KUBE_SCHEDULER, namespace)

        async def leads() -> bool:
            with suppress(NotFound):
                lease = await self._http.request("GET", path)
                return bool(lease.get("spec", {}).get("holderIdentity"))
            return False

        if not await comes_true(leads, process, _LEADS_WITHIN, LOOK_EVERY):
            late = f"did not lead within {_LEADS_WITHIN:g} s:\n{process.log_tail()}"
            raise ProcessFailed(f"{process.spec.name} {late}")

    def _process(self, scheduler: str, namespace: str) -> ManagedProcess:
        config = self._data / f"{namespace}.yaml"
        config.write_text(yaml.safe_dump(self._configuration(namespace)))
        port, name = free_port(), f"{scheduler}-{self._count}"
        if scheduler == KUBE_SCHEDULER:
            arguments = [f"--config={config}", "--secure-port=0"]
            program = (str(self._kube_scheduler),)
            spec = ProcessSpec(name, arguments, port, restart=False, program=program)
        else:
            arguments = [
                "scheduler",
                f"--kubeconfig={self._plane.kubeconfig}",
                f"--config={config}",
                f"--health-listen=127.0.0.1:{port}",
                "--evaluator=local",
            ]
            spec = ProcessSpec(name, arguments, port, restart=False)
        return ManagedProcess(spec, self._data, self._tasks)

    def _configuration(self, namespace: str) -> dict[str, Any]:
        """Return the KubeSchedulerConfiguration of both; the lock is new, thus free at once."""
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self._plane.kubeconfig),
                "qps": _QPS,
                "burst": _BURST,
            },
            "leaderElection": {
                "leaderElect": True,
                "resourceName": KUBE_SCHEDULER,
                "resourceNamespace": namespace,
            },
            "profiles": [{"schedulerName": self._run}],
        }


class _Objects:
    """Creates and deletes the objects of each turn, which have the run's label."""

    def __init__(self, http: KubeHttp, plane: ControlPlane, run: str, others: bool) -> None:
        """others: whether the cluster has nodes or pods that are not the run's."""
        self._http = http
        self._plane = plane
        self._run = run
        self._others = others

    @asynccontextmanager
    async def of(
        self, workload: ops.Workload, namespace: str
    ) -> AsyncIterator[tuple[list[Node], list[Pod]]]:
        """Create a workload's nodes and measured pods for the block. Raises ClientError."""
        nodes: list[Node] = []
        pods: list[Pod] = []
        for op in workload.ops:
            if isinstance(op, ops.CreateNodes):
                nodes += map(self._node, op.nodes(0, op.count))
            elif isinstance(op, ops.CreatePods) and op.measured:
                pods += (self._pod(pod, namespace) for pod in op.pods(0, op.count))
        try:
            await self._namespace(namespace)
            await each(nodes, self._create_node, _IN_FLIGHT)
            await each(pods, self._create, _IN_FLIGHT)
            yield nodes, pods
        finally:
            await self._delete(namespace)

    def _node(self, node: Node) -> Node:
        name = f"{self._run}-{node.metadata.name}"
        node.metadata.name = name
        node.metadata.labels[HOSTNAME] = name
        node.metadata.labels[_LABEL] = self._run
        return node

    def _pod(self, pod: Pod, namespace: str) -> Pod:
        pod.metadata.namespace = namespace
        pod.spec.scheduler_name = self._run
        if self._others:
            pod.spec.node_selector[_LABEL] = self._run
        return pod

    async def _namespace(self, name: str) -> None:
        namespace = {"metadata": {"name": name, "labels": {_LABEL: self._run}}}
        await self._http.request("POST", collection(KINDS["Namespace"]), body=namespace)
        # Pods are refused until it exists; a controller creates it later, if one runs.
        path = collection(KINDS["ServiceAccount"], name)
        with suppress(AlreadyExists):
            await self._http.request("POST", path, body={"metadata": {"name": "default"}})

    async def _create(self, item: Node | Pod) -> dict[str, Any]:
        kind = KINDS["Node" if isinstance(item, Node) else "Pod"]
        path = collection(kind, item.metadata.namespace)
        return await self._http.request("POST", path, body=to_manifest(item))

    async def _create_node(self, node: Node) -> None:
        """Create a node without the taint that an API server puts on new ones."""
        created = await self._create(node)
        taints = to_manifest(node).get("spec", {}).get("taints")
        if created.get("spec", {}).get("taints") != taints:
            path = of_object(KINDS["Node"], node.metadata.name)
            body = {"spec": {"taints": taints}}
            await self._http.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def _delete(self, namespace: str) -> None:
        """Delete all objects of a turn, and wait until they are gone."""
        selected = {"labelSelector": f"{_LABEL}={self._run}"}
        paths = {
            collection(KINDS["Pod"], namespace): {},
            collection(KINDS["Event"], namespace): {},
            collection(KINDS["Node"]): selected,
        }
        for path, params in paths.items():
            with suppress(NotFound):
                await self._http.request(
                    "DELETE", path, params=params, body=_AT_ONCE, repeatable=True
                )
        path = of_object(KINDS["Namespace"], namespace)
        with suppress(NotFound, TimeoutError):
            await self._http.request("DELETE", path)
            async with asyncio.timeout(_GONE_WITHIN):
                while self._plane.controllers:
                    await self._http.request("GET", path)
                    await asyncio.sleep(0.5)


async def _until_idle(process: ManagedProcess) -> None:
    """Wait until a process has little left to do, such as Events: at most _IDLE_WITHIN seconds."""
    before = Usage()
    for _ in range(_IDLE_WITHIN):
        now = usage_of({"": process.pid}).get("", Usage())
        if now.cpu - before.cpu < _IDLE:
            return
        before = now
        await asyncio.sleep(1)


async def _about(scheduler: str, server: str, etcd: str) -> dict[str, str]:
    """Describe what was measured with what."""
    system = os.uname()
    return {
        "schedulers": f"kube-scheduler {scheduler}; podsched {__version__} {await _revision()}",
        "configuration": f"the same for both: default plugins, {_QPS:,} requests/s",
        "API server": f"{server}, etcd {etcd}" if etcd else server,
        "client": f"podsched's HTTP client, one pod per request, {_IN_FLIGHT} in flight",
        "clock": "pods wait before the scheduler starts; from its lease to the last binding "
        "watched, CPU until the scheduler is idle again",
        "machine": f"{os.cpu_count()} CPUs ({_processor()}), {system.sysname} {system.release}, "
        f"Python {platform.python_version()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


async def _revision() -> str:
    """Return the revision of podsched's clone in parentheses, "" if it is installed elsewise."""
    try:
        process = await asyncio.create_subprocess_exec(
            *("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    output, _ = await process.communicate()
    revision = output.decode().strip()
    return f"({revision})" if process.returncode == 0 and revision else ""
