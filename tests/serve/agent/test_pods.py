from __future__ import annotations

import json
from typing import Any

import pytest

from podsched.api.objects import Pod, timestamp
from podsched.serve.agent.admission import Rejection
from podsched.serve.agent.pods import Later, rejected, step
from podsched.v1.api_pb2 import EvictRequest, PatchRequest

NOW = 1_700_000_000.25


def pod(phase: str = "Pending", **annotations: str) -> Pod:
    item = Pod()
    item.metadata.name = "web"
    item.metadata.namespace = "default"
    item.metadata.uid = "u1"
    item.metadata.resource_version = "7"
    item.spec.node_name = "n1"
    item.spec.containers.add(name="app", image="app:1")
    item.status.phase = phase
    for key, value in annotations.items():
        item.metadata.annotations[f"podsched.io/{key.replace('_', '-')}"] = value
    return item


def deleted(item: Pod, grace: int, now: float = NOW) -> Pod:
    item.metadata.deletion_timestamp.CopyFrom(timestamp(int(now) + grace))
    item.metadata.deletion_grace_period_seconds = grace
    return item


def status_of(action: object) -> dict[str, Any]:
    assert isinstance(action, PatchRequest)
    assert (action.resource_version, action.uid) == (7, "u1")
    status: dict[str, Any] = json.loads(action.merge_patch)["status"]
    return status


def test_a_bound_pod_runs_at_once_without_a_delay() -> None:
    status = status_of(step(pod(), NOW, NOW, 0.0))
    assert status["phase"] == "Running"
    assert status["startTime"] == "2023-11-14T22:13:20Z"
    types = {c["type"]: c["status"] for c in status["conditions"]}
    assert types["Ready"] == types["ContainersReady"] == types["Initialized"] == "True"


def test_a_running_pods_containers_are_ready_and_its_sidecars_with_them() -> None:
    item = pod()
    item.spec.init_containers.add(name="once")
    item.spec.init_containers.add(name="proxy", restart_policy="Always")
    status = status_of(step(item, NOW, NOW, 0.0))
    (app,), (proxy,) = status["containerStatuses"], status["initContainerStatuses"]
    assert (app["name"], app["ready"], proxy["name"], proxy["ready"]) == (
        "app",
        True,
        "proxy",
        True,
    )
    assert app["state"] == {"running": {"startedAt": "2023-11-14T22:13:20Z"}}


def test_a_pods_sidecars_end_with_it() -> None:
    item = pod("Running", run_seconds="0")
    item.spec.init_containers.add(name="once")
    item.spec.init_containers.add(name="proxy", restart_policy="Always")
    item.status.init_container_statuses.add(name="proxy", ready=True).state.running.SetInParent()
    (proxy,) = status_of(step(item, NOW, NOW, 0.0))["initContainerStatuses"]
    assert (proxy["name"], proxy["ready"]) == ("proxy", False)
    assert proxy["state"]["terminated"]["reason"] == "Completed"


def with_deadline(seconds: int, **annotations: str) -> Pod:
    item = pod("Running", **annotations)
    item.spec.active_deadline_seconds = seconds
    item.status.start_time.CopyFrom(timestamp(int(NOW)))
    return item


def test_a_pod_fails_when_its_active_deadline_is_over() -> None:
    item = with_deadline(30)
    assert step(item, NOW, NOW, 0.0) == Later(NOW + 30)
    status = status_of(step(item, NOW, NOW + 30, 0.0))
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"


def test_a_pod_that_ends_by_itself_before_its_deadline_succeeds() -> None:
    item = with_deadline(30, run_seconds="10")
    assert step(item, NOW, NOW, 0.0) == Later(NOW + 10)
    assert status_of(step(item, NOW, NOW + 10, 0.0))["phase"] == "Succeeded"
    assert step(with_deadline(5, run_seconds="10"), NOW, NOW, 0.0) == Later(NOW + 5)


def test_a_bound_pod_runs_after_the_delay() -> None:
    assert step(pod(), NOW, NOW, 2.0) == Later(NOW + 2)
    assert isinstance(step(pod(), NOW, NOW + 2, 2.0), PatchRequest)


def test_an_agent_that_starts_again_counts_the_delay_from_the_binding() -> None:
    item = pod()
    item.status.conditions.add(
        type="PodScheduled", status="True", last_transition_time=timestamp(int(NOW) - 1)
    )
    assert step(item, NOW, NOW, 5.0) == Later(int(NOW) + 5.0)


def test_conditions_that_others_wrote_are_kept() -> None:
    item = pod()
    item.status.conditions.add(
        type="PodScheduled", status="True", last_transition_time=timestamp(1_600_000_000)
    )
    item.status.conditions.add(type="example.com/own", status="False")
    conditions = status_of(step(item, NOW, NOW, 0.0))["conditions"]
    by_type = {c["type"]: c for c in conditions}
    assert by_type["PodScheduled"]["lastTransitionTime"] == "2020-09-13T12:26:40Z"
    assert "example.com/own" in by_type


@pytest.mark.parametrize(
    ("code", "phase"), [(None, "Succeeded"), ("0", "Succeeded"), ("3", "Failed")]
)
def test_a_pod_ends_when_it_has_run_as_long_as_it_says(code: str | None, phase: str) -> None:
    annotations = (
        {"run_seconds": "10"} if code is None else {"run_seconds": "10", "exit_code": code}
    )
    item = pod("Running", **annotations)
    item.status.start_time.CopyFrom(timestamp(int(NOW)))
    assert step(item, NOW, NOW, 0.0) == Later(NOW + 10)
    status = status_of(step(item, NOW, NOW + 10, 0.0))
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code or 0)
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"


@pytest.mark.parametrize(
    ("code", "initialized", "ready"),
    [("0", "PodCompleted", "PodCompleted"), ("3", "", "PodFailed")],
)
def test_the_conditions_of_an_ended_pod_are_a_kubelets(
    code: str, initialized: str, ready: str
) -> None:
    item = pod("Running", run_seconds="0", exit_code=code)
    item.status.conditions.add(type="PodReadyToStartContainers", status="True")
    conditions = status_of(step(item, NOW, NOW, 0.0))["conditions"]
    assert {c["type"]: (c["status"], c.get("reason", "")) for c in conditions} == {
        "PodReadyToStartContainers": ("False", ""),
        "Initialized": ("True", initialized),
        "Ready": ("False", ready),
        "ContainersReady": ("False", ready),
    }


@pytest.mark.parametrize(("text", "code"), [("0.5", 1), ("1e10", 255), ("-1", 0)])
def test_an_exit_code_that_no_process_has_does_not_keep_a_pod_from_ending(
    text: str, code: int
) -> None:
    """The API server would refuse it, and again at each later attempt."""
    item = pod("Running", run_seconds="0", exit_code=text)
    (container,) = status_of(step(item, NOW, NOW, 0.0))["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == code


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_run_time_that_makes_no_sense_is_no_run_time(text: str) -> None:
    assert step(pod("Running", run_seconds=text), NOW, NOW, 0.0) is None


def test_a_running_pod_gets_its_whole_grace_period() -> None:
    item = deleted(pod("Running"), 3)
    assert step(item, NOW, NOW, 0.0) == Later(NOW + 3)
    action = step(item, NOW, NOW + 3, 0.0)
    assert isinstance(action, EvictRequest)
    assert action.grace_period_seconds == 0
    assert action.preconditions.uid == "u1"


def test_an_agent_that_starts_again_does_not_give_the_grace_period_twice() -> None:
    item = deleted(pod("Running"), 3)
    assert isinstance(step(item, NOW + 60, NOW + 60, 0.0), EvictRequest)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_goes_at_once(phase: str) -> None:
    assert isinstance(step(deleted(pod(phase), 30), NOW, NOW, 0.0), EvictRequest)


def test_without_grace_a_pod_goes_at_once() -> None:
    assert isinstance(step(deleted(pod("Running"), 0), NOW, NOW, 0.0), EvictRequest)


def of_job(**annotations: str) -> Pod:
    item = pod("Running", **annotations)
    item.status.start_time.CopyFrom(timestamp(int(NOW)))
    item.metadata.owner_references.add(api_version="batch/v1", kind="Job", controller=True)
    return item


def test_a_pod_of_a_job_succeeds_after_the_time_of_the_agent() -> None:
    assert step(of_job(), NOW, NOW, 0.0, job_seconds=5) == Later(NOW + 5)
    assert status_of(step(of_job(), NOW, NOW + 6, 0.0, job_seconds=5))["phase"] == "Succeeded"
    assert step(pod("Running"), NOW, NOW + 6, 0.0, job_seconds=5) is None


def test_a_pod_of_a_job_may_say_itself_how_long_it_runs() -> None:
    own = of_job(run_seconds="60", exit_code="3")
    assert step(own, NOW, NOW, 0.0, job_seconds=5) == Later(NOW + 60)
    assert status_of(step(own, NOW, NOW + 61, 0.0, job_seconds=5))["phase"] == "Failed"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_deleted_pod_with_finalizers_fails_before_it_is_removed(phase: str) -> None:
    item = deleted(pod(phase), 0)
    item.metadata.finalizers.append("batch.kubernetes.io/job-tracking")
    assert status_of(step(item, NOW, NOW, 0.0))["phase"] == "Failed"
    item.status.phase = "Failed"
    assert isinstance(step(item, NOW, NOW, 0.0), EvictRequest)


def test_a_pod_that_ends_before_it_runs_has_the_start_time_of_its_end() -> None:
    now = "2023-11-14T22:13:20Z"
    refused = status_of(rejected(pod(), Rejection("OutOfcpu", "no room"), NOW))
    assert (refused["phase"], refused["startTime"]) == ("Failed", now)
    item = deleted(pod("Pending"), 0)
    item.metadata.finalizers.append("batch.kubernetes.io/job-tracking")
    status = status_of(step(item, NOW, NOW, 0.0))
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["startTime"], ended["startedAt"], ended["finishedAt"]) == (now, now, now)


def test_a_finished_pod_is_left_alone() -> None:
    assert step(pod("Succeeded", run_seconds="1"), NOW, NOW + 100, 0.0) is None


def test_a_pod_is_ready_again_with_its_node() -> None:
    item = pod("Running")
    item.status.conditions.add(type="Ready", status="False", reason="NodeNotReady")
    assert step(item, NOW, NOW, 0.0, node_ready=False) is None
    status = status_of(step(item, NOW, NOW, 0.0, node_ready=True))
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"


def gated(status: str, ready: str = "True", reason: str = "", message: str = "") -> Pod:
    """A running pod whose gate has this status; "": no such condition."""
    item = pod("Running")
    item.spec.readiness_gates.add(condition_type="example.com/lb")
    item.status.conditions.add(type="Ready", status=ready, reason=reason, message=message)
    if status:
        item.status.conditions.add(type="example.com/lb", status=status)
    return item


MISSING = 'corresponding condition of pod readiness gate "example.com/lb" does not exist.'
SHUT = 'the status of pod readiness gate "example.com/lb" is not "True", but False'


@pytest.mark.parametrize(("status", "message"), [("", MISSING), ("False", SHUT), ("True", "")])
def test_a_pod_is_ready_while_its_readiness_gates_are_true(status: str, message: str) -> None:
    item = gated(status, "False" if status == "True" else "True", "ReadinessGatesNotReady")
    conditions = status_of(step(item, NOW, NOW, 0.0))["conditions"]
    (ready,) = (c for c in conditions if c["type"] == "Ready")
    shown = (ready["status"], ready.get("reason", ""), ready.get("message", ""))
    assert shown == (("False", "ReadinessGatesNotReady", message) if message else ("True", "", ""))
    assert step(gated(status, *shown), NOW, NOW, 0.0) is None


def test_a_pod_that_is_not_ready_for_another_reason_stays_so() -> None:
    item = pod("Running")
    item.status.conditions.add(type="Ready", status="False", reason="Unhealthy")
    assert step(item, NOW, NOW, 0.0) is None


def test_a_pod_that_started_in_the_year_10000_is_one_that_has_just_started() -> None:
    """Such a time has no form; it is written back as the last that has."""
    item = pod("Running", run_seconds="0", exit_code="1")
    item.status.start_time.seconds = 253_402_300_800
    condition = item.status.conditions.add(type="PodScheduled", status="True")
    condition.last_transition_time.seconds = 253_402_300_800
    status = status_of(step(item, NOW, NOW, 0.0))
    (container,) = status["containerStatuses"]
    assert container["state"]["terminated"]["startedAt"] == "9999-12-31T23:59:59Z"
