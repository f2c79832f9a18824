"""One run: start the system, inject the planned faults while clients use it, and stop it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from podsched.api.etcd_keys import SYNC
from podsched.app.local_cluster import LocalCluster
from podsched.app.supervisor import ProcessFailed
from podsched.lab.chaos import shapes
from podsched.lab.chaos.faults.kinds import Kind, PlannedFault, plan
from podsched.lab.chaos.history import VERSION
from podsched.lab.chaos.recorder import Recorder
from podsched.lab.chaos.records import Begin, End, FaultMark, Settled
from podsched.lab.chaos.system import System, SystemOptions, audit_log, complaints, counts
from podsched.lab.chaos.workload import Caller, LiveWorld, Workload
from podsched.lib.processes import session_members
from podsched.lib.tasks import TaskSet, task_group
from podsched.serve.client.errors import ClientError
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Put, Write
from podsched.term.controllers.resource_claims import IDLE

#: Seconds after the last fault within which a pod that fits has to be bound.
WITHIN = 30.0
#: Pods that are created after the last fault, and surely fit.
PROBES = 10
#: Seconds without a change after which the system is taken to be quiet, and between looks.
QUIET, LOOK_EVERY = 3.0, 0.2
#: Seconds to make all nodes schedulable after the faults, and for the recorder to see all writes.
_ENDS_WITHIN = 15.0


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of a run: present faults, and the leader.

    now: seconds since the beginning. broken_for: length of the phase with faults in seconds.
    """

    stage: str
    now: float
    broken_for: float
    broken: tuple[str, ...]
    leader: str
    bound: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions(SystemOptions):
    """Options of a run. history: the file to write. tell: called several times a second."""

    seconds: float
    kinds: Mapping[str, Kind]
    history: Path
    tell: Callable[[Status], None] = lambda _: None


class Run:
    """A run."""

    def __init__(self, options: ChaosOptions, tasks: TaskSet) -> None:
        self._options = options
        self._tasks = tasks
        self._system = System(options, tasks)
        self._begin = Begin(
            version=VERSION,
            seed=options.seed,
            minutes=options.seconds / 60,
            faults=tuple(options.kinds),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            within=WITHIN,
        )
        self._live = LiveWorld(self._system, self._begin.lock)
        self._recorder = Recorder(options.history, self._live.see)
        self._recorder.write(self._begin)
        self._broken: dict[int, str] = {}
        self._stage = "starting"
        self._breaking_since = math.inf
        self._sessions: dict[str, int] = {}

    async def run(self) -> None:
        """Carry out the whole run.

        Raises ProcessFailed, StoreError or TimeoutError if the system did not start or could not be
        mended; what was recorded until then is in the file.
        """
        system = self._system
        reporting = self._tasks.start(self._report_status(), "report", endless=True)
        try:
            await system.start()
            store = await system.etcd.connect()
            watching = self._tasks.start(self._recorder.watch(store), "record", endless=True)
            await self._use_during_faults()
            await self._settle()
            self._stage = "stopping"
            self._sessions = dict(_sessions(system.cluster))
            await system.cluster.stop()  # etcd stays: its last revisions are still to be recorded
            await self._catch_up()
            watching.cancel()
            await store.close()
        finally:
            reporting.cancel()
            await self._system.stop()

    async def _report_status(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self._options.tell(
                Status(
                    self._stage,
                    self._recorder.now,
                    max(self._recorder.now - self._breaking_since, 0.0),
                    tuple(self._broken.values()),
                    self._system.leader_identity.rpartition("_")[0],
                    self._live.bound,
                    self._live.waiting,
                )
            )

    async def _use_during_faults(self) -> None:
        """Let clients use the system during the faults."""
        async with self._system.client() as client:
            caller = Caller("workload", client, self._recorder, self._live)
            workload = Workload(caller, client, self._live, self._options.seed)
            await workload.prepare()
            self._stage = "breaking"
            clients = [
                self._tasks.start(client, f"client {name}", endless=True)
                for name, client in workload.clients()
            ]
            try:
                await self._inject_faults()
            finally:
                for task in clients:
                    task.cancel()
                await asyncio.gather(*clients, return_exceptions=True)
            await _uncordon(self._system)

    async def _inject_faults(self) -> None:
        options = self._options
        began = self._breaking_since = self._recorder.now
        faults = plan(options.seed, options.seconds, options.kinds)
        async with task_group() as group:
            for planned in faults:
                await asyncio.sleep(max(began + planned.at - self._recorder.now, 0))
                group.create_task(self._fault(planned), name=f"fault {planned.name}")
            await asyncio.sleep(max(began + options.seconds - self._recorder.now, 0))

    async def _fault(self, planned: PlannedFault) -> None:
        number, name = planned.number, planned.name
        stack = contextlib.AsyncExitStack()
        try:
            fault = self._options.kinds[name].inject(self._system, planned.pick)
            what = await stack.enter_async_context(fault)
        except (LookupError, StoreError, ClientError, OSError) as error:
            self._mark(number, name, failed=str(error) or type(error).__name__)
            return
        self._mark(number, name, what=what)
        self._broken[number] = what
        try:
            await asyncio.sleep(planned.seconds)
        finally:
            failed = ""
            try:
                await stack.aclose()
            except (LookupError, StoreError, ClientError, ProcessFailed, OSError) as error:
                failed = str(error) or type(error).__name__
            finally:
                del self._broken[number]
                self._mark(number, name, what=what, ends=True, failed=failed)

    def _mark(
        self, number: int, name: str, *, what: str = "", ends: bool = False, failed: str = ""
    ) -> None:
        now = self._recorder.now
        mark = FaultMark(at=now, number=number, name=name, what=what, ends=ends, failed=failed)
        self._recorder.write(mark)

    async def _settle(self) -> None:
        """Wait until nothing changes, at most as long as pods that fit may take, and record it.

        Raises ProcessFailed if a process does not become ready again.
        """
        self._stage = "settling"
        live, now = self._live, asyncio.get_running_loop().time
        # A process that gets its SIGTERM while it starts does not end as it should.
        await asyncio.gather(*(process.wait_ready() for process in self._system.cluster.processes))
        async with self._system.direct_client() as client:
            caller = Caller("probe", client, self._recorder, live)
            await caller.create_pods([shapes.plain(f"probe-{i}", "10m") for i in range(PROBES)])
        deadline, quiet_since, seen = now() + WITHIN + 5.0, now(), -1
        while now() - quiet_since < QUIET:
            if now() >= deadline + (IDLE if live.has_unused_claims else 0.0):
                break
            await asyncio.sleep(LOOK_EVERY)
            is_changing = live.bound != seen or live.has_late_pods or live.has_leaving_pods
            if is_changing or live.has_unused_claims:
                quiet_since, seen = now(), live.bound
        replicas = self._system.cluster.schedulers
        assumed = await counts(replicas, "scheduler_cache_size", type="assumed_pods")
        while any(assumed.values()) and now() < deadline + QUIET:
            await asyncio.sleep(LOOK_EVERY)
            assumed = await counts(replicas, "scheduler_cache_size", type="assumed_pods")
        losses = await counts(replicas, "podsched_fence_lost_total")
        self._recorder.write(Settled(at=self._recorder.now, assumed=assumed, fence_losses=losses))

    async def _catch_up(self) -> None:
        """Wait until the recorder has seen all writes. Raises TimeoutError."""
        store = await self._system.etcd.connect()
        try:
            result = await store.write(Write((), (Put(SYNC, b"chaos"),)))
            async with asyncio.timeout(_ENDS_WITHIN):
                await self._recorder.until(result.revision)
        finally:
            await store.close()

    def finish(self, left: Iterable[str]) -> None:
        """Write the end, if it was reached, with the names of tasks left; close the history."""
        if self._sessions:
            self._write_end(left)
        self._recorder.close()

    def _write_end(self, left: Iterable[str]) -> None:
        processes = self._system.cluster.processes
        for server in self._system.cluster.api_servers:
            name = server.spec.name
            self._recorder.fenced_writes(name, audit_log(self._options, name))
        self._recorder.write(
            End(
                at=self._recorder.now,
                exit_codes={p.spec.name: p.exit_code or 0 for p in processes},
                processes=tuple(
                    f"{pid} of {name}"
                    for name, session in self._sessions.items()
                    for pid in session_members(session)
                ),
                tasks=tuple(sorted(left)),
                complaints=tuple(complaints(processes)),
            )
        )


async def _uncordon(system: System) -> None:
    """Make all nodes schedulable; a fault may have kept the client that drains from it."""
    async with system.direct_client() as client, asyncio.timeout(_ENDS_WITHIN):
        while True:
            with contextlib.suppress(ClientError):
                for node in (await client.list("Node")).items:
                    patch = {"spec": {"unschedulable": None}}
                    await client.patch("Node", node.metadata.name, patch)
                return
            await asyncio.sleep(0.5)


def _sessions(cluster: LocalCluster) -> Iterator[tuple[str, int]]:
    """Yield names and sessions of all processes: each leads a session of its own."""
    for process in cluster.processes:
        if process.pid is not None:
            yield process.spec.name, process.pid
    if cluster.ray is not None and cluster.ray.pid is not None:
        yield "ray", cluster.ray.pid


async def run_chaos(options: ChaosOptions) -> None:
    """Run, and write the history. Raises the errors of ``Run.run``."""
    before = asyncio.all_tasks()
    tasks = TaskSet("chaos")
    run = Run(options, tasks)
    tasks.start(run.run(), "run", ended=lambda _: tasks.end())
    try:
        await tasks.run()
    finally:
        run.finish(task.get_name() for task in asyncio.all_tasks() - before)
