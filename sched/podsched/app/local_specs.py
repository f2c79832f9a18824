"""How to start the processes of a local cluster: their arguments, and the addresses in them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from podsched.actors.local_ray import LocalRay
from podsched.app.cluster_tls import ClusterTls
from podsched.app.supervisor import GRACE, Place, ProcessSpec
from podsched.config.flags import flag
from podsched.config.settings import Evaluator
from podsched.lib.files import write_private
from podsched.lib.network import can_listen, free_port, is_loopback
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.kube.access import kubeconfig

#: Environment variables that the user may have set for other clusters. Here options decide about
#: TLS, and etcd has no users.
_UNSET: Mapping[str, str] = dict.fromkeys(
    ("SCHED_TLS_CA", "SCHED_TLS_CERT", "SCHED_TLS_KEY", "SCHED_ETCD_USERNAME"), ""
)

#: Addresses that mean all addresses of this machine, and how this machine reaches them.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


@dataclass(frozen=True, slots=True)
class LocalClusterOptions:
    """Which processes to start, and how."""

    data_dir: Path
    """Where etcd's data and all logs go."""
    replicas: int = flag(3, "N", min=1)
    """Number of scheduler replicas."""
    api_servers: int = flag(1, "N", min=1)
    """Number of API servers."""
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
    insecure_listen: bool = flag(False)
    """Allow listeners without TLS on addresses that other machines can reach."""
    etcd_endpoints: tuple[str, ...] = flag((), "HOST:PORT[,...]")
    """Running etcd to use. Default: start an embedded etcd."""
    fsync: bool = True
    """Whether the embedded etcd syncs its log to disk."""
    keeps_data: bool = False
    """Whether etcd's data is used after the cluster has stopped: then faulty etcds are reported."""
    nodes: int = 0
    """Number of hollow nodes with the resources below."""
    node_cpu: str = flag("4", "QUANTITY")
    """CPU of each node."""
    node_memory: str = flag("32Gi", "QUANTITY")
    """Memory of each node."""
    node_pods: int = flag(110, "N", min=1)
    """Maximum number of pods per node."""
    node_devices: tuple[str, ...] = flag((), "COUNTxDRIVER[:SHAPE][,...]")
    """Devices of each node, such as 8xh100.example.com; shapes are gpu (default), mig and nic."""
    job_seconds: float = flag(5.0, "SECONDS")
    """Time after which a pod of a Job succeeds on the hollow nodes."""
    agent: bool = True
    """False: no agent. It is also left out without ``nodes`` and ``agent_arguments``."""
    agent_arguments: tuple[str, ...] = ()
    api_arguments: tuple[str, ...] = ()
    evaluator: Evaluator = flag("auto")
    """Where nodes are evaluated; local does not start Ray."""
    scheduler_config: Path | None = flag(None, "FILE", names="--config")
    """KubeSchedulerConfiguration file for the replicas."""
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


class LocalSpecs:
    """The specifications of the processes; each API server and the page get their addresses."""

    def __init__(self, options: LocalClusterOptions, tls: ClusterTls) -> None:
        self.options = options
        self._tls = tls
        self.etcd_endpoints = options.etcd_endpoints
        """Known once etcd has started."""
        self.api_addresses: list[str] = []
        self.kubeconfig: Path | None = None
        self.page = ""

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts in new certificates."""
        host = self.options.api_address.rpartition(":")[0].strip("[]")
        named = () if host in _WILDCARDS or is_loopback(host) else (host,)
        return (socket.gethostname(), *named, *self.options.tls_hosts)

    def _server(self, process: str) -> str:
        """Return the API servers' addresses for a process, in the form of ``--server``."""
        return ",".join(self.options.route(process, address) for address in self.api_addresses)

    def api_server(self, index: int) -> ProcessSpec:
        """Choose an address for an API server, and return how to start it."""
        name = f"apiserver-{index}"
        host, _, port = self.options.api_address.rpartition(":")
        if index or port == "0":
            port = str(free_port())
        reached = _WILDCARDS.get(host.strip("[]"), host)
        self.api_addresses.append(f"{reached}:{port}")
        arguments = ["apiserver", f"--listen={host}:{port}", *self._etcd_arguments(name)]
        arguments += [*self._tls.server_arguments(), *self.options.api_arguments]
        if self.options.insecure_listen:
            arguments.append("--insecure-listen")
        if not index and self.options.kube_address:
            self._serve_kube(arguments)
        if not index and self.options.web_address:
            self._serve_page(arguments)
        return self._spec(name, arguments)

    def _serve_kube(self, arguments: list[str]) -> None:
        """Let the first API server serve Kubernetes' REST API, and write a kubeconfig for it."""
        address, reached = _usable(self.options.kube_address)
        arguments.append(f"--kube-listen={address}")
        self.kubeconfig = self.options.data_dir / "kubeconfig"
        write_kubeconfig(self.kubeconfig, reached, self._tls.files_of("admin"))

    def _serve_page(self, arguments: list[str]) -> None:
        """Let the first API server serve the page."""
        address, reached = _usable(self.options.web_address)
        arguments.append(f"--web-listen={address}")
        self.page = f"{'https' if self.options.tls_dir else 'http'}://{reached}/"

    def _spec(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> ProcessSpec:
        """Return how to start a process, with additional variables if given."""
        tls, place, health = self._tls.files_of("admin"), self.options.place(name), free_port()
        environment = {**_UNSET, **self.options.environment, **(environment or {})}
        arguments = [
            *arguments,
            f"--health-listen={place.host}:{health}",
            *self.options.process_arguments(name),
        ]
        return ProcessSpec(name, tuple(arguments), health, environment, tls=tls, place=place)

    def _etcd_arguments(self, process: str) -> list[str]:
        secured = self._tls.etcd_arguments() if not self.options.etcd_endpoints else []
        members = (self.options.route(process, address) for address in self.etcd_endpoints)
        return [f"--etcd-endpoints={','.join(members)}", *secured]

    def scheduler(self, index: int, ray: LocalRay | None) -> ProcessSpec:
        """Return how to start the scheduler replica scheduler-<index>."""
        name, environment = f"scheduler-{index}", None
        arguments = [
            "scheduler",
            *self._cluster_arguments(name),
            f"--identity={name}",
            f"--decision-log={self.decision_log(name)}",
        ]
        if ray is not None and ray.address:
            arguments += [
                f"--evaluator={self.options.evaluator}",
                f"--ray-address={ray.address}",
            ]
            environment = ray.environment
        else:
            arguments.append("--evaluator=local")
        if self.options.scheduler_config is not None:
            arguments.append(f"--config={self.options.scheduler_config}")
        arguments += self.options.scheduler_arguments
        return self._spec(name, arguments, environment)

    def decision_log(self, replica: str) -> Path:
        """Return the directory of a replica's decision log."""
        return self.options.data_dir / "decisions" / replica

    def _cluster_arguments(self, name: str) -> list[str]:
        """Return a replica's arguments for the cluster that it schedules."""
        if self.options.through_kube:
            return [f"--kubeconfig={self.kubeconfig}"]
        return [
            f"--server={self._server(name)}",
            *self._tls.client_arguments("scheduler"),
            *self._etcd_arguments(name),
        ]

    def agent(self) -> ProcessSpec:
        """Return how to start the agent."""
        arguments = [
            "agent",
            f"--server={self._server('agent')}",
            *self._tls.client_arguments("agent"),
            f"--nodes={self.options.nodes}",
            f"--node-cpu={self.options.node_cpu}",
            f"--node-memory={self.options.node_memory}",
            f"--node-pods={self.options.node_pods}",
            f"--node-devices={','.join(self.options.node_devices)}",
            f"--job-seconds={self.options.job_seconds:g}",
            *self.options.agent_arguments,
        ]
        return self._spec("agent", arguments)


def _usable(address: str) -> tuple[str, str]:
    """Return a free address to listen on, and the address to reach it."""
    host, _, port = address.rpartition(":")
    if port == "0" or not can_listen(host.strip("[]"), int(port)):
        port = str(free_port())
    return f"{host}:{port}", f"{_WILDCARDS.get(host.strip('[]'), host)}:{port}"


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
