"""What a replica adds to an explanation: state, queue, attempts, nominations."""

from __future__ import annotations

import pytest

from podsched.ask.live_explanation import NOT_TRIED, Clock, explain_live
from podsched.v1.scheduling_pb2 import ExplainRequest, PodState
from support.engine_world import pod
from support.explain_world import EPOCH, ExplainWorld


@pytest.fixture
def world() -> ExplainWorld:
    """One node with 4 cpu."""
    made = ExplainWorld()
    made.node("a")
    return made


def test_a_rejected_pod_tells_its_queue_its_attempts_and_its_backoff(world: ExplainWorld) -> None:
    world.pod("web", "5")
    world.now = 110.0
    world.fail("web", "NodeResourcesFit")
    world.now = 110.5
    queue = world.explain("web").queue
    assert (queue.queue, queue.attempts, queue.unschedulable_count) == ("unschedulable", 1, 1)
    assert list(queue.unschedulable_plugins) == ["NodeResourcesFit"]
    assert queue.since.ToMilliseconds() / 1000 == EPOCH + 110.0
    assert queue.first_attemptable.ToMilliseconds() / 1000 == EPOCH + 100.0
    assert (queue.backoff_seconds, queue.backoff_left_seconds) == (1.0, 1.5)
    assert queue.timeout_left_seconds == 299.5


def test_the_last_failed_attempts_are_remembered_the_latest_last(world: ExplainWorld) -> None:
    world.pod("web", "5")
    for number in range(7):
        world.now = 110.0 + 100 * number
        known = world.state.cache.cluster.pods["default/web"]
        world.state.queue.activate([known], world.now)
        world.fail("web", *(["NodeResourcesFit"] if number % 2 else []))
    attempts = world.explain("web").attempts
    assert [attempt.number for attempt in attempts] == [3, 4, 5, 6, 7]
    assert [attempt.outcome for attempt in attempts][:2] == ["Error", "Unschedulable"]
    assert attempts[-1].time.ToMilliseconds() / 1000 == EPOCH + 710.0


def test_pods_ahead_are_those_that_the_queue_hands_out_first(world: ExplainWorld) -> None:
    world.pod("low", priority=1)
    world.pod("high", priority=9)
    world.pod("web", priority=5)
    world.pod("other", priority=5)
    queue = world.explain("other").queue
    assert (queue.queue, queue.ahead) == ("active", 2)
    assert [ahead.name for ahead in queue.pods_ahead] == ["high", "web"]
    assert queue.waiting["active"] == 4


def test_a_gated_pod_tells_its_gate(world: ExplainWorld) -> None:
    world.pod("web", schedulingGates=[{"name": "later"}])
    queue = world.explain("web").queue
    assert (queue.queue, queue.gating_plugin) == ("gated", "SchedulingGates")
    assert list(queue.gate_reasons) == ["waiting for scheduling gates: [later]"]


def test_a_pod_that_is_being_decided_on_is_in_flight(world: ExplainWorld) -> None:
    world.pod("web")
    assert world.state.queue.attempts.pop(world.now) is not None
    assert world.explain("web").queue.queue == "in-flight"


def test_nominations_that_its_filters_count_are_told(world: ExplainWorld) -> None:
    for name, priority in (("higher", 9), ("lower", 1), ("web", 5)):
        world.pod(name, "3", priority=priority)
        known = world.state.cache.cluster.pods[f"default/{name}"]
        world.state.cache.nominate(known, "a")
    told = [(n.pod.name, n.node_name, n.own) for n in world.explain("web").nominations]
    assert told == [("web", "a", True), ("higher", "a", False)]


def test_states_of_pods_that_do_not_wait(world: ExplainWorld) -> None:
    world.pod("bound", on="a")
    world.pod("foreign", schedulerName="other")
    world.pod("chosen")
    chosen = world.state.cache.cluster.pods["default/chosen"]
    world.state.cache.assume(chosen, "a")
    leaving = pod("leaving", {"schedulerName": "default-scheduler"})
    leaving.metadata.deletion_timestamp.FromSeconds(1)
    world.put(leaving)
    found = {name: world.explain(name) for name in ("bound", "foreign", "chosen", "leaving")}
    assert [answer.state for answer in found.values()] == [
        PodState.BOUND,
        PodState.OTHER_SCHEDULER,
        PodState.BINDING,
        PodState.DELETING,
    ]
    assert found["bound"].pod.node_name == found["chosen"].pod.node_name == "a"
    assert "no profile here is called other" in found["foreign"].message


def test_nodes_asked_for_of_a_pod_that_has_one_get_a_note_instead_of_a_result(
    world: ExplainWorld,
) -> None:
    world.pod("bound", on="a")
    world.pod("web")
    assert NOT_TRIED in world.explain("bound", "a").notes
    assert NOT_TRIED not in world.explain("bound").notes
    assert NOT_TRIED not in world.explain("web", "a").notes


def test_a_finished_pod_is_told_from_what_is_stored_and_an_unknown_one_is_not(
    world: ExplainWorld,
) -> None:
    done = pod("done")
    done.status.phase = "Succeeded"
    request = ExplainRequest(namespace="default", name="done")
    found = explain_live(world.state, request, Clock(world.now, EPOCH), done)
    assert found is not None
    assert (found.state, found.message) == (PodState.FINISHED, "the pod has ended: Succeeded")
    assert explain_live(world.state, request, Clock(world.now, EPOCH)) is None


def test_a_pod_that_is_set_aside_is_told_with_the_reason(world: ExplainWorld) -> None:
    states = {"waits": PodState.PENDING, "bound": PodState.BOUND, "leaving": PodState.DELETING}
    for name, state in states.items():
        stored = pod(name, {"nodeName": "a"} if name == "bound" else {})
        stored.spec.containers.add(name="c").resources.requests["cpu"] = "x"
        if name == "leaving":
            stored.metadata.deletion_timestamp.FromSeconds(1)
        world.put(stored)
        request = ExplainRequest(namespace="default", name=name)
        found = explain_live(world.state, request, Clock(world.now, EPOCH), stored)
        assert found is not None
        assert found.state == state
        assert found.message.startswith("the pod cannot be used and is ignored until it changes:")


def test_explaining_changes_nothing_and_counts_as_no_run_of_a_plugin(world: ExplainWorld) -> None:
    world.pod("web", "5", priority=3)
    world.pod("there", "2", on="a")
    before = (world.state.cache.cluster.stamp, world.state.queue.pending.counts())
    first = world.explain("web")
    second = world.explain("web")
    assert first == second
    assert (world.state.cache.cluster.stamp, world.state.queue.pending.counts()) == before
    world.state.queue.check_invariants()
