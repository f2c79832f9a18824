"""Settings of podsched's processes beyond KubeSchedulerConfiguration, explained field by field.

What belongs to one layer alone is set where it is used (``store.endpoints.EtcdOptions``,
``server.settings.ServerSettings``); here is what concerns a process as a whole. All are read once,
in ``app``, and passed on as objects. Times are seconds. Constructing one raises ConfigError with
every mistake found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from podsched.config.errors import ConfigError, FieldError, invalid, not_supported, required

Evaluator = Literal["auto", "local", "ray"]
EVALUATORS = ("auto", "local", "ray")
BinderChoice = Literal["auto", "direct", "ray"]
BINDERS = ("auto", "direct", "ray")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
_MAX_PORT = 65535


class _Checked:
    """Base of settings that check themselves when they are made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        if found := list(self._errors()):
            raise ConfigError(found)

    def _errors(self) -> Iterator[FieldError]:
        raise NotImplementedError

    def _positive(self, *names: str) -> Iterator[FieldError]:
        for name in names:
            if getattr(self, name) <= 0:
                yield invalid(name, getattr(self, name), "must be greater than zero")

    def _not_negative(self, *names: str) -> Iterator[FieldError]:
        for name in names:
            if getattr(self, name) < 0:
                yield invalid(name, getattr(self, name), "must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings(_Checked):
    """How a process can be seen."""

    log_format: Literal["text", "json"] = "text"
    """text for people, json for machines: one object a line."""
    log_level: str = "info"
    """debug, info, warning or error."""
    otlp_endpoint: str = ""
    """Where traces go, "http://host:4317" (gRPC; https for TLS). Empty: nothing is traced."""
    trace_sample_ratio: float = 0.01
    """Share of scheduling attempts that are traced. A traced attempt costs some 0.1 ms, so that all
    of 10,000 a second would take a whole core; 1 is for debugging."""
    health_host: str = "127.0.0.1"
    """Where /healthz, /metrics and /configz listen. There is no authentication: loopback."""
    health_port: int = 0
    """Their port; 0 takes a free one. kube-scheduler's is 10259."""

    def _errors(self) -> Iterator[FieldError]:
        if self.log_format not in LOG_FORMATS:
            yield not_supported("log_format", self.log_format, LOG_FORMATS)
        if self.log_level not in LOG_LEVELS:
            yield not_supported("log_level", self.log_level, LOG_LEVELS)
        if self.otlp_endpoint and urlsplit(self.otlp_endpoint).scheme not in ("http", "https"):
            reason = "must begin with http:// or https://"
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

    evaluator: Evaluator = "auto"
    """local: in this process. ray: by actors, local while they are gone. auto: ray from
    ray_from_nodes on."""
    ray_address: str = ""
    """Address of the Ray cluster to join ("host:port"); empty: the one RAY_ADDRESS names."""
    ray_from_nodes: int = 50_000
    """auto uses Ray from this many nodes on. A class's first evaluation, locally and with Ray, took
    1.6 and 4.4 ms for 5,000 nodes, 5.8 and 11 ms for 20,000, 60 and 28 ms for 100,000 (2 shards on
    2 busy cores)."""
    ray_trials_from_nodes: int = 1_000
    """auto tries preemption with Ray where so many nodes have to be tried at once; ray always
    does. Locally and with Ray that took, at best and with 4 pods a node, 3 and 10 ms for 100 nodes,
    11 and 17 ms for 500, 30 and 22 ms for 1,000, 290 and 160 ms for 5,000; with 20 pods a node 8
    and 12, 40 and 27, 98 and 76, 630 and 310 ms (2 shards on 2 busy cores)."""
    shards: int = 0
    """Evaluator actors; 0: one for each CPU of the Ray cluster, at most 16."""
    ray_call_timeout: float = 1.0
    """How long an evaluation may take before it is done locally; far above any honest one, since
    a shard of 100,000 rows takes 10 ms."""
    ray_retry_period: float = 5.0
    """How often a lost Ray cluster is tried again."""
    binder: BinderChoice = "auto"
    """ray: bind through actors while there are some; direct: through this process's connection;
    auto: as nodes are evaluated."""

    def _errors(self) -> Iterator[FieldError]:
        if self.evaluator not in EVALUATORS:
            yield not_supported("evaluator", self.evaluator, EVALUATORS)
        if self.binder not in BINDERS:
            yield not_supported("binder", self.binder, BINDERS)
        yield from self._not_negative("ray_from_nodes", "ray_trials_from_nodes", "shards")
        yield from self._positive("ray_call_timeout", "ray_retry_period")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings(_Checked):
    """What a replica of the scheduler needs beyond its KubeSchedulerConfiguration."""

    api_endpoints: tuple[str, ...] = ("127.0.0.1:7443",)
    """API servers, "host:port"; the next one is taken when one does not answer."""
    identity: str = ""
    """Name of this replica; empty: host name, "_" and a random id, as kube-scheduler does."""
    evaluation: EvaluatorSettings = EvaluatorSettings()
    """Where nodes are evaluated."""
    max_batch: int = 256
    """Pods popped together at most. More saves little; less lets events in sooner."""
    pod_max_in_unschedulable_pods_duration: float = 300.0
    """After this long a pod is tried again though no event has woken it."""
    plugin_metrics_sample_percent: int = 10
    """Share of the cycles in which each plugin's time is measured."""
    audit_period: float = 1.0
    """How often an idle leader looks for unschedulable pods that would fit; 0: never."""
    audit_sample: int = 64
    """Pods looked at each time."""

    def _errors(self) -> Iterator[FieldError]:
        yield from _endpoint_errors("api_endpoints", self.api_endpoints)
        yield from self._positive(
            "max_batch",
            "pod_max_in_unschedulable_pods_duration",
            "audit_sample",
        )
        yield from self._not_negative("audit_period")
        if not 0 <= self.plugin_metrics_sample_percent <= 100:
            percent = self.plugin_metrics_sample_percent
            yield invalid("plugin_metrics_sample_percent", percent, "not in [0, 100]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings(_Checked):
    """The control loops in the leader; names and defaults are kube-controller-manager's."""

    node_monitor_period: float = 5.0
    """How often the nodes' heartbeats are looked at."""
    node_monitor_grace_period: float = 40.0
    """Silence after which a node's Ready becomes Unknown and it is tainted unreachable."""
    node_eviction_rate: float = 0.1
    """Nodes of a zone that get a NoExecute taint in a second while the zone is healthy; the first
    gets it at once."""
    secondary_node_eviction_rate: float = 0.01
    """The same in a large zone of which unhealthy_zone_threshold is not Ready; 0 in a small one."""
    unhealthy_zone_threshold: float = 0.55
    """Share of a zone's nodes, at least 3, that must not be Ready for the zone to be unhealthy."""
    large_cluster_size_threshold: int = 50
    """Nodes up to which a zone is small."""
    terminated_pod_gc_threshold: int = 12_500
    """Finished pods that may exist before the oldest are deleted; 0: they are never deleted."""
    pod_gc_period: float = 20.0
    """How often leftovers are looked for."""
    pod_gc_quarantine: float = 40.0
    """How long a pod's node, or its owner, must be gone before the pod is deleted."""
    writes_per_second: float = 100.0
    """Evictions and deletions in a second, so that a mistake of the controllers has an end."""

    def _errors(self) -> Iterator[FieldError]:
        yield from self._positive(
            "node_monitor_period",
            "node_monitor_grace_period",
            "node_eviction_rate",
            "pod_gc_period",
            "writes_per_second",
        )
        yield from self._not_negative(
            "secondary_node_eviction_rate",
            "large_cluster_size_threshold",
            "terminated_pod_gc_threshold",
            "pod_gc_quarantine",
        )
        if not 0 < self.unhealthy_zone_threshold <= 1:
            share = self.unhealthy_zone_threshold
            yield invalid("unhealthy_zone_threshold", share, "not in (0, 1]")
        if self.node_monitor_grace_period <= self.node_monitor_period:
            grace = self.node_monitor_grace_period
            reason = f"must be greater than node_monitor_period ({self.node_monitor_period:g})"
            yield invalid("node_monitor_grace_period", grace, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings(_Checked):
    """The hollow nodes of one agent."""

    api_endpoints: tuple[str, ...] = ("127.0.0.1:7443",)
    """API servers, "host:port"."""
    nodes: int = 0
    """Nodes to register in the shape below, beside those of manifests."""
    node_name_prefix: str = "node-"
    """They are called prefix and number."""
    node_cpu: str = "4"
    """Allocatable CPU of each."""
    node_memory: str = "32Gi"
    """Allocatable memory of each."""
    node_pods: int = 110
    """Pods each takes: kubelet's default."""
    heartbeat_period: float = 10.0
    """How often a node renews its heartbeat: kubelet's nodeLeaseDurationSeconds / 4."""
    run_delay: float = 0.0
    """Time from a pod's binding until it is Running."""
    zones: tuple[str, ...] = ()
    """Values of topology.kubernetes.io/zone, given to the nodes in turn; none: no such label."""
    adopt: bool = False
    """Play all nodes of the cluster, also those made by others and later."""
    volume_controller: bool = True
    """Bind claims and volumes, and provision volumes that exist as objects alone."""
    provisioners: tuple[str, ...] = ("podsched.io/hollow",)
    """StorageClasses' provisioners that the volume controller plays; others are left to others."""

    def _errors(self) -> Iterator[FieldError]:
        yield from _endpoint_errors("api_endpoints", self.api_endpoints)
        yield from self._not_negative("nodes", "run_delay")
        yield from self._positive("node_pods", "heartbeat_period")
        for name in ("node_name_prefix", "node_cpu", "node_memory"):
            if not getattr(self, name):
                yield required(name)


def _endpoint_errors(path: str, endpoints: Iterable[str]) -> Iterator[FieldError]:
    """Each endpoint is "host:port", an IPv6 address in brackets; there is at least one."""
    at = -1
    for at, endpoint in enumerate(endpoints):
        try:
            parts = urlsplit(f"//{endpoint}")
            good = bool(parts.hostname and parts.port) and parts.netloc == endpoint
        except ValueError:
            good = False
        if not good or "@" in endpoint:
            yield invalid(f"{path}[{at}]", endpoint, "must be host:port")
    if at < 0:
        yield required(path, "at least one endpoint is needed")
