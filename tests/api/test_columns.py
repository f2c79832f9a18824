"""Columns of tables, and what kubectl shows of the containers of a pod."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from podsched.api.columns import (
    Show,
    node_roles,
    pod_ready,
    pod_restarts,
    pod_status,
    scale_metrics,
)
from podsched.api.kinds import KINDS, Kind
from podsched.api.manifest import from_manifest
from podsched.api.objects import copy_of

RUNS: dict[str, Any] = {"ready": True, "started": True, "state": {"running": {}}}
DONE: dict[str, Any] = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
FAILED: dict[str, Any] = {"state": {"terminated": {"exitCode": 3}}}
WAITS: dict[str, Any] = {"state": {"waiting": {"reason": "PodInitializing"}}}
PULLS: dict[str, Any] = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}


def cells(init: list[Any], containers: list[Any], *, initialized: bool) -> tuple[str, str, str]:
    """Ready, status and restarts of a pod; each init container: (is a sidecar, its status)."""
    sidecar = {"restartPolicy": "Always"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [
                {"name": f"i{n}", **(sidecar if lasts else {})} for n, (lasts, _) in enumerate(init)
            ],
            "containers": [{"name": f"c{n}"} for n in range(len(containers))],
        },
        "status": {
            "phase": "Running" if initialized else "Pending",
            "initContainerStatuses": [
                {"name": f"i{n}", "restartCount": 1, **s} for n, (_, s) in enumerate(init)
            ],
            "containerStatuses": [
                {"name": f"c{n}", "restartCount": 2, **s} for n, s in enumerate(containers)
            ],
            "conditions": [{"type": "Initialized", "status": str(initialized)}],
        },
    }
    message = from_manifest(pod).message
    return pod_ready(message, 0), pod_status(message, 0), pod_restarts(message, 0)


@pytest.mark.parametrize(
    ("init", "containers", "initialized", "shown"),
    [
        ([], [RUNS, RUNS], True, ("2/2", "Running", "4")),
        ([(True, RUNS)], [RUNS], True, ("2/2", "Running", "3")),
        ([(True, {**RUNS, "ready": False})], [RUNS], True, ("1/2", "Running", "3")),
        ([(False, DONE), (False, WAITS)], [WAITS], False, ("0/1", "Init:1/2", "2")),
        ([(True, RUNS), (False, PULLS)], [WAITS], False, ("1/2", "Init:ImagePullBackOff", "2")),
        ([(False, FAILED)], [WAITS], False, ("0/1", "Init:ExitCode:3", "1")),
        ([(True, {"started": False})], [WAITS], False, ("0/2", "Init:0/1", "1")),
        ([(False, DONE)], [PULLS], True, ("0/1", "ImagePullBackOff", "2")),
        ([], [DONE, RUNS], True, ("1/2", "NotReady", "4")),
        ([], [DONE, FAILED], True, ("0/2", "ExitCode:3", "4")),
    ],
)
def test_a_pod_is_shown_by_what_its_containers_do(
    init: list[Any], containers: list[Any], initialized: bool, shown: tuple[str, str, str]
) -> None:
    assert cells(init, containers, initialized=initialized) == shown


def test_the_last_restart_is_shown_with_its_age() -> None:
    ended = {"exitCode": 3, "finishedAt": "2026-01-01T00:00:20Z"}
    earlier = {"exitCode": 3, "finishedAt": "2026-01-01T00:00:10Z"}
    statuses = [
        {"name": name, "restartCount": 1, "lastState": {"terminated": at}}
        for name, at in (("a", earlier), ("b", ended), ("c", {"exitCode": 1}))
    ]
    status = {
        "containerStatuses": statuses,
        "conditions": [{"type": "Initialized", "status": "True"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status}
    now = datetime(2026, 1, 1, 0, 0, 25, tzinfo=UTC).timestamp()
    assert pod_restarts(from_manifest(pod).message, now) == "3 (5s ago)"
    for one in statuses:
        one["restartCount"] = 0
    assert pod_restarts(from_manifest(pod).message, now) == "0"


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_both_tables_show_the_name_and_the_age_of_objects_of_any_kind(kind: Kind) -> None:
    for show in (lambda column: column.kubectl, lambda column: column.sched):
        shown = [column.name.upper() for column in kind.columns if show(column) is not Show.NEVER]
        assert "NAME" in shown
        assert len(set(shown)) == len(shown)
    assert {"AGE", "LAST SEEN"} & {c.name.upper() for c in kind.columns if c.sched is Show.ALWAYS}


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        ({}, "<none>"),
        ({"podsched.io/hollow": "true"}, "hollow"),
        ({"podsched.io/hollow": "false"}, "<none>"),
        ({"node-role.kubernetes.io/worker": "", "podsched.io/hollow": "true"}, "worker,hollow"),
    ],
)
def test_a_hollow_node_has_the_role_hollow(labels: dict[str, str], roles: str) -> None:
    metadata = {"name": "n", "labels": labels}
    node = from_manifest({"apiVersion": "v1", "kind": "Node", "metadata": metadata}).message
    assert node_roles(node, 0.0) == roles


@pytest.mark.parametrize(
    ("target", "current", "shown"),
    [
        ({"averageUtilization": 50}, None, "cpu: <unknown>/50%"),
        ({"averageUtilization": 50}, {"averageUtilization": 400}, "cpu: 400%/50%"),
        ({"averageUtilization": 50}, {"averageUtilization": 0}, "cpu: 0%/50%"),
        ({"averageValue": "100m"}, {"averageValue": "8m"}, "cpu: 8m/100m"),
        ({"averageValue": "100m"}, None, "cpu: <unknown>/100m"),
    ],
)
def test_an_autoscaler_shows_what_is_used_and_what_it_aims_at(
    target: dict[str, Any], current: dict[str, Any] | None, shown: str
) -> None:
    def of(**more: Any) -> list[dict[str, Any]]:
        return [{"type": "Resource", "resource": {"name": "cpu", **more}}]

    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "metrics": of(target=target)},
        "status": {} if current is None else {"currentMetrics": of(current=current)},
    }
    assert scale_metrics(from_manifest(scaler).message, 0.0) == shown


def test_to_show_an_autoscaler_of_a_nameless_resource_does_not_change_it() -> None:
    """A name without a value would be added, with which no update is valid."""
    metrics = [{"type": "Resource", "resource": {"target": {"averageUtilization": 50}}}]
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    manifest = {**scaler, "metadata": {"name": "a"}, "spec": {"metrics": metrics}}
    message = from_manifest(manifest).message
    before = copy_of(message)
    assert scale_metrics(message, 0.0) == ": <unknown>/50%"
    assert message == before
