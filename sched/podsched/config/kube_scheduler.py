"""KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, field by field, with its defaults.

These models mirror the file. The scheduler runs with the resolved ``profiles.Profile`` and
``load.SchedulerConfiguration``. Source: k8s.io/kube-scheduler/config/v1 and its defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from podsched.config.errors import FieldError, invalid, required
from podsched.config.extenders import Extender, extender_errors
from podsched.config.model import Duration, Int32, Int64, ListOf, Model, join, unless_empty
from podsched.config.plugins import ExtensionPoint
from podsched.config.queues import QueuesConfiguration

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


class PluginRef(Model):
    """A plugin to enable or disable."""

    name: str = ""
    weight: Int32 | None = None
    """Used if the plugin scores; unset or 0 means 1."""


class PluginSet(Model):
    """Plugins enabled and disabled at one extension point."""

    enabled: ListOf[PluginRef] = ()
    disabled: ListOf[PluginRef] = ()


class Plugins(Model):
    """Plugins enabled and disabled at each extension point, and at all of them (multiPoint)."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def at(self, point: ExtensionPoint) -> PluginSet:
        """Return the set of one extension point."""
        found: PluginSet = getattr(self, point.name.lower())
        return found


class PluginConfig(Model):
    """Arguments of one plugin."""

    name: str = ""
    args: Any = None
    """A plain object as read; the plugin's model after the profile is resolved."""


class KubeSchedulerProfile(Model):
    """One profile as written."""

    scheduler_name: str | None = None
    """The profile schedules the pods with this spec.schedulerName."""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: ListOf[PluginConfig] = ()


class LeaderElectionConfiguration(Model):
    """Leader election as written; ``LeaderElectionSettings`` validates it."""

    leader_elect: bool = True
    lease_duration: Annotated[Duration, unless_empty(15.0)] = 15.0
    renew_deadline: Annotated[Duration, unless_empty(10.0)] = 10.0
    retry_period: Annotated[Duration, unless_empty(2.0)] = 2.0
    resource_lock: Annotated[str, unless_empty("leases")] = "leases"
    resource_name: Annotated[str, unless_empty("kube-scheduler")] = "kube-scheduler"
    resource_namespace: Annotated[str, unless_empty("kube-system")] = "kube-system"


class ClientConnectionConfiguration(Model):
    """qps and burst of requests to a Kubernetes cluster; other fields are accepted and ignored."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: Annotated[str, unless_empty("application/vnd.kubernetes.protobuf")] = (
        "application/vnd.kubernetes.protobuf"
    )
    qps: Annotated[float, unless_empty(50.0)] = 50.0
    burst: Annotated[Int32, unless_empty(100)] = 100


class KubeSchedulerConfiguration(Model):
    """The whole file, without apiVersion and kind."""

    parallelism: Int32 = 16
    """Accepted and ignored: nodes are evaluated as columns, all at once."""
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = False
    """Whether to serve /debug/pprof/goroutine, which shows internals. kube-scheduler: true."""
    enable_contention_profiling: bool | None = None
    """Unset: like enableProfiling."""
    percentage_of_nodes_to_score: Int32 | None = None
    """Unset: score every feasible node. 0: kube-scheduler's adaptive percentage."""
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    delay_cache_until_active: bool = False
    profiles: ListOf[KubeSchedulerProfile] = Field(default=())
    extenders: ListOf[Extender] = ()
    queues: QueuesConfiguration = QueuesConfiguration()
    """Job queues; not in kube-scheduler's configuration."""

    def errors(self, path: str) -> Iterator[FieldError]:
        """Yield all errors except those of profiles, which ``resolve_profiles`` checks."""
        yield from self._number_errors(path)
        if (burst := self.client_connection.burst) < 0:
            yield invalid(join(path, "clientConnection", "burst"), burst, "must be non-negative")
        yield from percentage_errors(path, self.percentage_of_nodes_to_score)
        yield from self.queues.errors(join(path, "queues"))
        yield from extender_errors(self.extenders, join(path, "extenders"))

    def _number_errors(self, path: str) -> Iterator[FieldError]:
        if self.parallelism <= 0:
            reason = "should be an integer value greater than zero"
            yield invalid(join(path, "parallelism"), self.parallelism, reason)
        initial, longest = self.pod_initial_backoff_seconds, self.pod_max_backoff_seconds
        if initial <= 0:
            yield invalid(join(path, "podInitialBackoffSeconds"), initial, "must be greater than 0")
        if longest < initial:
            reason = "must be greater than or equal to PodInitialBackoffSeconds"
            yield invalid(join(path, "podMaxBackoffSeconds"), longest, reason)


def percentage_errors(path: str, percentage: int | None) -> Iterator[FieldError]:
    """Yield the errors of the percentageOfNodesToScore of a file or profile."""
    if percentage is not None and not 0 <= percentage <= 100:
        here = join(path, "percentageOfNodesToScore")
        yield invalid(here, percentage, "not in valid range [0-100]")


def header_errors(document: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors in apiVersion and kind; both may be missing, but not only one."""
    header = {"kind": KIND, "apiVersion": API_VERSION}
    given = {name: document[name] for name in header if document.get(name) is not None}
    for name, wanted in header.items() if given else ():
        if name not in given:
            yield required(name)
        elif given[name] != wanted:
            yield invalid(name, given[name], f"must be {wanted}")
