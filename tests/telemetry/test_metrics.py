import re

import pytest

from podsched.telemetry import metrics as catalogue
from podsched.telemetry.instruments import Counter, Gauge, Histogram, MetricRegistry
from podsched.telemetry.metrics import attempts_label

CATALOGUES = [value for name, value in vars(catalogue).items() if name.endswith("Metrics")]

# kube-scheduler v1.36: name -> (type, labels, first and last bucket, number of buckets).
KUBE_SCHEDULER = {
    "scheduler_schedule_attempts_total": (Counter, {"result", "profile"}, None),
    "scheduler_scheduling_attempt_duration_seconds": (
        Histogram,
        {"result", "profile"},
        (0.001, 16.384, 15),
    ),
    "scheduler_scheduling_algorithm_duration_seconds": (Histogram, set(), (0.001, 16.384, 15)),
    "scheduler_preemption_victims": (Histogram, set(), (1, 64, 7)),
    "scheduler_preemption_attempts_total": (Counter, set(), None),
    "scheduler_pending_pods": (Gauge, {"queue"}, None),
    "scheduler_pod_scheduling_attempts": (Histogram, set(), (1, 16, 5)),
    "scheduler_framework_extension_point_duration_seconds": (
        Histogram,
        {"extension_point", "status", "profile"},
        (0.0001, 0.2048, 12),
    ),
    "scheduler_queue_incoming_pods_total": (Counter, {"queue", "event"}, None),
    "scheduler_pod_scheduling_sli_duration_seconds": (
        Histogram,
        {"attempts"},
        (0.01, 5242.88, 20),
    ),
    "scheduler_goroutines": (Gauge, {"operation"}, None),
    "scheduler_permit_wait_duration_seconds": (Histogram, {"result"}, (0.001, 16.384, 15)),
    "scheduler_unschedulable_pods": (Gauge, {"plugin", "profile"}, None),
    "scheduler_plugin_evaluation_total": (
        Counter,
        {"plugin", "extension_point", "profile"},
        None,
    ),
    "scheduler_plugin_execution_duration_seconds": (
        Histogram,
        {"plugin", "extension_point", "status"},
        (1e-5, 1e-5 * 1.5**19, 20),
    ),
    "scheduler_event_handling_duration_seconds": (Histogram, {"event"}, (0.0001, 0.2048, 12)),
    "scheduler_queueing_hint_execution_duration_seconds": (
        Histogram,
        {"plugin", "event", "hint"},
        (1e-5, 1e-5 * 1.5**19, 20),
    ),
    "scheduler_inflight_events": (Gauge, {"event"}, None),
    "scheduler_cache_size": (Gauge, {"type"}, None),
    "scheduler_pod_scheduled_after_flush_total": (Counter, set(), None),
    "scheduler_preemption_goroutines_duration_seconds": (
        Histogram,
        {"result"},
        (0.01, 5242.88, 20),
    ),
    "scheduler_preemption_goroutines_execution_total": (Counter, {"result"}, None),
    "leader_election_master_status": (Gauge, {"name"}, None),
    "leader_election_slowpath_total": (Counter, {"name"}, None),
    "rest_client_requests_total": (Counter, {"code", "method", "host"}, None),
    "rest_client_request_size_bytes": (Histogram, {"verb", "host"}, (64, 16777216, 11)),
    "rest_client_response_size_bytes": (Histogram, {"verb", "host"}, (64, 16777216, 11)),
    "rest_client_rate_limiter_duration_seconds": (Histogram, {"verb", "host"}, (0.005, 60, 12)),
    "scheduler_async_api_call_execution_total": (Counter, {"call_type", "result"}, None),
    "scheduler_async_api_call_execution_duration_seconds": (
        Histogram,
        {"call_type", "result"},
        (0.001, 16.384, 15),
    ),
    "scheduler_pending_async_api_calls": (Gauge, {"call_type"}, None),
    "scheduler_batch_attempts_total": (Counter, {"profile", "result"}, None),
}


def all_metrics() -> dict[str, Counter | Gauge | Histogram]:
    registry = MetricRegistry()
    return {
        metric.name: metric for declare in CATALOGUES for metric in vars(declare(registry)).values()
    }


@pytest.mark.parametrize("name", KUBE_SCHEDULER)
def test_a_metric_of_kube_scheduler_has_its_type_labels_and_buckets(name: str) -> None:
    kind, labels, buckets = KUBE_SCHEDULER[name]
    metric = all_metrics()[name]
    assert type(metric) is kind
    assert set(metric.label_names) == labels
    if isinstance(metric, Histogram):
        assert buckets is not None
        assert metric.buckets[0] == buckets[0]
        assert metric.buckets[-1] == pytest.approx(buckets[1])
        assert len(metric.buckets) == buckets[2]


def test_all_metrics_of_a_process_fit_into_one_registry() -> None:
    registry = MetricRegistry()
    for declare in CATALOGUES:
        declare(registry)
    assert len(registry.names()) == len(set(registry.names())) > 50


def test_counters_end_in_total_and_nothing_else_does() -> None:
    for name, metric in all_metrics().items():
        assert name.endswith("_total") == isinstance(metric, Counter), name


def test_names_that_kubernetes_does_not_have_begin_with_podsched() -> None:
    kubernetes = re.compile(
        r"(scheduler|leader_election|rest_client|apiserver|kubernetes|(device_)?taint_eviction_controller)_"
        r"|(registered|disabled|hidden)_metrics_total|go_goroutines"
    )
    for name in all_metrics():
        assert name.startswith("podsched_") or kubernetes.match(name), name


def test_every_metric_shows_up_in_the_text_under_exactly_its_name() -> None:
    registry = MetricRegistry()
    for declare in CATALOGUES:
        for metric in vars(declare(registry)).values():
            metric.labels(*("x" for _ in metric.label_names))
    text = registry.render()[0].decode()
    typed = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    assert typed == set(all_metrics())
    assert "otel" not in text
    assert "target_info" not in text


def test_fifteen_and_more_attempts_are_counted_together() -> None:
    assert [attempts_label(n) for n in (1, 14, 15, 99)] == ["1", "14", "15+", "15+"]


def test_metrics_are_counted_by_their_stability_and_what_is_left_out() -> None:
    registry = MetricRegistry(disabled=["podsched_b_total", "podsched_c_total"])
    registry.add(Counter("scheduler_a_total", "[STABLE] A."))
    registry.add(Counter("podsched_b_total", "B."))
    metrics = catalogue.RegistryMetrics(registry)
    metrics.count(registry)
    levels = {labels[0]: cell.value for labels, cell in metrics.registered_metrics_total.cells()}
    assert levels == {"STABLE": 1, "INTERNAL": 1, "BETA": 3}
    assert metrics.disabled_metrics_total.labels().value == 1
