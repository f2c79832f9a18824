"""Jobs: their pods are made and counted, and they end as they should."""

from __future__ import annotations

from collections import Counter

import pytest

from podsched.api.defaulting import default_queued_job
from podsched.api.objects import Job, Pod, ReplicaSet, timestamp
from podsched.api.owners import add_controller
from podsched.serve.client.errors import Forbidden
from podsched.term.controllers.jobs import JobController
from support.controller_world import START, ControllerWorld, bound_pod
from support.jobs import change, job, pods, put, stored

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(JobController(world, world, world))
    return world


def active(world: ControllerWorld) -> list[Pod]:
    return [
        pod
        for pod in pods(world)
        if pod.status.phase not in ("Succeeded", "Failed")
        and not pod.metadata.HasField("deletion_timestamp")
    ]


def set_phase(world: ControllerWorld, pod: Pod, phase: str, code: int = 0) -> None:
    changed = Pod()
    changed.CopyFrom(world.pod(f"default/{pod.metadata.name}"))
    changed.status.phase = phase
    changed.spec.node_name = "n1"
    if phase in ("Succeeded", "Failed"):
        del changed.status.container_statuses[:]
        status = changed.status.container_statuses.add(name="c")
        status.state.terminated.exit_code = code
        status.state.terminated.finished_at.CopyFrom(timestamp(world.time))
    world.put(changed)


def finish(world: ControllerWorld, *which: Pod) -> None:
    for pod in which:
        set_phase(world, pod, "Succeeded")
    world.wait(2)


def fail(world: ControllerWorld, *which: Pod, code: int = 1) -> None:
    for pod in which:
        set_phase(world, pod, "Failed", code)
    world.wait(2)


def conditions(world: ControllerWorld) -> list[str]:
    return [c.type for c in stored(world).status.conditions if c.status == "True"]


def reason(world: ControllerWorld) -> str:
    return stored(world).status.conditions[-1].reason


def counts(world: ControllerWorld) -> tuple[int, int, int]:
    status = stored(world).status
    return status.active, status.succeeded, status.failed


def uncounted(world: ControllerWorld) -> int:
    found = stored(world).status.uncounted_terminated_pods
    return len(found.succeeded) + len(found.failed)


# ------------------------------------------------------------------ to the end


def test_a_job_makes_one_pod_and_is_complete_when_it_succeeds(world: ControllerWorld) -> None:
    put(world, job())
    (pod,) = pods(world)
    assert pod.metadata.generate_name == "sum-"
    assert pod.metadata.labels["batch.kubernetes.io/job-name"] == "sum"
    assert list(pod.metadata.finalizers) == [TRACKING]
    owner = pod.metadata.owner_references[0]
    assert (owner.api_version, owner.kind, owner.controller) == ("batch/v1", "Job", True)
    assert counts(world) == (1, 0, 0)
    assert stored(world).status.start_time.seconds == START
    finish(world, pod)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]
    assert reason(world) == "CompletionsReached"
    assert counts(world) == (0, 1, 0)
    assert stored(world).status.HasField("completion_time")
    assert not uncounted(world)
    assert not pods(world)[0].metadata.finalizers
    assert "Job sum Normal Completed: Job completed" in world.events


def test_as_many_pods_run_as_the_parallelism_says_until_all_have_succeeded(
    world: ControllerWorld,
) -> None:
    put(world, job(completions=5, parallelism=2))
    most = 0
    for _ in range(5):
        most = max(most, len(active(world)))
        finish(world, active(world)[0])
    assert most == 2
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]
    assert counts(world) == (0, 5, 0)
    assert len(pods(world)) == 5


def test_without_completions_one_success_ends_it_once_the_others_have_ended(
    world: ControllerWorld,
) -> None:
    put(world, job(parallelism=3))
    first, second, third = pods(world)
    finish(world, first)
    assert len(active(world)) == 2
    assert not conditions(world)
    fail(world, second)
    finish(world, third)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]
    assert counts(world) == (0, 2, 1)


def test_pods_that_are_deleted_count_as_failed_and_are_replaced(world: ControllerWorld) -> None:
    put(world, job(completions=2))
    (pod,) = pods(world)
    set_phase(world, pod, "Running")
    world.mark(world.pod(f"default/{pod.metadata.name}"))
    world.wait(2)
    assert counts(world)[2] == 1
    assert not pods(world)
    world.wait(12)
    assert len(active(world)) == 1


def test_finished_pods_count_although_they_are_deleted(world: ControllerWorld) -> None:
    put(world, job(completions=2, parallelism=2))
    first, second = pods(world)
    set_phase(world, first, "Succeeded")
    world.mark(world.pod(f"default/{first.metadata.name}"))
    finish(world, second)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]
    assert counts(world) == (0, 2, 0)


def test_more_pods_than_fit_into_the_status_are_counted_in_parts(world: ControllerWorld) -> None:
    put(world, job(completions=1200, parallelism=1200))
    world.wait(10)
    assert len(pods(world)) == 1200
    most = 0
    for pod in pods(world):
        set_phase(world, pod, "Succeeded")
    for _ in range(100):
        world.wait(0.5)
        most = max(most, uncounted(world))
    assert most <= 500
    assert counts(world) == (0, 1200, 0)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]


def test_fewer_parallel_pods_are_removed_without_counting_as_failed(world: ControllerWorld) -> None:
    put(world, job(completions=10, parallelism=4))
    set_phase(world, pods(world)[0], "Running")
    change(world, parallelism=1)
    assert [pod.status.phase for pod in active(world)] == ["Running"]
    assert counts(world) == (1, 0, 0)


def test_a_new_leader_removes_the_pod_whose_removal_the_last_one_began(
    world: ControllerWorld,
) -> None:
    """It has lost the finalizer: were it kept, nobody would count it."""
    put(world, job(completions=10, parallelism=2))
    for pod in pods(world):
        set_phase(world, pod, "Running")
    world.wait(2)
    changed = Job()
    changed.CopyFrom(stored(world))
    changed.spec.parallelism = 1
    world.put(changed)
    world.step()
    (kept,) = (pod for pod in active(world) if TRACKING in pod.metadata.finalizers)
    assert len(active(world)) == 2
    restarted = Pod()
    restarted.CopyFrom(kept)
    restarted.status.container_statuses.add(name="c", restart_count=1)
    world.put(restarted)
    world.start_anew(JobController(world, world, world))
    world.wait(2)
    assert [pod.metadata.name for pod in active(world)] == [kept.metadata.name]


def test_a_job_that_another_controller_manages_is_left_alone(world: ControllerWorld) -> None:
    put(world, job(managedBy="example.com/other"))
    assert not pods(world)
    assert not stored(world).status.HasField("start_time")


def test_refused_pods_are_tried_again(world: ControllerWorld) -> None:
    world.refuse = lambda _: Forbidden("exceeded quota")
    put(world, job())
    assert "Job sum Warning FailedCreate: Error creating: exceeded quota" in world.events
    world.refuse = lambda _: None
    world.wait(5)
    assert len(pods(world)) == 1


# ------------------------------------------------------------------ failures


def test_too_many_failures_end_it(world: ControllerWorld) -> None:
    put(world, job(backoffLimit=2, parallelism=2, completions=2))
    for _ in range(3):
        fail(world, active(world)[0])
        world.wait(60)
    assert conditions(world) == ["FailureTarget", "Failed"]
    assert reason(world) == "BackoffLimitExceeded"
    assert not active(world)
    assert counts(world) == (0, 0, 4)  # The one that still ran counts as well.
    assert (
        "Job sum Warning BackoffLimitExceeded: Job has reached the specified backoff limit"
        in world.events
    )


def test_failed_pods_are_replaced_ever_later(world: ControllerWorld) -> None:
    put(world, job())
    delays = []
    for _ in range(4):
        failed_at = world.time
        fail(world, active(world)[0])
        while not active(world):
            world.wait(1, step=1)
        delays.append(world.time - failed_at)
    assert delays == [10, 20, 40, 80]


def test_a_success_ends_the_backoff(world: ControllerWorld) -> None:
    put(world, job(completions=5, parallelism=2))
    fail(world, active(world)[0])
    assert len(active(world)) == 1
    finish(world, active(world)[0])
    assert len(active(world)) == 2


def test_containers_that_are_restarted_too_often_end_it(world: ControllerWorld) -> None:
    put(world, job(restart="OnFailure", backoffLimit=3))
    changed = Pod()
    changed.CopyFrom(pods(world)[0])
    changed.status.phase = "Running"
    changed.status.container_statuses.add(name="c", restart_count=3)
    world.put(changed)
    world.wait(2)
    assert conditions(world) == ["FailureTarget", "Failed"]


def test_it_fails_when_it_has_been_active_for_too_long(world: ControllerWorld) -> None:
    put(world, job(activeDeadlineSeconds=30, parallelism=2, completions=2))
    world.wait(26)
    assert not conditions(world)
    world.wait(5)
    assert conditions(world) == ["FailureTarget", "Failed"]
    assert reason(world) == "DeadlineExceeded"
    assert not pods(world)
    assert counts(world) == (0, 0, 2)


POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
}


def test_an_exit_code_of_its_policy_fails_the_job_at_once(world: ControllerWorld) -> None:
    put(world, job(podFailurePolicy=POLICY, parallelism=2, completions=2))
    pod = active(world)[0]
    fail(world, pod, code=42)
    assert conditions(world) == ["FailureTarget", "Failed"]
    last = stored(world).status.conditions[-1]
    assert last.reason == "PodFailurePolicy"
    assert last.message == (
        f"Container c for pod default/{pod.metadata.name} failed with exit code 42 matching "
        "FailJob rule at index 0"
    )


def test_a_disrupted_pod_that_its_policy_ignores_does_not_count(world: ControllerWorld) -> None:
    put(world, job(podFailurePolicy=POLICY, backoffLimit=0))
    pod = active(world)[0]
    changed = Pod()
    changed.CopyFrom(pod)
    changed.status.conditions.add(type="DisruptionTarget", status="True")
    world.put(changed)
    fail(world, changed)
    assert counts(world)[2] == 0
    assert not conditions(world)
    world.wait(12)
    finish(world, active(world)[0])
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]


def test_with_policy_failed_a_pod_is_replaced_only_when_it_has_ended(
    world: ControllerWorld,
) -> None:
    put(world, job(podReplacementPolicy="Failed", backoffLimit=6))
    (pod,) = pods(world)
    set_phase(world, pod, "Running")
    world.mark(world.pod(f"default/{pod.metadata.name}"))
    world.wait(60)
    assert not active(world)
    assert stored(world).status.terminating == 1
    set_phase(world, pod, "Failed", 137)
    world.wait(15)
    assert len(active(world)) == 1
    assert counts(world) == (1, 0, 1)


# ------------------------------------------------------------------ suspension


def test_a_suspended_job_makes_no_pods_until_it_is_resumed(world: ControllerWorld) -> None:
    put(world, job(suspend=True, completions=2, parallelism=2))
    assert not pods(world)
    assert conditions(world) == ["Suspended"]
    assert not stored(world).status.HasField("start_time")
    change(world, suspend=False)
    assert len(active(world)) == 2
    assert not conditions(world)
    assert stored(world).status.HasField("start_time")
    assert "Job sum Normal Resumed: Job resumed" in world.events


def test_suspension_removes_the_pods_without_counting_them(world: ControllerWorld) -> None:
    put(world, job(completions=2, parallelism=2))
    change(world, suspend=True)
    assert not pods(world)
    assert counts(world) == (0, 0, 0)
    assert conditions(world) == ["Suspended"]
    assert "Job sum Normal Suspended: Job suspended" in world.events


# ------------------------------------------------------------------ indexes


def test_each_index_has_a_pod(world: ControllerWorld) -> None:
    put(world, job(completionMode="Indexed", completions=3, parallelism=3))
    found = sorted(pods(world), key=lambda pod: pod.metadata.annotations[INDEX])
    for index, pod in enumerate(found):
        assert pod.metadata.annotations[INDEX] == pod.metadata.labels[INDEX] == str(index)
        assert pod.metadata.name.startswith(f"sum-{index}-")
        assert pod.spec.hostname == f"sum-{index}"
        variable = pod.spec.containers[0].env[0]
        assert variable.name == "JOB_COMPLETION_INDEX"
        assert dict(variable.value_from["fieldRef"]) == {"fieldPath": f"metadata.labels['{INDEX}']"}


def test_indexes_complete_once_each(world: ControllerWorld) -> None:
    put(world, job(completionMode="Indexed", completions=6, parallelism=3))
    by_index = {int(pod.metadata.annotations[INDEX]): pod for pod in pods(world)}
    finish(world, by_index[0], by_index[2])
    assert stored(world).status.completed_indexes == "0,2"
    fail(world, by_index[1])
    world.wait(12)
    running = Counter(pod.metadata.annotations[INDEX] for pod in active(world))
    assert running == {"1": 1, "3": 1, "4": 1}
    while active(world):
        finish(world, *active(world))
        world.wait(10)
    assert stored(world).status.completed_indexes == "0-5"
    assert counts(world) == (0, 6, 1)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]


def test_two_pods_of_an_index_become_one(world: ControllerWorld) -> None:
    put(world, job(completionMode="Indexed", completions=2, parallelism=2))
    second = Pod()
    second.CopyFrom(pods(world)[0])
    second.metadata.name, second.metadata.uid = "sum-0-copy", "uid-copy"
    world.put(second)
    world.wait(2)
    assert Counter(pod.metadata.annotations[INDEX] for pod in active(world)) == {"0": 1, "1": 1}
    assert counts(world)[2] == 0


def test_an_index_that_fails_too_often_fails_alone(world: ControllerWorld) -> None:
    put(
        world,
        job(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1),
    )
    for failures in ("0", "1"):
        pod = next(p for p in active(world) if p.metadata.annotations[INDEX] == "0")
        annotations = pod.metadata.annotations
        assert annotations["batch.kubernetes.io/job-index-failure-count"] == failures
        fail(world, pod)
        world.wait(15)
    assert stored(world).status.failed_indexes == "0"
    assert [pod.metadata.annotations[INDEX] for pod in active(world)] == ["1"]
    finish(world, active(world)[0])
    assert conditions(world) == ["FailureTarget", "Failed"]
    assert reason(world) == "FailedIndexes"
    assert stored(world).status.completed_indexes == "1"
    assert counts(world) == (0, 1, 2)


def test_too_many_failed_indexes_end_it(world: ControllerWorld) -> None:
    put(
        world,
        job(
            completionMode="Indexed",
            completions=4,
            parallelism=4,
            backoffLimitPerIndex=0,
            maxFailedIndexes=1,
        ),
    )
    fail(world, active(world)[0])
    assert not conditions(world)
    fail(world, active(world)[0])
    assert conditions(world) == ["FailureTarget", "Failed"]
    assert reason(world) == "MaxFailedIndexesExceeded"


def test_a_success_policy_ends_it_early(world: ControllerWorld) -> None:
    rules = [{"succeededIndexes": "0,2", "succeededCount": 1}]
    put(
        world,
        job(
            completionMode="Indexed",
            completions=3,
            parallelism=3,
            successPolicy={"rules": rules},
        ),
    )
    leader = next(pod for pod in pods(world) if pod.metadata.annotations[INDEX] == "2")
    finish(world, leader)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]
    assert reason(world) == "SuccessPolicy"
    assert stored(world).status.conditions[0].message == "Matched rules at index 0"
    assert not active(world)
    assert counts(world) == (0, 1, 0)


# ------------------------------------------------------------------ other leaders, other owners


def test_a_new_leader_goes_on_wherever_the_last_one_was(world: ControllerWorld) -> None:
    """At each step the controller is replaced by one that knows only what is stored."""
    world.put(job(completions=6, parallelism=3, backoffLimit=6))
    ended: set[str] = set()
    for _ in range(200):
        world.start_anew(JobController(world, world, world))
        world.step()
        world.time += 1
        for pod in active(world):
            name = pod.metadata.name
            if name not in ended and world.time % 3 == 0:
                ended.add(name)
                set_phase(world, pod, "Failed" if len(ended) == 2 else "Succeeded", 1)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]
    assert counts(world) == (0, 6, 1)
    assert len(pods(world)) == 7
    assert not any(pod.metadata.finalizers for pod in pods(world))


def test_pods_of_a_deleted_job_lose_the_finalizer(world: ControllerWorld) -> None:
    put(world, job(parallelism=2, completions=2))
    world.remove("Job", "default/sum")
    world.wait(2)
    assert pods(world)
    assert not any(pod.metadata.finalizers for pod in pods(world))


def test_pods_without_a_job_lose_the_finalizer_when_a_leader_begins(world: ControllerWorld) -> None:
    orphan = Pod()
    orphan.metadata.name, orphan.metadata.namespace = "left", "default"
    orphan.metadata.finalizers.append(TRACKING)
    world.put(orphan)
    world.start(JobController(world, world, world))
    world.wait(1)
    assert not world.pod("default/left").metadata.finalizers


def selecting_job(**spec: int) -> Job:
    item = job(manualSelector=True, selector={"matchLabels": {"app": "sum"}}, **spec)
    item.spec.template.metadata.labels["app"] = "sum"
    return item


@pytest.mark.parametrize("finalizers", [[], [TRACKING]])
def test_a_job_with_a_selector_by_hand_adopts_pods(
    world: ControllerWorld, finalizers: list[str]
) -> None:
    orphan = Pod()
    orphan.metadata.name, orphan.metadata.namespace = "left", "default"
    orphan.metadata.labels["app"] = "sum"
    orphan.metadata.finalizers.extend(finalizers)
    world.put_in_one_batch(orphan, selecting_job(parallelism=1))
    world.wait(2)
    adopted = world.pod("default/left")
    assert len(pods(world)) == 1
    assert list(adopted.metadata.finalizers) == [TRACKING]
    finish(world, adopted)
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]


def test_a_pod_that_only_a_finished_job_selects_loses_the_finalizer(
    world: ControllerWorld,
) -> None:
    put(world, job())
    finish(world, *pods(world))
    [done] = pods(world)
    orphan = Pod()
    orphan.metadata.name, orphan.metadata.namespace = "left", "default"
    orphan.metadata.labels.update(done.metadata.labels)
    orphan.metadata.finalizers.append(TRACKING)
    world.put(orphan)
    world.wait(1)
    assert not world.pod("default/left").metadata.finalizers


def test_a_pod_that_is_deleted_before_a_job_adopts_it_loses_the_finalizer(
    world: ControllerWorld,
) -> None:
    put(world, selecting_job(suspend=True))
    orphan = bound_pod("left", "n1", app="sum")
    orphan.metadata.finalizers.append(TRACKING)
    world.mark(orphan)
    world.wait(1)
    assert not pods(world)


def test_a_job_counts_pods_that_finished_before_it_adopts_them(world: ControllerWorld) -> None:
    item = selecting_job(completions=2)
    done = bound_pod("done", "n1", app="sum")
    done.status.phase = "Succeeded"
    world.put(done)
    put(world, item)
    assert stored(world).status.succeeded == 1
    assert stored(world).status.active == 1


# ------------------------------------------------------------------ in queues

GROUP = "kueue.x-k8s.io/pod-group-name"


def queued_job() -> Job:
    item = job(parallelism=2, completions=2, backoffLimit=3)
    item.metadata.labels["kueue.x-k8s.io/queue-name"] = "team"
    default_queued_job(item)
    return item


def test_pods_of_a_queued_job_are_a_group_again_after_a_failure(world: ControllerWorld) -> None:
    put(world, queued_job())
    fail(world, active(world)[0])
    world.wait(30)
    assert [pod.metadata.labels[GROUP] for pod in active(world)] == ["sum", "sum"]


def test_a_pod_that_is_made_after_others_have_succeeded_is_in_no_group(
    world: ControllerWorld,
) -> None:
    put(world, queued_job())
    first, second = active(world)
    set_phase(world, second, "Running")
    finish(world, first)
    fail(world, second)
    world.wait(30)
    (pod,) = active(world)
    assert GROUP not in pod.metadata.labels
    assert pod.metadata.labels["kueue.x-k8s.io/queue-name"] == "team"


def test_pods_that_wait_for_members_that_have_ended_are_made_again_without_the_group(
    world: ControllerWorld,
) -> None:
    put(world, queued_job())
    first, second = active(world)
    finish(world, first)
    world.wait(30)
    (pod,) = active(world)
    assert pod.metadata.uid != second.metadata.uid
    assert GROUP not in pod.metadata.labels
    assert counts(world) == (1, 1, 0)


def test_pods_that_succeed_are_counted_whatever_size_the_group_is_said_to_have(
    world: ControllerWorld,
) -> None:
    item = queued_job()
    item.spec.template.metadata.annotations["kueue.x-k8s.io/pod-group-total-count"] = "9" * 5000
    put(world, item)
    finish(world, active(world)[0])
    assert counts(world) == (1, 1, 0)
    assert not world.faults


def evict(world: ControllerWorld, pod: Pod, reason: str) -> None:
    """Evict a pod that a queue has admitted, as the leader does."""
    changed = Pod()
    changed.CopyFrom(world.pod(f"default/{pod.metadata.name}"))
    changed.spec.node_name, changed.status.phase = "n1", "Running"
    changed.metadata.annotations["podsched.io/flavors"] = '{"cpu":"default"}'
    changed.status.conditions.add(type="DisruptionTarget", status="True", reason=reason)
    world.mark(changed)


@pytest.mark.parametrize(
    "reason", ["PreemptionByScheduler", "ClusterQueueStopped", "PodsReadyTimeout"]
)
def test_pods_that_their_queue_evicts_are_no_failures_and_others_wait_at_once(
    world: ControllerWorld, reason: str
) -> None:
    put(world, queued_job())
    for _ in range(3):
        old = active(world)
        for pod in old:
            evict(world, pod, reason)
        world.wait(2)
        assert [pod.metadata.labels[GROUP] for pod in active(world)] == ["sum", "sum"]
        assert not {pod.metadata.uid for pod in active(world)} & {p.metadata.uid for p in old}
    assert counts(world) == (2, 0, 0)
    assert not conditions(world)
    assert not uncounted(world)


@pytest.mark.parametrize("reason", ["EvictionByEvictionAPI", "DeadlineExceeded"])
def test_pods_of_a_queue_that_are_evicted_for_other_reasons_are_failures(
    world: ControllerWorld, reason: str
) -> None:
    put(world, queued_job())
    for pod in active(world):
        evict(world, pod, reason)
    world.wait(2)
    assert counts(world)[2] == 2


def test_a_pod_of_no_group_that_was_not_ready_in_time_is_a_failure(world: ControllerWorld) -> None:
    put(world, job(backoffLimit=3))
    evict(world, active(world)[0], "PodsReadyTimeout")
    world.wait(2)
    assert counts(world) == (0, 0, 1)


def test_a_job_whose_queue_has_deactivated_it_is_suspended_until_it_is_resumed(
    world: ControllerWorld,
) -> None:
    put(world, queued_job())
    for pod in active(world):
        evict(world, pod, "Deactivated")
    world.wait(30)
    assert stored(world).spec.suspend
    assert conditions(world) == ["Suspended"]
    assert not active(world)
    assert counts(world) == (0, 0, 0)
    change(world, suspend=False)
    world.wait(30)
    assert len(active(world)) == 2
    assert not stored(world).spec.suspend


def test_a_job_is_not_suspended_if_a_pod_group_says_that_it_is_deactivated(
    world: ControllerWorld,
) -> None:
    item = job()
    item.spec.template.spec.scheduling_group.pod_group_name = "g"
    put(world, item)
    evict(world, active(world)[0], "Deactivated")
    world.wait(2)
    assert not stored(world).spec.suspend
    assert len(active(world)) == 1


def test_the_deadline_of_a_job_in_a_queue_counts_while_its_pods_have_nodes(
    world: ControllerWorld,
) -> None:
    item = queued_job()
    item.spec.active_deadline_seconds = 20
    put(world, item)
    world.wait(30)
    assert not stored(world).status.HasField("start_time")
    for pod in active(world):
        set_phase(world, pod, "Running")
    world.wait(15)
    for pod in active(world):
        evict(world, pod, "PreemptionByScheduler")
    world.wait(15)
    assert not stored(world).status.HasField("start_time")
    started = world.time
    for pod in active(world):
        set_phase(world, pod, "Running")
    world.wait(15)
    assert abs(stored(world).status.start_time.seconds - started) <= 1
    assert not conditions(world)
    world.wait(15)
    assert reason(world) == "DeadlineExceeded"


def test_a_job_that_ends_while_it_waits_in_a_queue_has_started(world: ControllerWorld) -> None:
    item = queued_job()
    item.spec.backoff_limit = 0
    put(world, item)
    world.mark(world.pod(f"default/{active(world)[0].metadata.name}"))
    world.wait(10)
    assert "Failed" in conditions(world)
    assert stored(world).status.HasField("start_time")


def test_a_job_that_is_resumed_joins_the_queue_of_its_label(world: ControllerWorld) -> None:
    put(world, queued_job())
    change(world, suspend=True)
    moved = Job()
    moved.CopyFrom(stored(world))
    moved.metadata.labels["kueue.x-k8s.io/queue-name"] = "other"
    moved.spec.suspend = False
    put(world, moved)
    queues = [pod.metadata.labels["kueue.x-k8s.io/queue-name"] for pod in active(world)]
    assert queues == ["other", "other"]


def test_the_priority_class_of_a_job_is_handed_on_to_its_pods(world: ControllerWorld) -> None:
    label = "kueue.x-k8s.io/priority-class"
    item = job(parallelism=2, completions=2)
    item.metadata.labels.update({"kueue.x-k8s.io/queue-name": "team", label: "low"})
    default_queued_job(item)
    put(world, item)
    for wanted in ("high", "low"):
        changed = Job()
        changed.CopyFrom(stored(world))
        changed.metadata.labels[label] = wanted
        put(world, changed)
        assert [pod.metadata.labels[label] for pod in active(world)] == [wanted, wanted]
    finish(world, *active(world))
    assert conditions(world) == ["SuccessCriteriaMet", "Complete"]


@pytest.mark.parametrize("adopted", [False, True])
def test_pods_that_a_deleted_job_leaves_behind_lose_its_finalizer(
    world: ControllerWorld, adopted: bool
) -> None:
    """The garbage collector may take the reference away before the finalizer is removed.

    Then a ReplicaSet may adopt them before, too.
    """
    put(world, job())
    world.mark(stored(world), "Orphan")
    for pod in pods(world):
        left = Pod()
        left.CopyFrom(pod)
        del left.metadata.owner_references[:]
        if adopted:
            add_controller(left.metadata, ReplicaSet())
        world.put(left)
    world.wait(2)
    world.remove("Job", "default/sum")
    world.wait(2)
    assert [list(pod.metadata.finalizers) for pod in pods(world)] == [[]]
