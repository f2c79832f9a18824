"""Every metric by name, type, labels and buckets, declared once.

Names, labels and buckets of ``scheduler_*``, ``rest_client_*``, ``leader_election_*`` and
``taint_eviction_controller_*`` are those of kube-scheduler v1.36 and its libraries. Metrics that
Kubernetes does not have begin with ``podsched_``. An attribute has its metric's name without the
prefix. docs/observability.md lists those of kube-scheduler that are left out, and why.
"""

from __future__ import annotations

import re
from collections import Counter as Counts

from podsched.telemetry.instruments import (
    Counter,
    Gauge,
    Histogram,
    MetricRegistry,
    exponential_buckets,
)

STABLE, BETA, ALPHA = "[STABLE] ", "[BETA] ", "[ALPHA] "

#: 1 ms to 16.4 s.
ATTEMPT_BUCKETS = exponential_buckets(0.001, 2, 15)
#: 10 ms to 5,243 s.
SLI_BUCKETS = exponential_buckets(0.01, 2, 20)
#: 0.1 ms to 205 ms.
EXTENSION_POINT_BUCKETS = exponential_buckets(0.0001, 2, 12)
#: 10 µs to 22 ms.
PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
#: 0.1 ms to 3.3 s: one call to etcd, Ray or a gRPC server.
CALL_BUCKETS = exponential_buckets(0.0001, 2, 16)
#: The aim is that no lag is above 20 ms.
LAG_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0)
#: 1 to 4,096 items: batches.
BATCH_BUCKETS = exponential_buckets(1, 2, 13)

#: client-go's, in seconds and in bytes.
_REST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE_BUCKETS = (
    64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0
)  # fmt: skip

#: From this many attempts on, pod_scheduling_sli_duration_seconds counts them together.
_MANY_ATTEMPTS = 15


def attempts_label(attempts: int) -> str:
    """Return pod_scheduling_sli_duration_seconds' label ``attempts``: "1" to "14", "15+"."""
    return str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"


class ProcessMetrics:
    """What every process has beside ``process_*`` and ``python_gc_*``."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.goroutines = registry.add(
            Gauge("go_goroutines", "Tasks and threads, which take the place of goroutines.")
        )
        self.event_loop_lag_seconds = registry.add(
            Histogram(
                "podsched_event_loop_lag_seconds",
                "How much later than due the event loop runs a timer, sampled each 10 ms, "
                "each 2 ms while it is busy.",
                (),
                LAG_BUCKETS,
            )
        )
        self.event_loop_own_lag_seconds = registry.add(
            Histogram(
                "podsched_event_loop_own_lag_seconds",
                "The same as far as the process itself used a processor meanwhile; the rest is "
                "what others took.",
                (),
                LAG_BUCKETS,
            )
        )

    def late(self, lag: float, own: float) -> None:
        """Note how late the event loop was, in seconds, and how much of that is its own."""
        self.event_loop_lag_seconds.observe(lag)
        self.event_loop_own_lag_seconds.observe(own)


class BuildMetrics:
    """What runs, and with which features of kube-scheduler."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.build_info = registry.add(
            Gauge(
                "podsched_build_info",
                "1, with the versions of podsched, Python and the kube-scheduler it follows.",
                ("version", "python_version", "kubernetes_version"),
            )
        )
        self.feature_enabled = registry.add(
            Gauge(
                "kubernetes_feature_enabled",
                BETA + "1 if podsched behaves as with the feature gate on, else 0.",
                ("name", "stage"),
            )
        )


class RegistryMetrics:
    """The metrics themselves; those of podsched alone are INTERNAL."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.registered_metrics_total = registry.add(
            Counter(
                "registered_metrics_total",
                BETA + "Metrics of the process.",
                ("stability_level", "deprecated_version"),
            )
        )
        self.disabled_metrics_total = registry.add(
            Counter("disabled_metrics_total", BETA + "Metrics left out of /metrics.")
        )
        self.hidden_metrics_total = registry.add(
            Counter("hidden_metrics_total", BETA + "Metrics hidden as deprecated; always 0.")
        )

    def count(self, registry: MetricRegistry) -> None:
        """Count what a registry has by now."""
        levels = Counts(level_of(one.help) for one in registry.instruments())
        for level, number in levels.items():
            self.registered_metrics_total.labels(level, "").value = number
        self.disabled_metrics_total.labels().value = len(registry.disabled())
        self.hidden_metrics_total.labels().value = 0  # whatever is deprecated is shown


def level_of(help_text: str) -> str:
    """Return the stability level that a help text begins with."""
    found = re.match(r"\[([A-Z]+)\] ", help_text)
    return found.group(1) if found else "INTERNAL"


class SchedulerMetrics:
    """kube-scheduler's metrics, except those of preemption (``PreemptionMetrics``)."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._attempts(registry)
        self._framework(registry)
        self._queue(registry)

    def _attempts(self, registry: MetricRegistry) -> None:
        self.schedule_attempts_total = registry.add(
            Counter(
                "scheduler_schedule_attempts_total",
                STABLE + "Attempts to schedule pods; result: scheduled, unschedulable, error.",
                ("result", "profile"),
            )
        )
        self.scheduling_attempt_duration_seconds = registry.add(
            Histogram(
                "scheduler_scheduling_attempt_duration_seconds",
                STABLE + "Duration of a scheduling attempt: algorithm and binding.",
                ("result", "profile"),
                ATTEMPT_BUCKETS,
            )
        )
        self.scheduling_algorithm_duration_seconds = registry.add(
            Histogram(
                "scheduler_scheduling_algorithm_duration_seconds",
                ALPHA + "Time to choose a node.",
                (),
                ATTEMPT_BUCKETS,
            )
        )
        self.pod_scheduling_sli_duration_seconds = registry.add(
            Histogram(
                "scheduler_pod_scheduling_sli_duration_seconds",
                BETA + "Time from a pod's first entry into the queue until it is bound.",
                ("attempts",),
                SLI_BUCKETS,
            )
        )
        self.pod_scheduling_attempts = registry.add(
            Histogram(
                "scheduler_pod_scheduling_attempts",
                STABLE + "Number of attempts to schedule a pod.",
                (),
                exponential_buckets(1, 2, 5),
            )
        )
        self.pod_scheduled_after_flush_total = registry.add(
            Counter(
                "scheduler_pod_scheduled_after_flush_total",
                ALPHA
                + "Pods bound that no event had woken, only the timeout of unschedulable pods.",
            )
        )

    def _framework(self, registry: MetricRegistry) -> None:
        self.framework_extension_point_duration_seconds = registry.add(
            Histogram(
                "scheduler_framework_extension_point_duration_seconds",
                STABLE + "Time to run all plugins of an extension point.",
                ("extension_point", "status", "profile"),
                EXTENSION_POINT_BUCKETS,
            )
        )
        self.plugin_execution_duration_seconds = registry.add(
            Histogram(
                "scheduler_plugin_execution_duration_seconds",
                ALPHA + "Time to run one plugin at one extension point, sampled.",
                ("plugin", "extension_point", "status"),
                PLUGIN_BUCKETS,
            )
        )
        self.plugin_evaluation_total = registry.add(
            Counter(
                "scheduler_plugin_evaluation_total",
                BETA + "Runs of a plugin at an extension point.",
                ("plugin", "extension_point", "profile"),
            )
        )
        self.volume_scheduling_stage_error_total = registry.add(
            Counter(
                "scheduler_volume_scheduling_stage_error_total",
                ALPHA + "Errors of VolumeBinding; operation: predicate, assume, bind.",
                ("operation",),
            )
        )
        self.permit_wait_duration_seconds = registry.add(
            Histogram(
                "scheduler_permit_wait_duration_seconds",
                BETA + "Time that pods waited at Permit.",
                ("result",),
                ATTEMPT_BUCKETS,
            )
        )
        self.goroutines = registry.add(
            Gauge(
                "scheduler_goroutines",
                BETA + "Running tasks by operation.",
                ("operation",),
            )
        )
        self.set_aside_objects = registry.add(
            Gauge(
                "podsched_set_aside_objects",
                "Objects that the cache cannot use; they are ignored until they change.",
            )
        )
        self.cache_size = registry.add(
            Gauge(
                "scheduler_cache_size",
                ALPHA + "Objects in the cache; type: nodes, pods, assumed_pods.",
                ("type",),
            )
        )

    def _queue(self, registry: MetricRegistry) -> None:
        self.pending_pods = registry.add(
            Gauge(
                "scheduler_pending_pods",
                STABLE + "Pods waiting; queue: active, backoff, unschedulable, gated.",
                ("queue",),
            )
        )
        self.queue_incoming_pods_total = registry.add(
            Counter(
                "scheduler_queue_incoming_pods_total",
                STABLE + "Pods added to the queues, by queue and event.",
                ("queue", "event"),
            )
        )
        self.unschedulable_pods = registry.add(
            Gauge(
                "scheduler_unschedulable_pods",
                BETA + "Unschedulable pods, by the plugin that rejected them.",
                ("plugin", "profile"),
            )
        )
        self.event_handling_duration_seconds = registry.add(
            Histogram(
                "scheduler_event_handling_duration_seconds",
                ALPHA + "Time to handle a cluster event.",
                ("event",),
                EXTENSION_POINT_BUCKETS,
            )
        )
        self.queueing_hint_execution_duration_seconds = registry.add(
            Histogram(
                "scheduler_queueing_hint_execution_duration_seconds",
                ALPHA + "Duration of a plugin's queueing hint; hint: Queue, QueueSkip, Error.",
                ("plugin", "event", "hint"),
                PLUGIN_BUCKETS,
            )
        )
        self.inflight_events = registry.add(
            Gauge(
                "scheduler_inflight_events",
                ALPHA + "Events kept for pods that are being scheduled.",
                ("event",),
            )
        )


class PodGroupMetrics:
    """kube-scheduler's metrics of pod groups; result: scheduled, unschedulable, error, ..."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.schedule_attempts_total = registry.add(
            Counter(
                "scheduler_podgroup_schedule_attempts_total",
                ALPHA + "Attempts to schedule pod groups.",
                ("result", "profile"),
            )
        )
        self.scheduling_attempt_duration_seconds = registry.add(
            Histogram(
                "scheduler_podgroup_scheduling_attempt_duration_seconds",
                ALPHA + "Duration of attempts to schedule pod groups.",
                ("result", "profile"),
                ATTEMPT_BUCKETS,
            )
        )
        self.scheduling_algorithm_duration_seconds = registry.add(
            Histogram(
                "scheduler_podgroup_scheduling_algorithm_duration_seconds",
                ALPHA + "Duration of the decision about a pod group.",
                (),
                ATTEMPT_BUCKETS,
            )
        )


class PreemptionMetrics:
    """Preemption: kube-scheduler's metrics and podsched's own."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.preemption_attempts_total = registry.add(
            Counter("scheduler_preemption_attempts_total", STABLE + "Preemption attempts.")
        )
        self.preemption_victims = registry.add(
            Histogram(
                "scheduler_preemption_victims",
                STABLE + "Victims of a preemption.",
                (),
                exponential_buckets(1, 2, 7),
            )
        )
        self.preemption_goroutines_duration_seconds = registry.add(
            Histogram(
                "scheduler_preemption_goroutines_duration_seconds",
                ALPHA + "Time to carry out a preemption; result: success, error.",
                ("result",),
                SLI_BUCKETS,
            )
        )
        self.preemption_goroutines_execution_total = registry.add(
            Counter(
                "scheduler_preemption_goroutines_execution_total",
                ALPHA + "Preemptions carried out; result: success, error.",
                ("result",),
            )
        )
        self.preemptions_futile_total = registry.add(
            Counter(
                "podsched_preemptions_futile_total",
                "Preemptions after which the preemptor was not bound to the freed node.",
            )
        )


class EvaluationMetrics:
    """Evaluation: batches, rows, Ray, missed wake-ups."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.evaluator_mode = registry.add(
            Gauge("podsched_evaluator_mode", "1 for the evaluator in use: local or ray.", ("mode",))
        )
        self.evaluator_switches_total = registry.add(
            Counter("podsched_evaluator_switches_total", "Changes of the evaluator.", ("to",))
        )
        self.evaluated_rows_total = registry.add(
            Counter(
                "podsched_evaluated_rows_total",
                "Rows (nodes) filtered; kind: full (all rows for a class), changed (since then).",
                ("kind",),
            )
        )
        self.batch_attempts_total = registry.add(
            Counter(
                "scheduler_batch_attempts_total",
                ALPHA + "Pods placed, by whether an equal pod's evaluation was used; result: "
                "no_hint, hint_used.",
                ("profile", "result"),
            )
        )
        self.scheduling_batch_size = registry.add(
            Histogram(
                "podsched_scheduling_batch_size",
                "Pods popped from the queue at once.",
                (),
                BATCH_BUCKETS,
            )
        )
        self.ray_calls_total = registry.add(
            Counter("podsched_ray_calls_total", "Calls of Ray actors.", ("call", "result"))
        )
        self.ray_call_duration_seconds = registry.add(
            Histogram(
                "podsched_ray_call_duration_seconds",
                "Duration of a call of an actor.",
                ("call",),
                CALL_BUCKETS,
            )
        )
        self.ray_actor_restarts_total = registry.add(
            Counter("podsched_ray_actor_restarts_total", "Actors that were replaced.", ("actor",))
        )
        self.audited_pods_total = registry.add(
            Counter("podsched_audited_pods_total", "Unschedulable pods filtered again while idle.")
        )
        self.missed_wakeups_total = registry.add(
            Counter(
                "podsched_missed_wakeups_total",
                "Waiting pods found to fit, by the event that should have woken them.",
                ("event",),
            )
        )


class BindingMetrics:
    """Writes that need leadership."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.async_api_call_execution_total = registry.add(
            Counter(
                "scheduler_async_api_call_execution_total",
                ALPHA + "Calls that write bindings or statuses; result: success, error.",
                ("call_type", "result"),
            )
        )
        self.async_api_call_execution_duration_seconds = registry.add(
            Histogram(
                "scheduler_async_api_call_execution_duration_seconds",
                ALPHA + "Duration of calls that write bindings or statuses.",
                ("call_type", "result"),
                ATTEMPT_BUCKETS,
            )
        )
        self.pending_async_api_calls = registry.add(
            Gauge(
                "scheduler_pending_async_api_calls",
                ALPHA + "Pods whose bindings or statuses wait to be written.",
                ("call_type",),
            )
        )
        self.bind_batch_size = registry.add(
            Histogram("podsched_bind_batch_size", "Pods in one bind call.", (), BATCH_BUCKETS)
        )
        self.bind_duration_seconds = registry.add(
            Histogram(
                "podsched_bind_duration_seconds",
                "Duration of a bind call.",
                ("result",),
                CALL_BUCKETS,
            )
        )
        self.bind_overtaken_total = registry.add(
            Counter(
                "podsched_bind_overtaken_total",
                "Bindings refused as another scheduler had bound to the node since the decision.",
            )
        )
        self.fence_lost_total = registry.add(
            Counter(
                "podsched_fence_lost_total",
                "Writes rejected because the term was over, by operation.",
                ("operation",),
            )
        )


class DecisionMetrics:
    """The decision log."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.dropped = registry.add(
            Counter(
                "podsched_decisions_dropped_total",
                "Decisions that the decision log could not take, or could not write.",
            )
        )
        self.written = registry.add(
            Counter("podsched_decisions_written_total", "Decisions written to the decision log.")
        )
        self.written_bytes = registry.add(
            Counter("podsched_decision_log_bytes_total", "Bytes written to the decision log.")
        )


class ShadowMetrics:
    """Decisions with a shadow configuration."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.decisions = registry.add(
            Counter(
                "podsched_shadow_decisions_total",
                "Bound pods by what a shadow configuration would have made of them.",
                ("result",),
            )
        )


class ConfigMetrics:
    """Configurations that came after the first one."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.reloads = registry.add(
            Counter(
                "podsched_config_reloads_total",
                "Configurations given to a running scheduler: applied, or refused as invalid.",
                ("result",),
            )
        )


class ElectionMetrics:
    """Leader election; ``name`` is the lock's name."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.leader_election_master_status = registry.add(
            Gauge("leader_election_master_status", ALPHA + "1 for the leader, else 0.", ("name",))
        )
        self.leader_election_slowpath_total = registry.add(
            Counter(
                "leader_election_slowpath_total",
                ALPHA + "Renewals that had to read the record first.",
                ("name",),
            )
        )
        self.term = registry.add(
            Gauge("podsched_leader_election_term", "Term that this process leads, else 0.")
        )
        self.transitions = registry.add(
            Gauge("podsched_leader_election_transitions", "Transitions in the record last seen.")
        )
        self.paused = registry.add(
            Gauge("podsched_scheduling_paused", "1 while a leader decides nothing, else 0.")
        )
        self.renew_duration_seconds = registry.add(
            Histogram(
                "podsched_leader_election_renew_duration_seconds",
                "Duration of a renewal.",
                ("result",),
                CALL_BUCKETS,
            )
        )


class HealthMetrics:
    """Results of health checks, served at /metrics/slis as in Kubernetes; ``type`` is the probe."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.healthcheck = registry.add(
            Gauge(
                "kubernetes_healthcheck",
                STABLE + "1 if the check passed when it was last run, else 0.",
                ("name", "type"),
            )
        )
        self.healthchecks_total = registry.add(
            Counter(
                "kubernetes_healthchecks_total",
                STABLE + "Runs of the check by result: success or error.",
                ("name", "type", "status"),
            )
        )

    def ran(self, name: str, probe: str, ok: bool) -> None:
        """Count one run of a check for a probe."""
        self.healthcheck.labels(name, probe).set(float(ok))
        self.healthchecks_total.labels(name, probe, "success" if ok else "error").inc()


class ClientMetrics:
    """The client and its informers, under client-go's names, with HTTP's codes and methods."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.requests_total = registry.add(
            Counter(
                "rest_client_requests_total",
                ALPHA + "Requests to the API server.",
                ("code", "method", "host"),
            )
        )
        self.request_duration_seconds = registry.add(
            Histogram(
                "rest_client_request_duration_seconds",
                ALPHA + "Duration of requests to the API server.",
                ("verb", "host"),
                _REST_BUCKETS,
            )
        )
        self.request_size_bytes = registry.add(
            Histogram(
                "rest_client_request_size_bytes",
                ALPHA + "Size of requests to the API server.",
                ("verb", "host"),
                _SIZE_BUCKETS,
            )
        )
        self.response_size_bytes = registry.add(
            Histogram(
                "rest_client_response_size_bytes",
                ALPHA + "Size of responses of the API server, watches left out.",
                ("verb", "host"),
                _SIZE_BUCKETS,
            )
        )
        self.rate_limiter_duration_seconds = registry.add(
            Histogram(
                "rest_client_rate_limiter_duration_seconds",
                ALPHA + "Time that requests waited for clientConnection.qps.",
                ("verb", "host"),
                _REST_BUCKETS,
            )
        )
        self.request_retries_total = registry.add(
            Counter(
                "rest_client_request_retries_total",
                ALPHA + "Retried requests to the API server.",
                ("code", "verb", "host"),
            )
        )
        self._informer(registry)

    def _informer(self, registry: MetricRegistry) -> None:
        self.informer_relists_total = registry.add(
            Counter(
                "podsched_informer_relists_total",
                "Times the informer had to list again because it missed changes.",
            )
        )
        self.informer_revision = registry.add(
            Gauge(
                "podsched_informer_revision",
                "Revision up to which the informer has seen all changes.",
            )
        )
        self.informer_undecodable = registry.add(
            Gauge(
                "podsched_informer_undecodable_objects",
                "Objects that came and cannot be decoded; they are ignored.",
            )
        )


class ApiServerMetrics:
    """The API server, under kube-apiserver's names where it has one."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.request_total = registry.add(
            Counter(
                "apiserver_request_total",
                STABLE + "Requests, by gRPC status code.",
                ("verb", "resource", "code"),
            )
        )
        self.request_duration_seconds = registry.add(
            Histogram(
                "apiserver_request_duration_seconds",
                STABLE + "Duration of requests except watches.",
                ("verb", "resource"),
                CALL_BUCKETS,
            )
        )
        self.storage_objects = registry.add(
            Gauge("apiserver_storage_objects", STABLE + "Objects stored.", ("resource",))
        )
        self.unreadable_objects = registry.add(
            Gauge(
                "podsched_unreadable_objects",
                "Stored objects that cannot be decoded: in no list, but they can be deleted.",
                ("resource",),
            )
        )
        self.watchers = registry.add(Gauge("podsched_watchers", "Open watch streams."))
        self.watch_events_total = registry.add(
            Counter("podsched_watch_events_total", "Events sent to watchers.")
        )
        self.watchers_dropped_total = registry.add(
            Counter(
                "podsched_watchers_dropped_total",
                "Watch streams closed by the server, by cause.",
                ("cause",),
            )
        )
        self.watch_cache_events = registry.add(
            Gauge("podsched_watch_cache_events", "Changes kept for watches that lag or resume.")
        )
        self.watch_cache_revision = registry.add(
            Gauge("podsched_watch_cache_revision", "Revision that the watch cache has reached.")
        )
        self.etcd_up = registry.add(
            Gauge("podsched_etcd_up", "1 while etcd answers linearizable reads, else 0.")
        )
        self.storage_size_bytes = registry.add(
            Gauge("apiserver_storage_size_bytes", STABLE + "Size of etcd's database.")
        )
        self.compacted_revision = registry.add(
            Gauge(
                "podsched_compacted_revision",
                "Revision up to which this server has compacted etcd; 0 while others do.",
            )
        )
        self._audit(registry)

    def _audit(self, registry: MetricRegistry) -> None:
        self.audit_event_total = registry.add(
            Counter("apiserver_audit_event_total", ALPHA + "Audit events written.")
        )
        self.audit_error_total = registry.add(
            Counter(
                "apiserver_audit_error_total",
                ALPHA + "Audit events dropped; plugin: buffer (too many wait), log (not written).",
                ("plugin",),
            )
        )


class FlowControlMetrics:
    """Fairness in the API server, under the names of kube-apiserver's priority and fairness."""

    def __init__(self, registry: MetricRegistry) -> None:
        flow = ("priority_level", "flow_schema")
        self.dispatched_requests_total = registry.add(
            Counter(
                "apiserver_flowcontrol_dispatched_requests_total",
                BETA + "Requests that got a seat.",
                flow,
            )
        )
        self.rejected_requests_total = registry.add(
            Counter(
                "apiserver_flowcontrol_rejected_requests_total",
                BETA + "Requests that were refused; reason: queue-full, time-out.",
                (*flow, "reason"),
            )
        )
        self.request_wait_duration_seconds = registry.add(
            Histogram(
                "apiserver_flowcontrol_request_wait_duration_seconds",
                BETA + "Time that requests waited for a seat.",
                flow,
                (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
            )
        )
        self.current_inqueue_requests = registry.add(
            Gauge(
                "apiserver_flowcontrol_current_inqueue_requests",
                BETA + "Requests that wait for a seat.",
                flow,
            )
        )
        self.current_executing_seats = registry.add(
            Gauge(
                "apiserver_flowcontrol_current_executing_seats",
                BETA + "Seats taken.",
                flow,
            )
        )
        self.nominal_limit_seats = registry.add(
            Gauge(
                "apiserver_flowcontrol_nominal_limit_seats",
                BETA + "Seats of a priority level; exempt requests need none.",
                ("priority_level",),
            )
        )
        self.shared_part = registry.add(
            Gauge(
                "podsched_flowcontrol_shared_part",
                "Part of the event loop that competing flows may use together.",
            )
        )


class ControllerMetrics:
    """The controllers in the leader."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.pod_deletions_total = registry.add(
            Counter(
                "taint_eviction_controller_pod_deletions_total",
                ALPHA + "Pods deleted because of NoExecute taints.",
            )
        )
        self.pod_deletion_duration_seconds = registry.add(
            Histogram(
                "taint_eviction_controller_pod_deletion_duration_seconds",
                ALPHA + "Time from when a taint takes effect until the pod is deleted.",
                (),
                (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0),
            )
        )
        self.reconciles_total = registry.add(
            Counter(
                "podsched_controller_reconciles_total",
                "Objects checked by a controller; result: unchanged, written, error.",
                ("controller", "result"),
            )
        )


class AgentMetrics:
    """The hollow nodes of one agent."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.nodes = registry.add(Gauge("podsched_agent_nodes", "Hollow nodes of this agent."))
        self.pods = registry.add(
            Gauge("podsched_agent_pods", "Pods on the hollow nodes, by phase.", ("phase",))
        )
        self.heartbeats_total = registry.add(
            Counter("podsched_agent_heartbeats_total", "Heartbeats sent.", ("result",))
        )
