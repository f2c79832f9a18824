"""Run a whole cluster on this machine: etcd, Ray, API servers, scheduler replicas and an agent.

``sched up``, ``sched demo``, the benchmarks and the integration tests use it. Every process listens
on loopback by default, logs to ``<data_dir>/logs`` and ends with this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from podsched.actors.local_ray import LocalRay, RayStartError
from podsched.app.cluster_tls import ClusterTls
from podsched.app.local_specs import LocalClusterOptions, LocalSpecs
from podsched.app.supervisor import ManagedProcess, ProcessSpec, keep_running
from podsched.lib.counted import counted
from podsched.lib.tasks import TaskSet
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.errors import EmbeddedEtcdError
from podsched.serve.store.etcd_version import known_fault

#: Max seconds between two tries to start Ray. Each takes seconds of CPU, and the replicas evaluate
#: nodes themselves meanwhile.
LONGEST_RAY_PAUSE = 60.0


class LocalCluster:
    """The cluster; ``start`` starts all processes, ``stop`` stops them in reverse order."""

    def __init__(
        self,
        options: LocalClusterOptions,
        warn: Callable[[str], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``warn``: gets warnings for the user; ``tell``: gets what is being started."""
        self._tell = tell
        self.tls = ClusterTls(options.tls_dir)
        self._warn = warn
        self.log_dir = options.data_dir / "logs"
        self.etcd: EmbeddedEtcd | None = None
        self.ray: LocalRay | None = None
        self._tasks = TaskSet("the local cluster")
        self._starting_ray: asyncio.Task[None] | None = None
        self.specs = LocalSpecs(options, self.tls)
        self.api_servers: list[ManagedProcess] = []
        self.schedulers: list[ManagedProcess] = []
        self.agent: ManagedProcess | None = None

    @property
    def server(self) -> str:
        """The API servers' addresses, in the form of ``--server``."""
        return ",".join(self.specs.api_addresses)

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
        options = self.specs.options
        self.tls.make_missing(self.specs.hosts())
        # First, and in the background, because it takes some seconds.
        if options.evaluator != "local":
            self._tell("Ray, in the background")
            self.ray = LocalRay(log_dir=self.log_dir, tls=self.tls.files_of("ray"))
            self._starting_ray = self._tasks.start(self._start_ray(self.ray), "start Ray")
        if not options.etcd_endpoints:
            own = EmbeddedEtcdOptions(options.data_dir / "etcd", fsync=options.fsync)
            self.etcd = EmbeddedEtcd(self.tls.of_etcd(own))
            self._tell("etcd")
            await self.etcd.start()
            if options.keeps_data and (fault := known_fault(self.etcd.version)):
                self._warn(fault)
            self.specs.etcd_endpoints = (self.etcd.endpoint,)
            # ``sched snapshot save`` reads the endpoint and the files for TLS from there.
            files = self.tls.files_of("etcd-client")
            lines = [self.etcd.endpoint]
            if files is not None:
                lines += [files.authorities, files.certificate, files.key]
            (options.data_dir / "etcd-endpoint").write_text("\n".join(lines))
            keeping = keep_running("etcd", self.etcd, EmbeddedEtcdError, self._warn)
            self._tasks.start(keeping, "keep etcd", endless=True)
        self._tell(counted(options.api_servers, "API server"))
        for index in range(options.api_servers):
            self.api_servers.append(await self._spawn(self.specs.api_server(index)))
        if options.agent and (options.nodes or options.agent_arguments):
            self._tell(f"agent with {counted(options.nodes, 'hollow node')}")
            self.agent = await self._spawn(self.specs.agent())
        if self._starting_ray is not None:
            if not self._starting_ray.done():
                self._tell("Ray takes some seconds")
            await self._starting_ray
        self._tell(counted(options.replicas, "scheduler replica"))
        for index in range(options.replicas):
            await self.add_replica(index)
        await asyncio.gather(*(process.wait_ready() for process in self.processes))

    async def _start_ray(self, ray: LocalRay) -> None:
        runs = True
        try:
            await ray.start()
        except RayStartError as exc:
            self._warn(f"{exc}; evaluating nodes locally, and trying again")
            runs = False
        keeping = keep_running(
            "Ray",
            ray,
            RayStartError,
            self._warn,
            runs=runs,
            longest_pause=LONGEST_RAY_PAUSE,
        )
        self._tasks.start(keeping, "keep Ray", endless=True)

    async def _spawn(self, spec: ProcessSpec) -> ManagedProcess:
        process = ManagedProcess(spec, self.log_dir, self._tasks)
        await process.start()
        return process

    def replica_of(self, identity: str) -> ManagedProcess:
        """Return the process with an identity. Raises ``LookupError``."""
        name = identity.rpartition("_")[0]
        for process in self.schedulers:
            if process.spec.name == name:
                return process
        raise LookupError(f"no replica of this cluster has the identity {identity}")

    async def add_replica(self, index: int) -> ManagedProcess:
        """Start a scheduler replica named scheduler-<index>."""
        process = await self._spawn(self.specs.scheduler(index, self.ray))
        self.schedulers.append(process)
        return process

    async def wait(self) -> None:
        """Wait until a task that keeps a process running fails, which is a bug; raise its error."""
        await self._tasks.run()

    async def stop(self) -> None:
        """Stop everything: schedulers, agent, API servers, Ray, etcd."""
        if self._starting_ray is not None:
            self._starting_ray.cancel()
            await asyncio.gather(self._starting_ray, return_exceptions=True)
        grace = self.specs.options.grace
        await asyncio.gather(*(p.stop(grace) for p in self.schedulers))
        if self.agent is not None:
            await self.agent.stop(grace)
        await asyncio.gather(*(p.stop(grace) for p in self.api_servers))
        # Before Ray and etcd, which these tasks would start again.
        await self._tasks.stop()
        if self.ray is not None:
            await self.ray.stop()
        if self.etcd is not None:
            await self.etcd.stop()
