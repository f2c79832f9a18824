"""What is planned for a Job that is seen at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podsched.api.objects import Job, Pod, timestamp
from podsched.term.controllers.job_plan import Plan, plan
from podsched.term.controllers.job_pods import Seen
from podsched.term.controllers.pod_records import PodSet, record_of
from support.jobs import job

NOW = 1_700_000_100.0
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


def pod(name: str, phase: str = "Running", *, deleted: bool = False, **fields: Any) -> Pod:
    item = Pod()
    item.metadata.name, item.metadata.uid = name, f"uid-{name}"
    item.metadata.namespace = "default"
    if fields.get("tracked", True):
        item.metadata.finalizers.append(TRACKING)
    if "index" in fields:
        item.metadata.annotations[INDEX] = str(fields["index"])
    if deleted:
        item.metadata.deletion_timestamp.CopyFrom(timestamp(NOW))
    item.spec.node_name = fields.get("node", "n1")
    item.status.phase = phase
    for name_, code in fields.get("codes", {}).items():
        status = item.status.container_statuses.add(name=name_)
        status.state.terminated.exit_code = code
    return item


def planned(
    item: Job, *pods: Pod, creating: Sequence[int] = (), dropping: Sequence[str] = ()
) -> Plan:
    kept, by_key = PodSet(), {f"default/{each.metadata.name}": each for each in pods}
    for key, each in by_key.items():
        kept.put(record_of(key, each, matches=True))
    active = [each for each in kept.live.values() if each.uid not in dropping]
    return plan(Seen(item, kept, active, creating, dropping, {}, lambda p: by_key.get(p.key), NOW))


def ended(item: Job, *types: str) -> Job:
    """A Job with these conditions, and no pods to be counted."""
    item.status.start_time.CopyFrom(timestamp(NOW))
    for type_ in types:
        item.status.conditions.add(type=type_, status="True", reason="R", message="M")
    return item


def conditions(made: Plan) -> list[str]:
    return [each.type for each in made.status.conditions if each.status == "True"]


def names(records: Sequence[Any]) -> list[str]:
    return [record.name for record in records]


def test_a_finished_pod_is_released_only_once_its_uid_is_stored() -> None:
    item = job(completions=2, parallelism=2)
    first = planned(item, pod("a", "Succeeded"), pod("b"))
    assert not first.release
    assert list(first.status.uncounted_terminated_pods.succeeded) == ["uid-a"]
    item.status.CopyFrom(first.status)
    second = planned(item, pod("a", "Succeeded"), pod("b"))
    assert names(second.release) == ["a"]
    assert second.status.succeeded == 0
    third = planned(item, pod("a", "Succeeded", tracked=False), pod("b"))
    assert third.status.succeeded == 1
    assert not third.status.uncounted_terminated_pods.succeeded


def test_a_deleted_job_makes_no_pods_and_releases_those_that_there_are() -> None:
    item = job(completions=3, parallelism=3)
    item.metadata.deletion_timestamp.CopyFrom(timestamp(NOW))
    made = planned(item, pod("a"))
    assert not made.create
    assert names(made.release) == ["a"]


def test_the_end_waits_for_pods_that_are_on_their_way() -> None:
    made = planned(ended(job(), "FailureTarget"), pod("a"), creating=[-1])
    assert names(made.delete) == ["a"]
    assert conditions(made) == ["FailureTarget"]
    assert not made.status.uncounted_terminated_pods.failed


def test_a_failed_job_ends_once_no_pod_terminates_and_none_is_uncounted() -> None:
    item = ended(job(), "FailureTarget")
    leaving = pod("a", deleted=True, tracked=False)
    assert conditions(planned(item, leaving)) == ["FailureTarget"]
    uncounted = planned(item, pod("a", "Failed"))
    assert conditions(uncounted) == ["FailureTarget"]
    made = planned(item)
    assert conditions(made) == ["FailureTarget", "Failed"]
    assert made.events == [("Warning", "R", "M")]


def test_a_succeeded_job_ends_once_no_pod_has_the_finalizer() -> None:
    item = ended(job(completionMode="Indexed", completions=1), "SuccessCriteriaMet")
    item.status.completed_indexes, item.status.succeeded = "0", 1
    assert conditions(planned(item, pod("a", "Succeeded", index=0))) == ["SuccessCriteriaMet"]
    assert conditions(planned(item)) == ["SuccessCriteriaMet", "Complete"]


def test_pods_that_still_run_are_released_only_once_success_is_stored() -> None:
    item = job(
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        successPolicy={"rules": [{"succeededCount": 1}]},
    )
    item.status.completed_indexes = "0"
    running = pod("b", index=1)
    first = planned(item, running)
    assert conditions(first) == ["SuccessCriteriaMet"]
    assert names(first.delete) == ["b"]
    assert not first.release
    item.status.CopyFrom(first.status)
    second = planned(item, running)
    assert names(second.release) == ["b"]
    assert not second.status.uncounted_terminated_pods.failed


def test_a_deleted_pod_of_which_no_kubelet_will_tell_has_failed() -> None:
    item = job(podReplacementPolicy="Failed")
    leaving = pod("a", "Running", deleted=True)
    leaving.metadata.deletion_grace_period_seconds = 30
    assert not planned(item, leaving).status.uncounted_terminated_pods.failed
    leaving.metadata.deletion_grace_period_seconds = 0
    lost = planned(item, leaving)
    assert list(lost.status.uncounted_terminated_pods.failed) == ["uid-a"]
    gone = planned(item, pod("a", "Pending", deleted=True, node=""))
    assert list(gone.status.uncounted_terminated_pods.failed) == ["uid-a"]


def test_a_suspended_job_has_no_start_time() -> None:
    item = ended(job(suspend=True))
    made = planned(item, pod("a"))
    assert names(made.drop) == ["a"]
    assert not made.status.HasField("start_time")
    assert made.status.terminating == 1


def failure_of(rule: dict[str, Any], **codes: int) -> list[str]:
    """The conditions of a Job whose pod ended with these codes of its containers."""
    whole = {"action": "FailJob", "onExitCodes": rule}
    item = job(podFailurePolicy={"rules": [whole]})
    return conditions(planned(item, pod("a", "Failed", codes=codes)))


def test_exit_codes_are_those_of_the_container_that_is_named() -> None:
    rule = {"operator": "In", "values": [7], "containerName": "main"}
    assert failure_of(rule, main=7) == ["FailureTarget"]
    assert failure_of(rule, main=1, side=7) == []


def test_exit_codes_may_be_all_but_some() -> None:
    rule = {"operator": "NotIn", "values": [7]}
    assert failure_of(rule, main=8) == ["FailureTarget"]
    assert failure_of(rule, main=7) == []
    assert failure_of(rule, main=0) == []


def test_the_failed_pod_of_an_index_is_not_counted_before_its_replacement_is_seen() -> None:
    item = job(completionMode="Indexed", completions=1, backoffLimitPerIndex=5)
    failed = pod("a", "Failed", index=0)
    assert not planned(item, failed, creating=[0]).status.uncounted_terminated_pods.failed
    made = planned(item, failed, pod("b", index=0))
    assert list(made.status.uncounted_terminated_pods.failed) == ["uid-a"]


def test_no_pod_is_dropped_before_all_are_seen_that_are_on_their_way() -> None:
    item = job(completions=9, parallelism=1)
    assert not planned(item, pod("a"), creating=[-1]).drop
    assert names(planned(item, pod("a"), pod("b", "Pending", node="")).drop) == ["b"]


def test_a_pod_that_is_dropped_is_not_counted() -> None:
    item = job(completions=2, parallelism=1)
    made = planned(item, pod("a", deleted=True), dropping=["uid-a"])
    assert not made.status.uncounted_terminated_pods.failed
    assert not made.release


def test_a_job_in_a_queue_has_not_started_while_its_evicted_pods_terminate() -> None:
    item = ended(job(completions=1))
    item.spec.template.metadata.labels["kueue.x-k8s.io/queue-name"] = "team"
    old, new = pod("old", deleted=True, tracked=False), pod("new", "Pending", node="")
    assert planned(item, old, new).status.HasField("start_time")
    old.metadata.annotations["podsched.io/flavors"] = "{}"
    old.status.conditions.add(
        type="DisruptionTarget", status="True", reason="PreemptionByScheduler"
    )
    assert not planned(item, old, new).status.HasField("start_time")
