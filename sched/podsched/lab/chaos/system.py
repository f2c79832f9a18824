"""The system under test: real processes, and a relay on every link between two of them.

    clients, agent      --> API servers
    API servers         --> etcd members
    scheduler replicas  --> API servers, etcd members, each other

There is a relay for each pair (``links``). Replicas in namespaces (``namespaces``) are connected
with the relays by a network that can lose packets. Etcd's members have direct connections, and so
has the recorder of the history to etcd.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.app.supervisor import ManagedProcess, Place
from podsched.lab.chaos import shapes
from podsched.lab.chaos.clocks import Clocks, library
from podsched.lab.chaos.namespaces import HUB, Namespaces
from podsched.lib.network import free_port
from podsched.lib.relay import Relay
from podsched.lib.server_health import SILENCE
from podsched.lib.tasks import TaskSet
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.errors import StoreError
from podsched.serve.store.etcd import EtcdStore, connect
from podsched.serve.store.member import EtcdMember


class EtcdMembers:
    """An etcd cluster whose members can be killed and started again one by one."""

    def __init__(self, data_dir: Path, count: int) -> None:
        peers = [free_port() for _ in range(count)]
        cluster = ",".join(f"etcd-{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self.members = [
            EmbeddedEtcd(
                EmbeddedEtcdOptions(
                    data_dir / f"etcd-{index}",
                    client_port=free_port(),
                    peer_port=peer,
                    name=f"etcd-{index}",
                    cluster=cluster,
                    history="60m",  # the recorder must not miss any
                )
            )
            for index, peer in enumerate(peers)
        ]
        self._known = [EtcdMember(member.endpoint) for member in self.members]

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The members' addresses, host:port."""
        return tuple(member.endpoint.rpartition("/")[2] for member in self.members)

    async def start(self, indices: Sequence[int] | None = None) -> None:
        """Start members, all of them by default. Raises EmbeddedEtcdError."""
        wanted = range(len(self.members)) if indices is None else indices
        await asyncio.gather(*(self.members[index].start() for index in wanted))

    async def stop(self) -> None:
        """Stop all members; acknowledged writes are on disk."""
        for known in self._known:
            await known.close()
        # Not with SIGTERM: etcd's leader looks for a successor first, for 7 s if all others end.
        await asyncio.gather(*(member.kill() for member in self.members))

    async def connect(self) -> EtcdStore:
        """Return a connection that cannot be broken. Raises ``StoreError``."""
        return await connect(EtcdOptions(endpoints=self.endpoints))

    def pid(self, index: int) -> int:
        """Return the process of a member. Raises ``LookupError``."""
        pid = self.members[index].pid
        if pid is None:
            raise LookupError(f"etcd-{index} does not run")
        return pid

    def control(self, index: int) -> EtcdMember:
        """Return the client for a member's maintenance API."""
        return self._known[index]

    async def leader(self) -> int:
        """Return the index of etcd's leader. Raises ``LookupError``."""
        for index, known in enumerate(self._known):
            if self.members[index].pid is None:
                continue
            try:
                own, leader = await known.ids()
            except StoreError:
                continue
            if own == leader:
                return index
        raise LookupError("no member of etcd leads")


REPLICAS, API_SERVERS, MEMBERS = 3, 2, 3
#: Sources of links beside processes: the clients, and replicas on their way to another one.
CLIENT, PEERS = "client", "peers"
#: A process that has not ended after this many seconds is killed, and a promise is broken. Ending
#: takes less than one second, and up to four on a busy machine.
GRACE = 10.0
#: Log texts of unexpected errors.
COMPLAINTS = (
    "Traceback (most recent call last)",
    "Task was destroyed but it is pending",
    "exception was never retrieved",
    "was never awaited",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    """What to start and how.

    data_dir: the directory for all files. namespaces: whether each replica gets a network
    namespace; this process has entered its own. clocks: whether replicas' clocks can be stepped.
    warn: called with warnings for the user, one line each.
    """

    data_dir: Path
    seed: int
    ray: bool = False
    namespaces: bool = False
    clocks: bool = False
    warn: Callable[[str], None] = lambda _: None


class Links:
    """The relays, by source and target."""

    def __init__(self, tasks: TaskSet, seed: int, hub: str) -> None:
        """``hub``: the host on which replicas in network namespaces reach the relays, "" without.

        ``tasks``: for the relays.
        """
        self._tasks = tasks
        self._chance = random.Random(seed)
        self._hub = hub
        self._relays: dict[tuple[str, str], Relay] = {}

    def relay(self, source: str, target: str, address: str) -> Relay:
        """Return the relay from a source to a target, which listens at an address."""
        known = self._relays.get((source, target))
        if known is None:
            apart = self._hub and source.startswith(("scheduler", PEERS))
            host = self._hub if apart else "127.0.0.1"
            known = Relay(address, self._tasks, self._chance.random, host)
            self._relays[source, target] = known
        return known

    def of(self, source: str) -> list[Relay]:
        """Return the relays from one process."""
        return [relay for (known, _), relay in self._relays.items() if known == source]

    def between(self, source: str, target: str) -> list[Relay]:
        """Return the relays between processes whose names begin with these prefixes."""
        return [
            relay
            for (known_source, known_target), relay in self._relays.items()
            if known_source.startswith(source) and known_target.startswith(target)
        ]

    def close(self) -> None:
        for relay in self._relays.values():
            relay.close()


class System:
    """The processes, the links between them, and the leader."""

    def __init__(self, options: SystemOptions, tasks: TaskSet) -> None:
        """``tasks``: for the relays."""
        self._options = options
        replicas = [f"scheduler-{index}" for index in range(REPLICAS)]
        self.namespaces = Namespaces(replicas) if options.namespaces else None
        self.links = Links(tasks, options.seed, HUB if self.namespaces is not None else "")
        self.clocks = Clocks(library(), options.data_dir) if options.clocks else None
        self.etcd = EtcdMembers(options.data_dir, MEMBERS)
        self.cluster = LocalCluster(self._cluster_options(), options.warn)
        self.etcd_lock = asyncio.Lock()
        """Held while members are down: one fault at a time takes them."""
        self.leader_identity = ""
        """Who holds the lock, as the recorder has seen it."""
        self.recorded = 0
        """The last revision that was recorded."""

    def _cluster_options(self) -> LocalClusterOptions:
        return LocalClusterOptions(
            data_dir=self._options.data_dir,
            replicas=REPLICAS,
            api_servers=API_SERVERS,
            etcd_endpoints=self.etcd.endpoints,
            agent_arguments=(f"--manifests={shapes.NODES}", "--heartbeat=5"),
            evaluator="ray" if self._options.ray else "local",
            route=self._route,
            process_arguments=self._arguments,
            place=self._place,
            grace=GRACE,
        )

    def _place(self, process: str) -> Place:
        if not process.startswith("scheduler"):
            return Place()
        clock = self.clocks.environment(process) if self.clocks is not None else {}
        if self.namespaces is None:
            return Place(environment=clock)
        return Place(self.namespaces.address(process), self.namespaces.launcher(process), clock)

    def _route(self, process: str, address: str) -> str:
        """Return the address at which a process reaches an etcd member or API server."""
        etcd, servers = self.etcd.endpoints, self.cluster.specs.api_addresses
        at_etcd = address in etcd
        name = f"etcd-{etcd.index(address)}" if at_etcd else f"apiserver-{servers.index(address)}"
        return self.links.relay(process, name, address).address

    def _arguments(self, process: str) -> Sequence[str]:
        if process.startswith("scheduler"):
            address = f"{self._place(process).host}:{free_port()}"
            relay = self.links.relay(PEERS, process, address)
            peers = (f"--listen-peers={address}", f"--advertise-peers={relay.address}")
            # Only this run is in its network namespaces.
            return peers if self.namespaces is None else (*peers, "--insecure-listen")
        if process.startswith("apiserver"):
            log = f"--audit-log={audit_log(self._options, process)}"
            return (log, f"--audit-policy={shapes.AUDIT_POLICY}")
        return ()

    async def start(self) -> None:
        """Start everything and wait until it is ready.

        Raises ProcessFailed or EmbeddedEtcdError when a process failed and all others were stopped.
        """
        try:
            if self.namespaces is not None:
                await self.namespaces.make()
            await self.etcd.start()
            await self.cluster.start()
        except BaseException:
            await self.etcd.stop()
            raise

    async def stop(self) -> None:
        await self.cluster.stop()
        self.links.close()
        await self.etcd.stop()
        if self.clocks is not None:
            self.clocks.close()

    def process(self, name: str) -> ManagedProcess:
        """Return a process by its name. Raises ``LookupError``."""
        for process in self.cluster.processes:
            if process.spec.name == name:
                return process
        raise LookupError(f"there is no process {name}")

    @property
    def leader(self) -> str:
        """The name of the replica that leads. Raises ``LookupError``."""
        if not self.leader_identity:
            raise LookupError("no replica leads")
        return self.cluster.replica_of(self.leader_identity).spec.name

    @property
    def standbys(self) -> list[str]:
        """The names of the other replicas."""
        leader = self.leader
        names = (process.spec.name for process in self.cluster.schedulers)
        return [name for name in names if name != leader]

    def client(self) -> ApiClient:
        """Return a client of the API servers, whose links can be broken."""
        addresses = [self._route(CLIENT, address) for address in self.cluster.specs.api_addresses]
        return ApiClient(addresses, ClientOptions(silence=SILENCE))

    def direct_client(self) -> ApiClient:
        """Return a client whose links cannot be broken."""
        return ApiClient(self.cluster.server)


def audit_log(options: SystemOptions, server: str) -> Path:
    """Return the file of an API server's audit log of fenced calls."""
    return options.data_dir / f"{server}.audit.jsonl"


def complaints(processes: Iterable[ManagedProcess]) -> Iterable[str]:
    """Yield the lines of logs about unexpected errors."""
    for process in processes:
        text = process.log_path.read_text(errors="replace") if process.log_path.exists() else ""
        for line in text.splitlines():
            if any(complaint in line for complaint in COMPLAINTS):
                yield f"{process.spec.name}: {line.strip()[:200]}"


async def counts(replicas: Sequence[ManagedProcess], metric: str, **labels: str) -> dict[str, int]:
    """Return the value of a metric in each replica."""
    values = await asyncio.gather(
        *(replica.health.metric(metric, **labels) for replica in replicas)
    )
    return {of.spec.name: int(value) for of, value in zip(replicas, values, strict=True)}
