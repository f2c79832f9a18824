"""Run a whole cluster on this machine: etcd, Ray, API servers, scheduler replicas and an agent.

``sched up``, ``sched demo``, the benchmarks and the integration tests use it. Every process listens
on loopback by default, logs to ``<data_dir>/logs`` and ends with this process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from podsched.actors.local_ray import LocalRay, RayStartError
from podsched.app.cluster_tls import ClusterTls
from podsched.app.supervisor import (
    GRACE,
    ManagedProcess,
    Part,
    Place,
    ProcessSpec,
    keep_running,
)
from podsched.lib.counted import counted
from podsched.lib.files import write_private
from podsched.lib.network import can_listen, free_port, is_loopback
from podsched.lib.tasks import TaskSet
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.kube.access import kubeconfig
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.errors import EmbeddedEtcdError
from podsched.serve.store.etcd_version import known_fault

#: Environment variables that the user may have set for other clusters. Here options decide about
#: TLS, and etcd has no users.
_UNSET: Mapping[str, str] = dict.fromkeys(
    ("SCHED_TLS_CA", "SCHED_TLS_CERT", "SCHED_TLS_KEY", "SCHED_ETCD_USERNAME"), ""
)

#: Addresses that stand for all of this machine's, and how this machine reaches them.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


@dataclass(frozen=True, slots=True)
class LocalClusterOptions:
    """Which processes to start, and how."""

    data_dir: Path
    """Where etcd's data and all logs go."""
    replicas: int = 3
    api_servers: int = 1
    api_address: str = "127.0.0.1:0"
    """Address of the first API server; port 0 picks a free one."""
    kube_address: str = ""
    """Address at which the first API server serves Kubernetes' REST API; "": it does not."""
    web_address: str = ""
    """Address at which the first API server serves the page for browsers; "": it does not."""
    through_kube: bool = False
    """Whether replicas schedule through Kubernetes' REST API, as on any Kubernetes cluster: with
    the lock in a Lease and without controllers. Needs ``kube_address``."""
    tls_dir: Path | None = None
    """Directory of all roles' certificates; missing ones are made there. None: no TLS."""
    tls_hosts: tuple[str, ...] = ()
    """Hosts in new certificates, besides loopback, this host's name and ``api_address``."""
    insecure_listen: bool = False
    """Whether the API server may listen beyond loopback without TLS."""
    etcd_endpoints: tuple[str, ...] = ()
    """A running etcd to use; empty: start one."""
    fsync: bool = True
    """Whether the embedded etcd syncs its log to disk."""
    keeps_data: bool = False
    """Whether etcd's data is used after the cluster has stopped: then faulty etcds are reported."""
    nodes: int = 0
    """Number of hollow nodes with the resources below."""
    node_cpu: str = "4"
    node_memory: str = "32Gi"
    node_pods: int = 110
    node_devices: tuple[str, ...] = ()
    job_seconds: float = 5.0
    """Seconds that hollow nodes run the pods of Jobs."""
    agent: bool = True
    """False: no agent. It is also left out without ``nodes`` and ``agent_arguments``."""
    agent_arguments: tuple[str, ...] = ()
    api_arguments: tuple[str, ...] = ()
    evaluator: str = "auto"
    """auto, local or ray; local does not start Ray."""
    scheduler_config: Path | None = None
    """A KubeSchedulerConfiguration file."""
    scheduler_arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables of all processes."""
    route: Callable[[str, str], str] = lambda _, address: address
    """Given the name of a process and an address, returns the address that it connects to instead.

    Fault injection puts relays in between."""
    process_arguments: Callable[[str], Sequence[str]] = lambda _: ()
    """Given the name of a process, returns additional arguments."""
    place: Callable[[str], Place] = lambda _: Place()
    """Given the name of a process, returns where it runs."""
    grace: float = GRACE
    """Seconds after which a process that was asked to end is killed."""


def _usable(address: str) -> tuple[str, str]:
    """Return a free address to listen on, and the address to reach it."""
    host, _, port = address.rpartition(":")
    if port == "0" or not can_listen(host.strip("[]"), int(port)):
        port = str(free_port())
    return f"{host}:{port}", f"{_WILDCARDS.get(host.strip('[]'), host)}:{port}"


class LocalCluster:
    """The cluster; ``start`` starts all processes, ``stop`` stops them in reverse order."""

    def __init__(
        self,
        options: LocalClusterOptions,
        warn: Callable[[str], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``warn``: gets warnings for the user; ``tell``: gets what is being started."""
        self.options = options
        self._tell = tell
        self.tls = ClusterTls(options.tls_dir)
        self._warn = warn
        self.log_dir = options.data_dir / "logs"
        self._etcd: EmbeddedEtcd | None = None
        self.ray: LocalRay | None = None
        self._tasks = TaskSet("the local cluster")
        self._starting_ray: asyncio.Task[None] | None = None
        self.etcd_endpoints: tuple[str, ...] = options.etcd_endpoints
        self.api_addresses: list[str] = []
        self.api_servers: list[ManagedProcess] = []
        self.schedulers: list[ManagedProcess] = []
        self.agent: ManagedProcess | None = None
        self.kubeconfig: Path | None = None
        self.page = ""

    @property
    def server(self) -> str:
        """The API servers' addresses, in the form of ``--server``."""
        return ",".join(self.api_addresses)

    @property
    def processes(self) -> Sequence[ManagedProcess]:
        """The managed processes: all except etcd and Ray."""
        agents = [self.agent] if self.agent else []
        return [*self.api_servers, *self.schedulers, *agents]

    async def start(self) -> None:
        """Start everything and wait until every process is ready.

        Raises:
            ProcessFailed, EmbeddedEtcdError: a process failed; all others have been stopped.
        """
        self.log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self.tls.make_missing(self._hosts())
        if self.options.evaluator != "local":
            self._tell("Ray, in the background")
            self.ray = LocalRay(log_dir=self.log_dir, tls=self.tls.files_of("ray"))
            self._starting_ray = self._tasks.start(self._start_ray(self.ray), "start Ray")
        if not self.etcd_endpoints:
            self._etcd = EmbeddedEtcd(
                self.tls.of_etcd(
                    EmbeddedEtcdOptions(self.options.data_dir / "etcd", fsync=self.options.fsync)
                )
            )
            self._tell("etcd")
            await self._etcd.start()
            if self.options.keeps_data and (fault := known_fault(self._etcd.version)):
                self._warn(fault)
            self.etcd_endpoints = (self._etcd.endpoint,)
            # ``sched snapshot save`` reads the endpoint and the files for TLS from there.
            files = self.tls.files_of("etcd-client")
            lines = [self._etcd.endpoint]
            if files is not None:
                lines += [files.authorities, files.certificate, files.key]
            (self.options.data_dir / "etcd-endpoint").write_text("\n".join(lines))
            self._keep("etcd", self._etcd, EmbeddedEtcdError)
        self._tell(counted(self.options.api_servers, "API server"))
        for index in range(self.options.api_servers):
            self.api_servers.append(await self._spawn(self._api_spec(index)))
        if self.options.agent and (self.options.nodes or self.options.agent_arguments):
            self._tell(f"agent with {counted(self.options.nodes, 'hollow node')}")
            self.agent = await self._spawn(self._agent_spec())
        if self._starting_ray is not None:
            if not self._starting_ray.done():
                self._tell("Ray takes some seconds")
            await self._starting_ray
        self._tell(counted(self.options.replicas, "scheduler replica"))
        for index in range(self.options.replicas):
            await self.add_replica(index)
        await asyncio.gather(*(process.wait_ready() for process in self.processes))

    def _hosts(self) -> tuple[str, ...]:
        host = self.options.api_address.rpartition(":")[0].strip("[]")
        named = () if host in _WILDCARDS or is_loopback(host) else (host,)
        return (socket.gethostname(), *named, *self.options.tls_hosts)

    def _keep(self, name: str, part: Part, fault: type[Exception]) -> None:
        keeping = keep_running(name, part, fault, self._warn)
        self._tasks.start(keeping, f"keep {name}", endless=True)

    @property
    def etcd_pid(self) -> int | None:
        """The process ID of the embedded etcd."""
        return self._etcd.pid if self._etcd else None

    async def _start_ray(self, ray: LocalRay) -> None:
        try:
            await ray.start()
        except RayStartError as exc:
            self._warn(f"{exc}; evaluating nodes locally")
            return
        self._keep("Ray", ray, RayStartError)

    async def _spawn(self, spec: ProcessSpec) -> ManagedProcess:
        process = ManagedProcess(spec, self.log_dir, self._tasks)
        await process.start()
        return process

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**_UNSET, **self.options.environment}

    def _server(self, process: str) -> str:
        """Return the API servers' addresses for a process, in the form of ``--server``."""
        return ",".join(self.options.route(process, address) for address in self.api_addresses)

    def _api_spec(self, index: int) -> ProcessSpec:
        name = f"apiserver-{index}"
        host, _, port = self.options.api_address.rpartition(":")
        if index or port == "0":
            port = str(free_port())
        reached = _WILDCARDS.get(host.strip("[]"), host)
        self.api_addresses.append(f"{reached}:{port}")
        health = free_port()
        arguments = [
            "apiserver",
            f"--listen={host}:{port}",
            *self._etcd_arguments(name),
        ]
        arguments += [*self.tls.server_arguments(), *self.options.api_arguments]
        if self.options.insecure_listen:
            arguments.append("--insecure-listen")
        if not index and self.options.kube_address:
            self._serve_kube(arguments)
        if not index and self.options.web_address:
            self._serve_page(arguments)
        return self._spec(name, arguments, health, self._environment)

    def _serve_kube(self, arguments: list[str]) -> None:
        """Let the first API server serve Kubernetes' REST API, and write a kubeconfig for it."""
        address, reached = _usable(self.options.kube_address)
        arguments.append(f"--kube-listen={address}")
        self.kubeconfig = self.options.data_dir / "kubeconfig"
        write_kubeconfig(self.kubeconfig, reached, self.tls.files_of("admin"))

    def _serve_page(self, arguments: list[str]) -> None:
        """Let the first API server serve the page."""
        address, reached = _usable(self.options.web_address)
        arguments.append(f"--web-listen={address}")
        self.page = f"{'https' if self.options.tls_dir else 'http'}://{reached}/"

    def _spec(
        self, name: str, arguments: Sequence[str], health: int, environment: Mapping[str, str]
    ) -> ProcessSpec:
        tls, place = self.tls.files_of("admin"), self.options.place(name)
        arguments = [
            *arguments,
            f"--health-listen={place.host}:{health}",
            *self.options.process_arguments(name),
        ]
        return ProcessSpec(name, tuple(arguments), health, environment, tls=tls, place=place)

    def _etcd_arguments(self, process: str) -> list[str]:
        secured = self.tls.etcd_arguments() if self._etcd is not None else []
        members = (self.options.route(process, address) for address in self.etcd_endpoints)
        return [f"--etcd-endpoints={','.join(members)}", *secured]

    def replica_of(self, identity: str) -> ManagedProcess:
        """Return the process with an identity. Raises ``LookupError``."""
        name = identity.rpartition("_")[0]
        for process in self.schedulers:
            if process.spec.name == name:
                return process
        raise LookupError(f"no replica of this cluster has the identity {identity}")

    async def add_replica(self, index: int) -> ManagedProcess:
        """Start a scheduler replica named scheduler-<index>."""
        process = await self._spawn(self._scheduler_spec(index))
        self.schedulers.append(process)
        return process

    def _scheduler_spec(self, index: int) -> ProcessSpec:
        name = f"scheduler-{index}"
        health = free_port()
        arguments = [
            "scheduler",
            *self._cluster_arguments(name),
            f"--identity={name}",
            f"--decision-log={self.decision_log(name)}",
        ]
        environment = dict(self._environment)
        if self.ray is not None and self.ray.address:
            arguments += [
                f"--evaluator={self.options.evaluator}",
                f"--ray-address={self.ray.address}",
            ]
            environment |= self.ray.environment
        else:
            arguments.append("--evaluator=local")
        if self.options.scheduler_config is not None:
            arguments.append(f"--config={self.options.scheduler_config}")
        arguments += self.options.scheduler_arguments
        return self._spec(name, arguments, health, environment)

    def decision_log(self, replica: str) -> Path:
        """Return the directory of a replica's decision log."""
        return self.options.data_dir / "decisions" / replica

    def _cluster_arguments(self, name: str) -> list[str]:
        """Return a replica's arguments for the cluster that it schedules."""
        if self.options.through_kube:
            return [f"--kubeconfig={self.kubeconfig}"]
        return [
            f"--server={self._server(name)}",
            *self.tls.client_arguments("scheduler"),
            *self._etcd_arguments(name),
        ]

    def _agent_spec(self) -> ProcessSpec:
        health = free_port()
        arguments = [
            "agent",
            f"--server={self._server('agent')}",
            *self.tls.client_arguments("agent"),
            f"--nodes={self.options.nodes}",
            f"--node-cpu={self.options.node_cpu}",
            f"--node-memory={self.options.node_memory}",
            f"--node-pods={self.options.node_pods}",
            f"--node-devices={','.join(self.options.node_devices)}",
            f"--job-seconds={self.options.job_seconds:g}",
            *self.options.agent_arguments,
        ]
        return self._spec("agent", arguments, health, self._environment)

    async def wait(self) -> None:
        """Wait until a task that keeps a process running fails, which is a bug; raise its error."""
        await self._tasks.run()

    async def stop(self) -> None:
        """Stop everything: schedulers, agent, API servers, Ray, etcd."""
        if self._starting_ray is not None:
            self._starting_ray.cancel()
            await asyncio.gather(self._starting_ray, return_exceptions=True)
        grace = self.options.grace
        await asyncio.gather(*(p.stop(grace) for p in self.schedulers))
        if self.agent is not None:
            await self.agent.stop(grace)
        await asyncio.gather(*(p.stop(grace) for p in self.api_servers))
        await self._tasks.stop()
        if self.ray is not None:
            await self.ray.stop()
        if self._etcd is not None:
            await self._etcd.stop()


def write_kubeconfig(path: Path, address: str, tls: TlsFiles | None) -> None:
    """Write a kubeconfig that only its owner can read. Raises OSError.

    ``address``: host:port. ``tls``: the user's files; None: no TLS.
    """
    cluster = {"server": f"{'https' if tls else 'http'}://{address}"}
    user = {}
    if tls is not None:
        cluster["certificate-authority"] = tls.authorities
        user = {"client-certificate": tls.certificate, "client-key": tls.key}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, kubeconfig(cluster, user))
