"""Every metric by name, type, labels and buckets, declared once.

Names, labels and buckets of ``scheduler_*``, ``rest_client_*``, ``leader_election_*`` and
``taint_eviction_controller_*`` are those of kube-scheduler v1.36 and its libraries. Metrics that
Kubernetes does not have begin with ``podsched_``. docs/observability.md lists all, and those of
kube-scheduler that are left out, with the reason.
"""

from __future__ import annotations

import re
from collections import Counter as Counts

from podsched.telemetry.instruments import (
    MetricRegistry,
    MetricSet,
    counter,
    exponential_buckets,
    gauge,
    histogram,
)

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
#: Of the controllers that evict pods because of taints.
_EVICTION_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0)

#: From this many attempts on, pod_scheduling_sli_duration_seconds counts them together.
_MANY_ATTEMPTS = 15


def attempts_label(attempts: int) -> str:
    """Return pod_scheduling_sli_duration_seconds' label ``attempts``: "1" to "14", "15+"."""
    return str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"


class ProcessMetrics(MetricSet):
    """What every process has beside ``process_*`` and ``python_gc_*``."""

    goroutines = gauge("go_goroutines")
    """Tasks and threads, which take the place of goroutines."""
    event_loop_lag_seconds = histogram("podsched_event_loop_lag_seconds", LAG_BUCKETS)
    """How much later than due the event loop runs a timer, sampled each 10 ms, each 2 ms while it
    is busy."""
    event_loop_own_lag_seconds = histogram("podsched_event_loop_own_lag_seconds", LAG_BUCKETS)
    """The same as far as the process itself used a processor meanwhile; the rest is what others
    took."""

    def late(self, lag: float, own: float) -> None:
        """Note how late the event loop was, in seconds, and how much of that is its own."""
        self.event_loop_lag_seconds.observe(lag)
        self.event_loop_own_lag_seconds.observe(own)


class BuildMetrics(MetricSet):
    """What runs, and with which features of kube-scheduler."""

    build_info = gauge("podsched_build_info{version,python_version,kubernetes_version}")
    """1, with the versions of podsched, Python and the kube-scheduler it follows."""
    feature_enabled = gauge("kubernetes_feature_enabled{name,stage}")
    """[BETA] 1 if podsched behaves as with the feature gate on, else 0."""


class RegistryMetrics(MetricSet):
    """The metrics themselves; those of podsched alone are INTERNAL."""

    registered_metrics_total = counter(
        "registered_metrics_total{stability_level,deprecated_version}"
    )
    """[BETA] Metrics of the process."""
    disabled_metrics_total = counter("disabled_metrics_total")
    """[BETA] Metrics left out of /metrics."""
    hidden_metrics_total = counter("hidden_metrics_total")
    """[BETA] Metrics hidden as deprecated; always 0."""

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


class SchedulerMetrics(MetricSet):
    """kube-scheduler's metrics, except those of evictions (``PreemptionMetrics``)."""

    schedule_attempts_total = counter("scheduler_schedule_attempts_total{result,profile}")
    """[STABLE] Attempts to schedule pods; result: scheduled, unschedulable, error."""
    scheduling_attempt_duration_seconds = histogram(
        "scheduler_scheduling_attempt_duration_seconds{result,profile}", ATTEMPT_BUCKETS
    )
    """[STABLE] Duration of a scheduling attempt: algorithm and binding."""
    scheduling_algorithm_duration_seconds = histogram(
        "scheduler_scheduling_algorithm_duration_seconds", ATTEMPT_BUCKETS
    )
    """[ALPHA] Time to choose a node."""
    pod_scheduling_sli_duration_seconds = histogram(
        "scheduler_pod_scheduling_sli_duration_seconds{attempts}", SLI_BUCKETS
    )
    """[BETA] Time from a pod's first entry into the queue until it is bound."""
    pod_scheduling_attempts = histogram(
        "scheduler_pod_scheduling_attempts", exponential_buckets(1, 2, 5)
    )
    """[STABLE] Number of attempts to schedule a pod."""
    pod_scheduled_after_flush_total = counter("scheduler_pod_scheduled_after_flush_total")
    """[ALPHA] Pods bound that no event had woken, only the timeout of unschedulable pods."""
    framework_extension_point_duration_seconds = histogram(
        "scheduler_framework_extension_point_duration_seconds{extension_point,status,profile}",
        EXTENSION_POINT_BUCKETS,
    )
    """[STABLE] Time to run all plugins of an extension point."""
    plugin_execution_duration_seconds = histogram(
        "scheduler_plugin_execution_duration_seconds{plugin,extension_point,status}", PLUGIN_BUCKETS
    )
    """[ALPHA] Time to run one plugin at one extension point, sampled."""
    plugin_evaluation_total = counter(
        "scheduler_plugin_evaluation_total{plugin,extension_point,profile}"
    )
    """[BETA] Runs of a plugin at an extension point."""
    preemption_attempts_total = counter("scheduler_preemption_attempts_total")
    """[STABLE] Preemption attempts, also those that find no victims."""
    volume_scheduling_stage_error_total = counter(
        "scheduler_volume_scheduling_stage_error_total{operation}"
    )
    """[ALPHA] Errors of VolumeBinding; operation: predicate, assume, bind."""
    permit_wait_duration_seconds = histogram(
        "scheduler_permit_wait_duration_seconds{result}", ATTEMPT_BUCKETS
    )
    """[BETA] Time that pods waited at Permit; result: the status code, such as Success."""
    goroutines = gauge("scheduler_goroutines{operation}")
    """[BETA] Running tasks by operation."""
    set_aside_objects = gauge("podsched_set_aside_objects")
    """Objects that the cache cannot use; they are ignored until they change."""
    cache_size = gauge("scheduler_cache_size{type}")
    """[ALPHA] Objects in the cache; type: nodes, pods, assumed_pods."""
    pending_pods = gauge("scheduler_pending_pods{queue}")
    """[STABLE] Pods waiting; queue: active, backoff, unschedulable, gated."""
    queue_incoming_pods_total = counter("scheduler_queue_incoming_pods_total{queue,event}")
    """[STABLE] Pods added to the queues, by queue and event."""
    unschedulable_pods = gauge("scheduler_unschedulable_pods{plugin,profile}")
    """[BETA] Unschedulable pods, by the plugin that rejected them."""
    event_handling_duration_seconds = histogram(
        "scheduler_event_handling_duration_seconds{event}", EXTENSION_POINT_BUCKETS
    )
    """[ALPHA] Time to handle a cluster event."""
    queueing_hint_execution_duration_seconds = histogram(
        "scheduler_queueing_hint_execution_duration_seconds{plugin,event,hint}", PLUGIN_BUCKETS
    )
    """[ALPHA] Duration of a plugin's queueing hint; hint: Queue, QueueSkip, Error."""
    inflight_events = gauge("scheduler_inflight_events{event}")
    """[ALPHA] Events kept for pods that are being scheduled."""


class PodGroupMetrics(MetricSet):
    """kube-scheduler's metrics of pod groups; result: scheduled, unschedulable, error, ..."""

    schedule_attempts_total = counter("scheduler_podgroup_schedule_attempts_total{result,profile}")
    """[ALPHA] Attempts to schedule pod groups."""
    scheduling_attempt_duration_seconds = histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds{result,profile}", ATTEMPT_BUCKETS
    )
    """[ALPHA] Duration of attempts to schedule pod groups."""
    scheduling_algorithm_duration_seconds = histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds", ATTEMPT_BUCKETS
    )
    """[ALPHA] Duration of the decision about a pod group."""


class BackfillMetrics(MetricSet):
    """Starts that are promised to units of ClusterQueues with backfill."""

    reserved_total = counter("podsched_backfill_reservations_total")
    """Starts that were promised, or moved to an earlier time."""
    withdrawn_total = counter("podsched_backfill_withdrawn_total{reason}")
    """Promised starts that were withdrawn, or moved to a later time."""


class PreemptionMetrics(MetricSet):
    """Evictions by preemption: kube-scheduler's metrics and podsched's own."""

    preemption_victims = histogram("scheduler_preemption_victims", exponential_buckets(1, 2, 7))
    """[STABLE] Victims of a preemption."""
    preemption_goroutines_duration_seconds = histogram(
        "scheduler_preemption_goroutines_duration_seconds{result}", SLI_BUCKETS
    )
    """[ALPHA] Time to carry out a preemption; result: success, error."""
    preemption_goroutines_execution_total = counter(
        "scheduler_preemption_goroutines_execution_total{result}"
    )
    """[ALPHA] Preemptions carried out; result: success, error."""
    preemptions_futile_total = counter("podsched_preemptions_futile_total")
    """Preemptions after which the preemptor was not bound to the freed node."""


class EvaluationMetrics(MetricSet):
    """Evaluation: batches, rows, Ray, missed wake-ups."""

    evaluator_mode = gauge("podsched_evaluator_mode{mode}")
    """1 for the evaluator in use: local or ray."""
    evaluator_switches_total = counter("podsched_evaluator_switches_total{to}")
    """Changes of the evaluator."""
    evaluated_rows_total = counter("podsched_evaluated_rows_total{kind}")
    """Rows (nodes) filtered; kind: full (all rows for a class), changed (since then)."""
    batch_attempts_total = counter("scheduler_batch_attempts_total{profile,result}")
    """[ALPHA] Pods placed, by whether an equal pod's evaluation was used; result: no_hint,
    hint_used."""
    scheduling_batch_size = histogram("podsched_scheduling_batch_size", BATCH_BUCKETS)
    """Pods popped from the queue at once."""
    ray_calls_total = counter("podsched_ray_calls_total{call,result}")
    """Calls of Ray actors."""
    ray_call_duration_seconds = histogram("podsched_ray_call_duration_seconds{call}", CALL_BUCKETS)
    """Duration of a call of an actor."""
    ray_actor_restarts_total = counter("podsched_ray_actor_restarts_total{actor}")
    """Actors that were replaced."""
    audited_pods_total = counter("podsched_audited_pods_total")
    """Unschedulable pods filtered again while idle."""
    missed_wakeups_total = counter("podsched_missed_wakeups_total{event}")
    """Waiting pods found to fit, by the event that should have woken them."""


class BindingMetrics(MetricSet):
    """Writes that need leadership."""

    async_api_call_execution_total = counter(
        "scheduler_async_api_call_execution_total{call_type,result}"
    )
    """[ALPHA] Calls that write bindings or statuses; result: success, error."""
    async_api_call_execution_duration_seconds = histogram(
        "scheduler_async_api_call_execution_duration_seconds{call_type,result}", ATTEMPT_BUCKETS
    )
    """[ALPHA] Duration of calls that write bindings or statuses."""
    pending_async_api_calls = gauge("scheduler_pending_async_api_calls{call_type}")
    """[ALPHA] Pods whose bindings or statuses wait to be written."""
    bind_batch_size = histogram("podsched_bind_batch_size", BATCH_BUCKETS)
    """Pods in one bind call."""
    bind_duration_seconds = histogram("podsched_bind_duration_seconds{result}", CALL_BUCKETS)
    """Duration of a bind call."""
    bind_overtaken_total = counter("podsched_bind_overtaken_total")
    """Bindings refused as another scheduler had bound to the node since the decision."""
    fence_lost_total = counter("podsched_fence_lost_total{operation}")
    """Writes rejected because the term was over, by operation."""


class DecisionMetrics(MetricSet):
    """The decision log."""

    dropped = counter("podsched_decisions_dropped_total")
    """Decisions that the decision log could not take, or could not write."""
    written = counter("podsched_decisions_written_total")
    """Decisions written to the decision log."""
    written_bytes = counter("podsched_decision_log_bytes_total")
    """Bytes written to the decision log."""


class ShadowMetrics(MetricSet):
    """Decisions with a shadow configuration."""

    decisions = counter("podsched_shadow_decisions_total{result}")
    """Bound pods by what a shadow configuration would have made of them."""


class ConfigMetrics(MetricSet):
    """Configurations that came after the first one."""

    reloads = counter("podsched_config_reloads_total{result}")
    """Configurations given to a running scheduler: applied, or refused as invalid."""


class ElectionMetrics(MetricSet):
    """Leader election; ``name`` is the lock's name."""

    leader_election_master_status = gauge("leader_election_master_status{name}")
    """[ALPHA] 1 for the leader, else 0."""
    leader_election_slowpath_total = counter("leader_election_slowpath_total{name}")
    """[ALPHA] Renewals that had to read the record first."""
    term = gauge("podsched_leader_election_term")
    """Term that this process leads, else 0."""
    transitions = gauge("podsched_leader_election_transitions")
    """Transitions in the record last seen."""
    paused = gauge("podsched_scheduling_paused")
    """1 while a leader decides nothing, else 0."""
    renew_duration_seconds = histogram(
        "podsched_leader_election_renew_duration_seconds{result}", CALL_BUCKETS
    )
    """Duration of a renewal."""


class HealthMetrics(MetricSet):
    """Results of health checks, served at /metrics/slis as in Kubernetes; ``type`` is the probe."""

    healthcheck = gauge("kubernetes_healthcheck{name,type}")
    """[STABLE] 1 if the check passed when it was last run, else 0."""
    healthchecks_total = counter("kubernetes_healthchecks_total{name,type,status}")
    """[STABLE] Runs of the check by result: success or error."""

    def ran(self, name: str, probe: str, ok: bool) -> None:
        """Count one run of a check for a probe."""
        self.healthcheck.labels(name, probe).set(float(ok))
        self.healthchecks_total.labels(name, probe, "success" if ok else "error").inc()


class ClientMetrics(MetricSet):
    """The client and its informers, under client-go's names, with HTTP's codes and methods."""

    requests_total = counter("rest_client_requests_total{code,method,host}")
    """[ALPHA] Requests to the API server."""
    request_duration_seconds = histogram(
        "rest_client_request_duration_seconds{verb,host}", _REST_BUCKETS
    )
    """[ALPHA] Duration of requests to the API server."""
    request_size_bytes = histogram("rest_client_request_size_bytes{verb,host}", _SIZE_BUCKETS)
    """[ALPHA] Size of requests to the API server."""
    response_size_bytes = histogram("rest_client_response_size_bytes{verb,host}", _SIZE_BUCKETS)
    """[ALPHA] Size of responses of the API server, watches left out."""
    rate_limiter_duration_seconds = histogram(
        "rest_client_rate_limiter_duration_seconds{verb,host}", _REST_BUCKETS
    )
    """[ALPHA] Time that requests waited for clientConnection.qps."""
    request_retries_total = counter("rest_client_request_retries_total{code,verb,host}")
    """[ALPHA] Retried requests to the API server."""
    informer_relists_total = counter("podsched_informer_relists_total")
    """Times the informer had to list again because it missed changes."""
    informer_revision = gauge("podsched_informer_revision")
    """Revision up to which the informer has seen all changes."""
    informer_undecodable = gauge("podsched_informer_undecodable_objects")
    """Objects that came and cannot be decoded; they are ignored."""


class ApiServerMetrics(MetricSet):
    """The API server, under kube-apiserver's names where it has one."""

    request_total = counter("apiserver_request_total{verb,resource,code}")
    """[STABLE] Requests, by gRPC status code."""
    request_duration_seconds = histogram(
        "apiserver_request_duration_seconds{verb,resource}", CALL_BUCKETS
    )
    """[STABLE] Duration of requests except watches."""
    storage_objects = gauge("apiserver_storage_objects{resource}")
    """[STABLE] Objects stored."""
    unreadable_objects = gauge("podsched_unreadable_objects{resource}")
    """Stored objects that cannot be decoded: in no list, but they can be deleted."""
    watchers = gauge("podsched_watchers")
    """Open watch streams."""
    watch_events_total = counter("podsched_watch_events_total")
    """Events sent to watchers."""
    watchers_dropped_total = counter("podsched_watchers_dropped_total{cause}")
    """Watch streams closed by the server, by cause."""
    watch_cache_events = gauge("podsched_watch_cache_events")
    """Changes kept for watches that lag or resume."""
    watch_cache_revision = gauge("podsched_watch_cache_revision")
    """Revision that the watch cache has reached."""
    etcd_up = gauge("podsched_etcd_up")
    """1 while etcd answers linearizable reads, else 0."""
    storage_size_bytes = gauge("apiserver_storage_size_bytes")
    """[STABLE] Size of etcd's database."""
    compacted_revision = gauge("podsched_compacted_revision")
    """Revision up to which this server has compacted etcd; 0 while others do."""
    audit_event_total = counter("apiserver_audit_event_total")
    """[ALPHA] Audit events written."""
    audit_error_total = counter("apiserver_audit_error_total{plugin}")
    """[ALPHA] Audit events dropped; plugin: buffer (too many wait), log (not written)."""


class FlowControlMetrics(MetricSet):
    """Fairness in the API server, under the names of kube-apiserver's priority and fairness."""

    dispatched_requests_total = counter(
        "apiserver_flowcontrol_dispatched_requests_total{priority_level,flow_schema}"
    )
    """[BETA] Requests that got a seat."""
    rejected_requests_total = counter(
        "apiserver_flowcontrol_rejected_requests_total{priority_level,flow_schema,reason}"
    )
    """[BETA] Requests that were refused; reason: queue-full, time-out."""
    request_wait_duration_seconds = histogram(
        "apiserver_flowcontrol_request_wait_duration_seconds{priority_level,flow_schema}",
        (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    )
    """[BETA] Time that requests waited for a seat."""
    current_inqueue_requests = gauge(
        "apiserver_flowcontrol_current_inqueue_requests{priority_level,flow_schema}"
    )
    """[BETA] Requests that wait for a seat."""
    current_executing_seats = gauge(
        "apiserver_flowcontrol_current_executing_seats{priority_level,flow_schema}"
    )
    """[BETA] Seats taken."""
    nominal_limit_seats = gauge("apiserver_flowcontrol_nominal_limit_seats{priority_level}")
    """[BETA] Seats of a priority level; exempt requests need none."""
    shared_part = gauge("podsched_flowcontrol_shared_part")
    """Part of the event loop that competing flows may use together."""


class ControllerMetrics(MetricSet):
    """The controllers in the leader."""

    pod_deletions_total = counter("taint_eviction_controller_pod_deletions_total")
    """[ALPHA] Pods deleted because of NoExecute taints."""
    pod_deletion_duration_seconds = histogram(
        "taint_eviction_controller_pod_deletion_duration_seconds", _EVICTION_BUCKETS
    )
    """[ALPHA] Time from when a taint takes effect until the pod is deleted."""
    device_pod_deletions_total = counter("device_taint_eviction_controller_pod_deletions_total")
    """[ALPHA] Pods deleted because of NoExecute taints of their devices."""
    device_pod_deletion_duration_seconds = histogram(
        "device_taint_eviction_controller_pod_deletion_duration_seconds", _EVICTION_BUCKETS
    )
    """[ALPHA] Time from when a device's taint takes effect until the pod is deleted."""
    reconciles_total = counter("podsched_controller_reconciles_total{controller,result}")
    """Objects checked by a controller; result: unchanged, written, error."""


class AgentMetrics(MetricSet):
    """The hollow nodes of one agent."""

    nodes = gauge("podsched_agent_nodes")
    """Hollow nodes of this agent."""
    pods = gauge("podsched_agent_pods{phase}")
    """Pods on the hollow nodes, by phase."""
    heartbeats_total = counter("podsched_agent_heartbeats_total{result}")
    """Heartbeats sent."""
