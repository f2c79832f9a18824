"""Settings of podsched's processes beyond KubeSchedulerConfiguration, explained field by field.

Settings of a single layer live in that layer (``serve.store.connection.EtcdOptions``,
``serve.server.settings.ServerSettings``). All are read once, in ``app``, and passed on as objects.
Times are in seconds. Constructing an object raises ``ConfigError`` with all errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, get_args
from urllib.parse import urlsplit

from podsched.api.hollow_nodes import BadDevicesError, parse_devices
from podsched.api.quantity import QuantityError, parse
from podsched.config.errors import ConfigError, FieldError, invalid, not_supported, required
from podsched.config.flags import flag
from podsched.lib.network import http_url
from podsched.telemetry.logs import LogFormat

Evaluator = Literal["auto", "local", "ray"]
BinderChoice = Literal["auto", "direct", "ray"]
#: Accelerators of decisions (``decide``), in this order: kept evaluations, several pods placed from
#: one evaluation, columns shared by evaluations, pods that differ only in requests decided without
#: their own evaluation, and evaluations by Ray actors.
Accelerator = StrEnum("Accelerator", ["INCREMENTAL", "LOOKAHEAD", "SHARED", "VARIANTS", "REMOTE"])
LogLevel = Literal["debug", "info", "warning", "error"]
#: Min bytes of a decision log. It is a ring of files, which would otherwise be very small.
MIN_DECISION_LOG = 1 << 20
_MAX_PORT = 65535
_CONTROLLERS, _NODES, _OBSERVABILITY = "Controllers", "Nodes", "Observability"


class _Checked:
    """Base of settings that validate themselves on construction."""

    __slots__ = ()

    def __post_init__(self) -> None:
        if found := list(self._errors()):
            raise ConfigError(found)

    def _errors(self) -> Iterator[FieldError]:
        raise NotImplementedError

    def _one_of(self, name: str, allowed: Iterable[str]) -> Iterator[FieldError]:
        if getattr(self, name) not in allowed:
            yield not_supported(name, getattr(self, name), allowed)

    def _positive(self, *names: str) -> Iterator[FieldError]:
        for name in names:
            if not getattr(self, name) > 0:  # true of NaN, too
                yield invalid(name, getattr(self, name), "must be greater than zero")

    def _not_negative(self, *names: str) -> Iterator[FieldError]:
        for name in names:
            if not getattr(self, name) >= 0:
                yield invalid(name, getattr(self, name), "must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings(_Checked):
    """Logs, traces and the health server of a process."""

    log_format: LogFormat = flag(
        "text",
        "FORMAT",
        _OBSERVABILITY,
        names="--log-format --logging-format",
        envvar="SCHED_LOG_FORMAT",
    )
    """Log format: text or json.

    text for people, json for machines: one object per line.
    """
    log_level: LogLevel = flag("info", "LEVEL", _OBSERVABILITY, envvar="SCHED_LOG_LEVEL")
    """Minimum log level: debug, info, warning or error."""
    log_modules: tuple[tuple[str, str], ...] = ()
    """Levels of components: pattern of names, level."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that the user has set; the metrics show which are in effect."""
    disabled_metrics: frozenset[str] = frozenset()
    """Names of metrics that /metrics leaves out."""
    otlp_endpoint: str = flag("", "URL", _OBSERVABILITY, envvar="OTEL_EXPORTER_OTLP_ENDPOINT")
    """OTLP/gRPC endpoint for traces, such as http://host:4317. No tracing without it."""
    trace_sample_ratio: float = 0.01
    """Fraction of scheduling attempts to trace. A traced attempt costs about 0.1 ms, so tracing all
    of 10,000 per second would take a whole core; 1 is for debugging."""
    health_host: str = "127.0.0.1"
    """Address of /healthz, /metrics and /configz. Loopback, because they have no authentication."""
    health_port: int = 0
    """Their port; 0 picks a free one. kube-scheduler's is 10259."""
    open_paths: tuple[str, ...] = ()
    """Paths that clients without a certificate may read over HTTPS, in addition to the probes; one
    that ends with * is a prefix."""

    def _errors(self) -> Iterator[FieldError]:
        yield from self._one_of("log_format", get_args(LogFormat))
        yield from self._one_of("log_level", get_args(LogLevel))
        if self.otlp_endpoint and http_url(self.otlp_endpoint) is None:
            reason = "must be a URL such as http://collector:4317"
            yield invalid("otlp_endpoint", self.otlp_endpoint, reason)
        if not 0 <= self.trace_sample_ratio <= 1:
            yield invalid("trace_sample_ratio", self.trace_sample_ratio, "not in [0, 1]")
        if not self.health_host:
            yield required("health_host")
        if not 0 <= self.health_port <= _MAX_PORT:
            yield invalid("health_port", self.health_port, f"not in [0, {_MAX_PORT}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings(_Checked):
    """Where nodes are filtered and scored."""

    evaluator: Evaluator = flag("auto")
    """Where nodes are filtered and scored: in this process (local), in Ray actors while there are
    any (ray), or in Ray actors for very large clusters only (auto).

    auto: ray from ``ray_from_nodes`` nodes on.
    """
    ray_address: str = flag("", "HOST:PORT", envvar="RAY_ADDRESS")
    """Ray cluster to join."""
    ray_from_nodes: int = 50_000
    """Number of nodes from which auto uses Ray. The first evaluation of a class, locally and with
    Ray, took 1.6 and 4.4 ms for 5,000 nodes, 5.8 and 11 ms for 20,000, 60 and 28 ms for 100,000
    (2 shards on 2 busy cores)."""
    shards: int = flag(0, "N", names="--ray-shards", min=0)
    """Number of evaluator actors; 0: one per CPU of Ray.

    At most 16 unless a number is given.
    """
    ray_call_timeout: float = 1.0
    """Timeout of an evaluation by actors, after which it is repeated locally. A shard of 100,000
    rows takes 10 ms, so an actor that takes this long hangs."""
    ray_retry_period: float = 5.0
    """Interval between attempts to reconnect to a lost Ray cluster."""
    binder: BinderChoice = "auto"
    """ray: bind through actors while there are any; direct: through this process's connection;
    auto: like the evaluator."""
    without: tuple[Accelerator, ...] = flag(())
    """Turn off an accelerator of decisions, to measure what it saves; may be repeated.

    The decisions are the same.
    """

    def _errors(self) -> Iterator[FieldError]:
        yield from self._one_of("evaluator", get_args(Evaluator))
        yield from self._one_of("binder", get_args(BinderChoice))
        yield from self._not_negative("ray_from_nodes", "shards")
        yield from self._positive("ray_call_timeout", "ray_retry_period")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings(_Checked):
    """Settings of a scheduler replica beyond its KubeSchedulerConfiguration."""

    api_endpoints: tuple[str, ...] = ("127.0.0.1:7443",)
    """Addresses of API servers ("host:port"); the next one is used when one fails."""
    identity: str = flag("", "NAME")
    """Name of this replica, to which a random suffix is added. Default: the host name."""
    leader_priority: int = flag(0, "N")
    """A leader hands over to a warm standby of higher priority."""
    evaluation: EvaluatorSettings = EvaluatorSettings()
    """Where nodes are evaluated."""
    max_batch: int = 256
    """Max number of pods popped at once. A larger one saves little, and delays events longer."""
    pod_max_in_unschedulable_pods_duration: float = 300.0
    """Time after which an unschedulable pod is retried without an event."""
    audit_period: float = 1.0
    """Interval at which an idle leader looks for unschedulable pods that would fit; 0: never."""
    decision_log: str = flag("memory", "DIR|memory|off", "Decisions")
    """Where decisions are kept for sched decisions and sched explain: a directory of this replica's
    own, memory (the last 16Mi), or off.

    The default writes no files; decisions in memory are lost when the process ends.
    """
    decision_log_size: int = 0
    """Bytes kept at most; 0: 256 MiB in a directory, 16 MiB in memory. A decision takes 40 bytes
    among thousands, and 300 alone."""
    require_queue: str = flag("", "NAMESPACES")
    """Namespaces, separated by commas, whose pods are scheduled only if they are in a queue; "*"
    for all but kube-system. In addition to queues.requireQueue of the configuration."""

    def _errors(self) -> Iterator[FieldError]:
        yield from _endpoint_errors(self.api_endpoints)
        yield from self._positive("max_batch", "pod_max_in_unschedulable_pods_duration")
        yield from self._not_negative("audit_period")
        if not self.decision_log:
            yield required("decision_log")
        size = self.decision_log_size
        if size and size < MIN_DECISION_LOG:
            yield invalid("decision_log_size", size, f"must be at least {MIN_DECISION_LOG}")


#: kube-controller-manager's names of the controllers, by their names in metrics.
CONTROLLERS: Mapping[str, str] = {
    **{
        name: f"{name}-controller"
        for name in (
            "device-taint-eviction",
            "disruption",
            "ephemeral-volume",
            "garbage-collector",
            "job",
            "namespace",
            "node-lifecycle",
            "pod-garbage-collector",
            "podgroup-protection",
            "replicaset",
            "root-ca-certificate-publisher",
            "serviceaccount",
            "taint-eviction",
            "ttl-after-finished",
        )
    },
    "resource-claim": "resourceclaim-controller",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings(_Checked):
    """Settings of the controllers, with kube-controller-manager's names and defaults."""

    node_monitor_period: float = flag(5.0, "SECONDS", _CONTROLLERS)
    """Interval at which the nodes' heartbeats are checked."""
    node_monitor_grace_period: float = flag(50.0, "SECONDS", _CONTROLLERS)
    """Time without a heartbeat after which a node is marked unreachable."""
    node_eviction_rate: float = flag(0.1, "RATE", _CONTROLLERS)
    """Unreachable nodes per second that get a NoExecute taint, in a healthy zone.

    The first gets it at once.
    """
    terminated_pod_gc_threshold: int = flag(12_500, "N", _CONTROLLERS)
    """Finished pods to keep before the oldest are deleted; 0 keeps all."""
    pod_gc_period: float = 20.0
    """Interval of the pod garbage collection."""
    job_gangs: bool = False
    """Whether to make PodGroups of Jobs whose pods start together (gate WorkloadWithJob)."""
    controllers: tuple[str, ...] = flag(("*",), "NAME,-NAME,*", _CONTROLLERS)
    """Controllers that the leader runs, as kube-controller-manager's flag: * are all, -NAME is one
    that it does not run.

    replicaset-controller, job-controller and ttl-after-finished-controller rest while a
    kube-controller-manager holds its Lease, except those that are named here.
    """

    def runs(self, controller: str, *, elsewhere: bool = False) -> bool:
        """Return whether a controller runs.

        controller: its name in metrics. elsewhere: whether a kube-controller-manager may run it.
        """
        name = CONTROLLERS[controller]
        for given in self.controllers:
            if given in (name, f"-{name}"):
                return given == name
        return "*" in self.controllers and not elsewhere

    def _errors(self) -> Iterator[FieldError]:
        yield from self._positive(
            "node_monitor_period",
            "node_monitor_grace_period",
            "node_eviction_rate",
            "pod_gc_period",
        )
        yield from self._not_negative("terminated_pod_gc_threshold")
        for given in self.controllers:
            name = given.removeprefix("-")
            if given != "*" and name not in CONTROLLERS.values():
                yield not_supported("controllers", given, ("*", *sorted(CONTROLLERS.values())))
        if self.node_monitor_grace_period <= self.node_monitor_period:
            grace = self.node_monitor_grace_period
            reason = f"must be greater than node_monitor_period ({self.node_monitor_period:g})"
            yield invalid("node_monitor_grace_period", grace, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings(_Checked):
    """Settings of one agent and its hollow nodes."""

    api_endpoints: tuple[str, ...] = ("127.0.0.1:7443",)
    """Addresses of API servers ("host:port")."""
    nodes: int = flag(0, "N", _NODES, min=0)
    """Number of hollow nodes to register.

    They have the shape below, in addition to those from manifests.
    """
    node_cpu: str = flag("4", "QUANTITY", _NODES)
    """CPU of each node."""
    node_memory: str = flag("32Gi", "QUANTITY", _NODES)
    """Memory of each node."""
    node_pods: int = flag(110, "N", _NODES, min=1)
    """Maximum number of pods per node.

    kubelet's default.
    """
    node_devices: tuple[str, ...] = flag((), "COUNTxDRIVER[:SHAPE][,...]", _NODES)
    """Devices of each node, such as 8xh100.example.com; shapes are gpu (the default), mig and nic.

    Published as ResourceSlices, with a DeviceClass of the driver's name. Nodes from manifests have
    them in the annotation podsched.io/devices.
    """
    node_name_prefix: str = flag("node-", "PREFIX", _NODES, names="--node-prefix")
    """Node name prefix.

    A number follows it.
    """
    zones: tuple[str, ...] = flag((), "ZONE[,...]", _NODES)
    """Zones of the nodes, assigned in turn.

    Values of the label topology.kubernetes.io/zone. Empty: no such label.
    """
    adopt: bool = flag(False, "", _NODES)
    """Also act as nodes that others have registered.

    Those that others register later, too.
    """
    heartbeat_period: float = flag(10.0, "SECONDS", names="--heartbeat")
    """Interval between a node's heartbeats.

    kubelet's nodeLeaseDurationSeconds / 4.
    """
    run_delay: float = flag(0.0, "SECONDS")
    """Time from a pod's binding until it is Running."""
    job_seconds: float = flag(5.0, "SECONDS")
    """Time after which a pod of a Job succeeds, unless its annotation podsched.io/run-seconds says
    another one."""
    volume_controller: bool = True
    """Whether to bind claims to volumes and to provision volumes, which exist as objects only."""
    provisioners: tuple[str, ...] = ("podsched.io/hollow",)
    """Provisioners of StorageClasses that the volume controller plays."""

    def _errors(self) -> Iterator[FieldError]:
        yield from _endpoint_errors(self.api_endpoints)
        yield from self._not_negative("nodes", "run_delay", "job_seconds")
        yield from self._positive("node_pods", "heartbeat_period")
        if not self.node_name_prefix:
            yield required("node_name_prefix")
        for name in ("node_cpu", "node_memory"):
            try:
                parse(getattr(self, name))
            except QuantityError as why:
                yield invalid(name, getattr(self, name), str(why))
        if self.node_devices:
            try:
                parse_devices(",".join(self.node_devices))
            except BadDevicesError as why:
                yield invalid("node_devices", ",".join(self.node_devices), str(why))


def _endpoint_errors(endpoints: Iterable[str]) -> Iterator[FieldError]:
    """Yield errors unless there are endpoints and each is "host:port" (IPv6 in brackets)."""
    at = -1
    for at, endpoint in enumerate(endpoints):
        try:
            parts = urlsplit(f"//{endpoint}")
            good = bool(parts.hostname and parts.port) and parts.netloc == endpoint
        except ValueError:
            good = False
        if not good or "@" in endpoint:
            yield invalid(f"api_endpoints[{at}]", endpoint, "must be host:port")
    if at < 0:
        yield required("api_endpoints", "at least one endpoint is needed")
