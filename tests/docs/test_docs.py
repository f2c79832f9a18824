"""What the documents say is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from support.metric_catalogue import every_metric

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "deploy/**/*.md")
    for path in ROOT.glob(pattern)
    if ".venv" not in path.parts
)


#: kube-scheduler 1.36's metrics at /metrics, without Go's own; * stands for all that begin so.
_KUBE_SCHEDULER = [
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_preemption_victims",
    "scheduler_preemption_attempts_total",
    "scheduler_pending_pods",
    "scheduler_pod_scheduling_attempts",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_queue_incoming_pods_total",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_goroutines",
    "scheduler_permit_wait_duration_seconds",
    "scheduler_unschedulable_pods",
    "scheduler_plugin_evaluation_total",
    "scheduler_plugin_execution_duration_seconds",
    "scheduler_event_handling_duration_seconds",
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_inflight_events",
    "scheduler_cache_size",
    "scheduler_pod_scheduled_after_flush_total",
    "scheduler_preemption_goroutines_duration_seconds",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_async_api_call_execution_total",
    "scheduler_async_api_call_execution_duration_seconds",
    "scheduler_pending_async_api_calls",
    "scheduler_batch_attempts_total",
    "scheduler_batch_cache_flushed_total",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_store_schedule_results_duration_seconds",
    "scheduler_resourceclaim_creates_total",
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "scheduler_podgroup_schedule_attempts_total",
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "scheduler_volume_binder_cache_requests_total",
    "scheduler_volume_scheduling_stage_error_total",
    "leader_election_master_status",
    "leader_election_slowpath_total",
    "rest_client_requests_total",
    "rest_client_request_duration_seconds",
    "rest_client_request_size_bytes",
    "rest_client_response_size_bytes",
    "rest_client_rate_limiter_duration_seconds",
    "rest_client_dns_resolution_duration_seconds",
    "rest_client_request_retries_total",
    "rest_client_exec_plugin_*",
    "rest_client_transport_*",
    "workqueue_*",
    "kubernetes_feature_enabled",
    "kubernetes_build_info",
    "registered_metrics_total",
    "disabled_metrics_total",
    "hidden_metrics_total",
    "go_*",
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_metrics_that_are_described_are_those_that_exist() -> None:
    registry = every_metric()
    text = (ROOT / "docs" / "observability.md").read_text()
    text = text[text.index("## Metrics") : text.index("## Logs")]
    described = re.findall(r"^\| `([a-z0-9_]+)` \|", text, re.MULTILINE)
    assert set(described) ^ set(registry.names()) == set()


def test_every_metric_of_kube_scheduler_is_here_or_the_reason_why_not() -> None:
    registry = every_metric()
    text = (ROOT / "docs" / "observability.md").read_text()
    table = text[text.index("kube-scheduler that are not here") : text.index("## Profiles")]
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", table, re.MULTILINE)
    absent = [name for names, _ in rows for name in re.findall(r"`([a-z_*]+)`", names)]
    assert all(reason for _, reason in rows)
    assert sorted({*absent, *registry.names()} & {*_KUBE_SCHEDULER}) == sorted(_KUBE_SCHEDULER)
    assert set(absent) & set(registry.names()) == set()


def test_no_text_says_to_install_podsched_from_an_index() -> None:
    texts = [*DOCUMENTS, *(ROOT / "sched" / "podsched").rglob("*.py")]
    said = re.compile(r"pip install '?podsched\b")
    assert [path.name for path in texts if said.search(path.read_text())] == []


def test_the_wheel_that_the_readme_names_is_the_one_that_is_built() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"dist/podsched-{version}-py3-none-any.whl" in (ROOT / "README.md").read_text()
    assert f"\n## Unreleased: {version}\n" in (ROOT / "CHANGELOG.md").read_text()
