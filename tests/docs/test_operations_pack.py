"""Boards and rules ask for nothing that cannot occur."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from podsched.serve.client.http_terms import code_of, verb_of
from podsched.serve.server.settings import ServerSettings
from podsched.telemetry.instruments import Histogram
from podsched.v1 import api_pb2
from support.metric_catalogue import every_metric
from support.promql import grouped, selectors

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "podsched.json").read_text())
GROUPS = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
#: What Prometheus knows of a target, and what its own functions add.
TARGET = {"instance", "job", "pod", "namespace", "cluster", "le", "quantile"}
#: Of every process, from ``prometheus_client`` and from Prometheus.
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "up"}
LABELS = {one.name: set(getattr(one, "label_names", ())) for one in every_metric().instruments()}
METHODS = [m.name for s in api_pb2.DESCRIPTOR.services_by_name.values() for m in s.methods]
STATUSES = [code.name for code in grpc.StatusCode]
VALUES = {
    "podsched_evaluator_mode": {"mode": {"local", "ray"}},
    "podsched_evaluator_switches_total": {"to": {"local", "ray"}},
    "podsched_agent_heartbeats_total": {"result": {"success", "error"}},
    "apiserver_request_total": {"code": {*STATUSES}, "verb": {*METHODS}},
    "rest_client_requests_total": {
        "code": {code_of(method, status) for method in METHODS for status in STATUSES}
    },
    "rest_client_request_duration_seconds": {"verb": {verb_of(method) for method in METHODS}},
}
#: What kubernetes-mixin's board "Kubernetes / Scheduler" asks for: metric, label, pattern.
MIXIN = [
    ("up", "", ""),
    ("scheduler_e2e_scheduling_duration_seconds_count", "", ""),
    ("scheduler_binding_duration_seconds_count", "", ""),
    ("scheduler_scheduling_algorithm_duration_seconds_count", "", ""),
    ("scheduler_volume_scheduling_duration_seconds_count", "", ""),
    ("scheduler_e2e_scheduling_duration_seconds_bucket", "", ""),
    ("scheduler_binding_duration_seconds_bucket", "", ""),
    ("scheduler_scheduling_algorithm_duration_seconds_bucket", "", ""),
    ("scheduler_volume_scheduling_duration_seconds_bucket", "", ""),
    ("rest_client_requests_total", "code", "2.."),
    ("rest_client_requests_total", "code", "4.."),
    ("rest_client_requests_total", "code", "5.."),
    ("rest_client_request_duration_seconds_bucket", "verb", "POST"),
    ("rest_client_request_duration_seconds_bucket", "verb", "GET"),
    ("process_resident_memory_bytes", "", ""),
    ("process_cpu_seconds_total", "", ""),
    ("go_goroutines", "", ""),
]


def base(metric: str) -> str:
    """The metric that a series of a histogram belongs to."""
    stem = re.sub(r"_(bucket|sum|count)$", "", metric)
    instruments = {one.name: one for one in every_metric().instruments()}
    return stem if isinstance(instruments.get(stem), Histogram) else metric


def values(metric: str, label: str) -> set[str]:
    """The values that a label can have: from its code, or as the help text lists them."""
    if label in VALUES.get(metric, {}):
        return VALUES[metric][label]
    text = next(one.help for one in every_metric().instruments() if one.name == metric)
    listed = re.search(rf"\b{label}: ([a-z0-9_+, -]+)", text)
    assert listed, f"nothing tells what values {label} of {metric} can have"
    return {value.strip() for value in listed[1].split(",")}


def impossible(expression: str) -> Iterator[str]:
    """What of an expression can never be: metrics, labels, values."""
    known: set[str] = set(TARGET)
    for metric, matchers in selectors(expression):
        if metric in RECORDED | PROCESS:
            continue
        name = base(metric)
        if name not in LABELS:
            yield metric
            continue
        known |= LABELS[name]
        for label, operator, wanted in matchers:
            if label in TARGET:
                continue
            if label not in LABELS[name]:
                yield f"{label} of {metric}"
            elif operator in ("=", "=~"):
                fits = re.escape(wanted) if operator == "=" else wanted
                if not any(re.fullmatch(fits, value) for value in values(name, label)):
                    yield f'{label} "{wanted}" of {metric}'
    yield from (f"grouping by {label}" for label in grouped(expression) - known)


def expressions(part: Any) -> Iterator[str]:
    """Every query of a board."""
    if isinstance(part, dict):
        if isinstance(part.get("expr"), str):
            yield part["expr"]
        for value in part.values():
            yield from expressions(value)
    elif isinstance(part, list):
        for value in part:
            yield from expressions(value)


@pytest.mark.parametrize("expression", list(expressions(BOARD)))
def test_what_the_board_asks_for_can_occur(expression: str) -> None:
    assert list(impossible(expression)) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert", rule.get("record")))
def test_what_a_rule_asks_for_can_occur(rule: dict[str, Any]) -> None:
    assert list(impossible(rule["expr"])) == []
    if "alert" in rule:
        assert rule["labels"]["severity"] in ("warning", "critical")
        named = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        asked = {label for one, _ in selectors(rule["expr"]) for label in LABELS.get(one, ())}
        assert set(named) <= asked | {"instance"}


def fixed_labels(side: str) -> dict[str, str]:
    """The labels that have one value in what a side of a join yields."""
    if re.search(r"\b(sum|max|min|avg)\b", side):
        return {}
    equal = (m for _, matchers in selectors(side) for m in matchers if m.operator == "=")
    return {one.label: one.value for one in equal}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert", rule.get("record")))
def test_what_a_rule_joins_has_equal_labels(rule: dict[str, Any]) -> None:
    for left, right in pairwise(re.split(r"\band\b", rule["expr"])):
        named = re.match(r"\s*(on|ignoring)\b", right)
        assert named or fixed_labels(left) == fixed_labels(right)


def test_pods_that_a_standby_has_in_its_queue_are_not_waiting() -> None:
    rule = next(rule for rule in RULES if rule.get("alert") == "PodschedNothingBound")
    leading = "* on (instance) group_left () (leader_election_master_status == 1)"
    assert f'scheduler_pending_pods{{queue="active"}} {leading}' in rule["expr"]


def test_the_first_missed_wakeup_is_noticed() -> None:
    rule = next(rule for rule in RULES if rule.get("alert") == "PodschedMissedWakeup")
    name = "podsched_missed_wakeups_total"
    # No label's values are known before the first event, so the series is not there yet.
    assert f"or {name} unless {name} offset" in " ".join(rule["expr"].split())


def test_etcd_is_nearly_full_at_four_fifths_of_the_default_quota() -> None:
    rule = next(rule for rule in RULES if rule.get("alert") == "PodschedEtcdNearlyFull")
    quota = ServerSettings().etcd_quota_bytes
    assert rule["expr"].endswith(f"> 0.8 * {quota}")
    assert f"{quota >> 30} GiB" in rule["annotations"]["summary"]


@pytest.mark.parametrize(
    ("expression", "finding"),
    [
        ("rate(scheduler_nothing_total[5m])", "scheduler_nothing_total"),
        ('sum(scheduler_pending_pods{queue="full"})', 'queue "full" of scheduler_pending_pods'),
        ('scheduler_pending_pods{plugin="x"}', "plugin of scheduler_pending_pods"),
        ("sum by (plugin) (scheduler_pending_pods)", "grouping by plugin"),
        ('rest_client_requests_total{code=~"OK|2000"}', 'code "OK|2000" of'),
    ],
)
def test_what_cannot_occur_is_found(expression: str, finding: str) -> None:
    found = list(impossible(expression))
    assert len(found) == 1 and found[0].startswith(finding)


@pytest.mark.parametrize(("metric", "label", "pattern"), MIXIN)
def test_the_usual_board_of_kube_scheduler_finds_values(
    metric: str, label: str, pattern: str
) -> None:
    matcher = f'{{job="kube-scheduler",{label}=~"{pattern}"}}' if label else ""
    assert list(impossible(f"sum by (instance) (rate({metric}{matcher}[5m]))")) == []


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
