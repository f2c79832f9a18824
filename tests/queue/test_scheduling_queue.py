from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from podsched.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.pods import PodInfo
from podsched.queue import timeouts
from podsched.queue.scheduling_queue import SchedulingQueue
from podsched.v1 import objects_pb2 as v1
from support.queue_world import (
    NODE_ADD,
    NODE_TAINT,
    POD_DELETE,
    PROFILE,
    Gate,
    Hint,
    Incoming,
    PrioritySort,
    pod,
    pod_class,
    queue_of,
    reject,
)

ON_NODE_ADD = {"Fit": [ClusterEventWithHint(NODE_ADD)]}


def popped_names(queue: SchedulingQueue, now: float) -> list[str]:
    names = []
    while (popped := queue.attempts.pop(now)) is not None:
        names.append(popped.info.name)
        queue.in_flight.done(popped.info.uid)
    return names


def test_pods_leave_by_priority_and_equals_in_order_of_entry() -> None:
    queue = queue_of()
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        queue.add(pod(name, priority=priority), 1.0)
    assert popped_names(queue, 1.0) == ["b", "d", "a", "c"]


def test_adding_a_pod_twice_keeps_one_with_the_newest_version() -> None:
    queue, newest = queue_of(), pod("a")
    queue.add(pod("a"), 1.0)
    queue.add(newest, 2.0)
    popped = queue.attempts.pop(2.0)
    assert popped is not None and popped.info is newest
    assert queue.attempts.pop(2.0) is None


def test_pop_counts_attempts_and_forgets_who_rejected_the_pod() -> None:
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Fit")
    assert queue.pending.rejections.counts == {("Fit", PROFILE): 1}
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 5.0)
    popped = queue.attempts.pop(5.0)
    assert popped is not None
    assert (popped.attempts, popped.unschedulable_plugins) == (2, set())
    assert queue.pending.rejections.counts == {}


def test_a_batch_holds_consecutive_pods_of_one_class_only() -> None:
    queue, one, other = queue_of(), pod_class(), pod_class()
    for name, cls in (("a", one), ("b", one), ("c", other), ("d", one)):
        queue.add(pod(name, cls), 1.0)
    batches = [[p.info.name for p in queue.attempts.pop_batch(1.0, 10)] for _ in range(4)]
    assert batches == [["a", "b"], ["c"], ["d"], []]


def test_a_batch_is_no_longer_than_its_limit() -> None:
    queue, cls = queue_of(), pod_class()
    for name in "abc":
        queue.add(pod(name, cls), 1.0)
    assert len(queue.attempts.pop_batch(1.0, 2)) == 2


def test_returned_pods_keep_their_place_and_their_attempts() -> None:
    queue, cls = queue_of(), pod_class()
    for name in "abc":
        queue.add(pod(name, cls), 1.0)
    batch = queue.attempts.pop_batch(1.0, 2)
    queue.attempts.return_unattempted(batch, 3.0)
    assert batch[0].attempts == 0
    assert popped_names(queue, 3.0) == ["a", "b", "c"]


# Backoff.


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (9, 10.0)]
)
def test_the_backoff_doubles_up_to_its_maximum(failures: int, seconds: float) -> None:
    queue, now = queue_of(), 100.0
    queue.add(pod("a"), now)
    for _ in range(failures):
        popped = queue.attempts.pop(now)
        assert popped is not None
        queue.attempts.add_unschedulable_if_not_present(popped, now)
        now += 0.0 if popped.consecutive_errors_count == failures else 20.0
        queue.timeouts.flush_backoff_completed(now)
    # The end is floored, and the pod waits for the first whole second after it.
    assert queue.timeouts.next_wakeup(now) == now + seconds + 1.0


def test_a_backoff_is_over_in_the_second_after_its_floored_end() -> None:
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("a"), 10.3)
    reject(queue, 10.3, "Fit")  # 10.3 + 1 s, floored: 11.
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 11.9)
    assert queue.pending.counts()["backoff"] == 1
    assert queue.timeouts.next_wakeup(11.9) == 12.0
    assert queue.timeouts.flush_backoff_completed(11.99) == 0
    assert queue.timeouts.flush_backoff_completed(12.0) == 1
    assert queue.pending.counts()["active"] == 1


def test_a_helped_pod_whose_backoff_is_over_is_active_at_once() -> None:
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("a"), 10.3)
    reject(queue, 10.3, "Fit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 12.0)
    assert queue.pending.counts()["active"] == 1


def test_an_idle_queue_pops_pods_that_are_still_backing_off() -> None:
    observer = Incoming()
    queue = queue_of(ON_NODE_ADD, observer=observer, initial_backoff=30.0, max_backoff=60.0)
    queue.add(pod("a"), 10.0)
    reject(queue, 10.0, "Fit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 10.5)
    assert popped_names(queue, 10.5) == ["a"]
    assert observer.counts["active", "PopFromBackoffQ"] == 1


def test_a_pod_that_met_an_error_is_not_popped_before_its_backoff_is_over() -> None:
    queue = queue_of()
    queue.add(pod("a"), 10.0)
    reject(queue, 10.0)
    assert queue.place("uid-a") == "backoff"
    assert queue.attempts.pop(11.9) is None
    queue.timeouts.flush_backoff_completed(12.0)
    assert queue.attempts.pop(12.0) is not None


def test_pods_whose_backoff_ends_together_leave_by_priority() -> None:
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("low", priority=1), 10.1)
    reject(queue, 10.1, "Fit")
    queue.add(pod("high", priority=9), 10.8)
    reject(queue, 10.8, "Fit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 10.9)
    assert popped_names(queue, 10.9) == ["high", "low"]


def test_pods_still_backing_off_come_after_those_that_are_not() -> None:
    queue = queue_of(ON_NODE_ADD, initial_backoff=3.0, max_backoff=3.0)
    queue.add(pod("low", priority=1), 10.0)
    reject(queue, 10.0, "Fit")
    queue.add(pod("high", priority=9), 14.5)
    reject(queue, 14.5, "Fit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 15.0)
    assert popped_names(queue, 15.0) == ["low", "high"]


def test_a_rejection_ends_a_series_of_errors() -> None:
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("a"), 10.0)
    popped = reject(queue, 10.0)
    queue.timeouts.flush_backoff_completed(20.0)
    reject(queue, 20.0, "Fit")
    assert (popped.consecutive_errors_count, popped.unschedulable_count) == (0, 1)


def test_without_a_maximum_there_is_no_backoff() -> None:
    queue = queue_of(max_backoff=0.0)
    queue.add(pod("a"), 10.0)
    reject(queue, 10.0)
    assert queue.place("uid-a") == "active"


# Hints.


def test_an_event_moves_the_pods_its_hint_says_it_helps() -> None:
    helped = pod_class()
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, Hint(helped))]})
    for info in (pod("a", helped), pod("b"), pod("c", helped)):
        queue.add(info, 1.0)
        reject(queue, 1.0, "Fit")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, v1.Node(), 5.0) == 2
    assert popped_names(queue, 5.0) == ["a", "c"]


def test_only_plugins_that_rejected_the_pod_are_asked() -> None:
    hint = Hint(always=True)
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, hint)], "Other": []})
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Other")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 5.0) == 0
    assert hint.asked == []


def test_a_hint_is_asked_once_for_all_pods_of_a_class() -> None:
    cls, hint = pod_class(), Hint()
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, hint)]})
    for number in range(50):
        queue.add(pod(f"p{number}", cls), 1.0)
        reject(queue, 1.0, "Fit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 5.0)
    assert len(hint.asked) == 1


def test_a_hint_that_looks_at_the_pod_is_asked_about_each() -> None:
    def only_b(info: PodInfo, old: Any, new: Any) -> QueueingHint:
        return QueueingHint.QUEUE if info.name == "b" else QueueingHint.SKIP

    cls = pod_class()
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, only_b, per_pod=True)]})
    for name in "abc":
        queue.add(pod(name, cls), 1.0)
        reject(queue, 1.0, "Fit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 5.0)
    assert popped_names(queue, 5.0) == ["b"]


def test_pods_with_ephemeral_volumes_are_asked_about_one_by_one() -> None:
    spec = v1.PodSpec(volumes=[v1.Volume(name="data", ephemeral=v1.EphemeralVolumeSource())])
    cls, hint = pod_class(spec=spec), Hint()
    queue = queue_of({"Volumes": [ClusterEventWithHint(NODE_ADD, hint)]})
    for name in "abc":
        queue.add(pod(name, cls), 1.0)
        reject(queue, 1.0, "Volumes")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 5.0)
    assert [asked[0].name for asked in hint.asked] == ["a", "b", "c"]


def test_a_pending_plugin_skips_the_backoff() -> None:
    queue = queue_of({"Permit": [ClusterEventWithHint(NODE_ADD)]}, initial_backoff=9.0)
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, pending=("Permit",))
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 1.1)
    assert queue.place("uid-a") == "active"


def test_a_failing_hint_queues_the_pod_and_is_reported() -> None:
    def broken(info: PodInfo, old: Any, new: Any) -> QueueingHint:
        raise KeyError("zone")

    observer = Incoming()
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, broken)]}, observer=observer)
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Fit")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 5.0) == 1
    assert observer.failed == [("Fit", "NodeAdd")]


def test_a_wildcard_event_moves_all_pods() -> None:
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, Hint())]})
    for name in "ab":
        queue.add(pod(name), 1.0)
        reject(queue, 1.0, "Fit")
    assert queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, None, 5.0) == 2


def test_who_waits_for_new_nodes_hears_of_nodes_whose_taints_changed() -> None:
    hint = Hint(always=True)
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, hint)]})
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Fit")
    node = v1.Node()
    assert queue.move_all_to_active_or_backoff(NODE_TAINT, v1.Node(), node, 5.0) == 1
    assert hint.asked[0][1:] == (None, node)


def test_who_asks_for_taint_changes_itself_is_asked_its_own_hint() -> None:
    event = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
    queue = queue_of({"Taints": [ClusterEventWithHint(event, Hint())]})
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Taints")
    assert queue.move_all_to_active_or_backoff(NODE_TAINT, None, v1.Node(), 5.0) == 0


def test_profiles_have_their_own_hints() -> None:
    second = pod_class(profile="second")
    queue = SchedulingQueue(
        PrioritySort(),
        {},
        {
            PROFILE: {"Fit": [ClusterEventWithHint(NODE_ADD, Hint())]},
            "second": {"Fit": [ClusterEventWithHint(NODE_ADD, Hint(always=True))]},
        },
    )
    for info in (pod("a"), pod("b", second)):
        queue.add(info, 1.0)
        reject(queue, 1.0, "Fit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 5.0)
    assert popped_names(queue, 5.0) == ["b"]


# Events while a pod is in flight.


def hint_for(number: int) -> ClusterEventWithHint:
    def answer(info: PodInfo, old: Any, new: Any) -> QueueingHint:
        return QueueingHint.QUEUE if new == number else QueueingHint.SKIP

    return ClusterEventWithHint(NODE_ADD, answer)


class FailingIndex:
    """Fails wherever it is asked to; it finds nothing by itself."""

    def __init__(self, point: str) -> None:
        self._point = point

    def add(self, member: Hashable, pod: PodInfo) -> None:
        self._fail("add")

    def remove(self, member: Hashable) -> None:
        self._fail("remove")

    def candidates(self, old: Any, new: Any) -> Iterator[Hashable]:
        self._fail("candidates")
        yield from ()

    def _fail(self, point: str) -> None:
        if point == self._point:
            raise RuntimeError(point)


@pytest.mark.parametrize("point", ["add", "candidates"])
def test_a_failing_index_wakes_the_pod_and_is_reported(point: str) -> None:
    observer, index = Incoming(), partial(FailingIndex, point)
    hints = {"Fit": [ClusterEventWithHint(NODE_ADD, Hint(always=True), index=index)]}
    queue = queue_of(hints, observer=observer)
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Fit")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 2.0) == 1
    assert ("Fit", "NodeAdd") in observer.failed


def test_an_index_that_cannot_forget_a_pod_does_not_keep_it_in_the_queue() -> None:
    observer, index = Incoming(), partial(FailingIndex, "remove")
    hints = {"Fit": [ClusterEventWithHint(NODE_ADD, index=index)]}
    queue, info = queue_of(hints, observer=observer), pod("a")
    queue.add(info, 1.0)
    reject(queue, 1.0, "Fit")
    queue.delete(info, 2.0)
    assert queue.place(info.uid) == "" and ("Fit", "NodeAdd") in observer.failed
    queue.check_invariants()


def test_an_event_during_the_attempt_counts_when_it_fails() -> None:
    queue = queue_of({"Fit": [hint_for(1)]})
    queue.add(pod("a"), 1.0)
    popped = queue.attempts.pop(1.0)
    assert popped is not None
    queue.move_all_to_active_or_backoff(NODE_ADD, None, 1, 1.0)
    place = queue.attempts.add_unschedulable_if_not_present(
        popped, 1.0, unschedulable_plugins=["Fit"]
    )
    assert place == "backoff"
    assert queue.in_flight.events.counts() == {}


def test_events_before_the_pop_do_not_count() -> None:
    queue = queue_of({"Fit": [hint_for(1)]})
    queue.add(pod("first"), 1.0)
    queue.add(pod("second"), 1.0)
    assert queue.attempts.pop(1.0) is not None
    queue.move_all_to_active_or_backoff(NODE_ADD, None, 1, 1.0)
    second = queue.attempts.pop(1.0)
    assert second is not None
    place = queue.attempts.add_unschedulable_if_not_present(
        second, 1.0, unschedulable_plugins=["Fit"]
    )
    assert place == "unschedulable"


def test_an_event_for_pods_in_flight_counts_for_them_and_wakes_no_waiting_pod() -> None:
    queue = queue_of({"Fit": [hint_for(1)]})
    for name in "ab":
        queue.add(pod(name), 1.0)
    waiting, flying = queue.attempts.pop(1.0), queue.attempts.pop(1.0)
    assert waiting is not None and flying is not None
    queue.attempts.add_unschedulable_if_not_present(waiting, 1.0, unschedulable_plugins=["Fit"])
    queue.note_for_in_flight(NODE_ADD, None, 1)
    assert queue.place(waiting.info.uid) == "unschedulable"
    place = queue.attempts.add_unschedulable_if_not_present(
        flying, 1.0, unschedulable_plugins=["Fit"]
    )
    assert place == "backoff"


def test_an_event_can_leave_one_pod_out() -> None:
    queue = queue_of({"Fit": [hint_for(1)]})
    for name in "ab":
        queue.add(pod(name), 1.0)
    for queued in queue.attempts.pop_batch(1.0, 2, may_join=None):
        queue.attempts.add_unschedulable_if_not_present(queued, 1.0, unschedulable_plugins=["Fit"])
    queue.move_all_to_active_or_backoff(NODE_ADD, None, 1, 1.0, except_uids={"uid-a"})
    assert (queue.place("uid-a"), queue.place("uid-b")) == ("unschedulable", "backoff")


class Unread(set[str]):
    """Uids that are only looked up: there may be thousands, for each of thousands of events."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all uids are read")


def test_the_pods_that_an_event_leaves_out_are_not_read_one_by_one() -> None:
    queue = queue_of({"Fit": [hint_for(1)]})
    queue.add(pod("a"), 1.0)
    queued = queue.attempts.pop(1.0)
    assert queued is not None
    queue.attempts.add_unschedulable_if_not_present(queued, 1.0, unschedulable_plugins=["Fit"])
    for number in (2, 1):  # The first helps no pod.
        queue.move_all_to_active_or_backoff(
            NODE_ADD, None, number, 1.0, except_uids=Unread({"uid-a", "uid-b"})
        )
    assert queue.place("uid-a") == "unschedulable"


def test_the_end_of_an_older_attempt_keeps_the_events_of_a_younger_one() -> None:
    queue = queue_of({"Fit": [hint_for(2)]})
    for name in "ab":
        queue.add(pod(name), 1.0)
    first = queue.attempts.pop(1.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, 1, 1.0)
    second = queue.attempts.pop(1.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, 2, 1.0)
    assert first is not None and second is not None
    queue.in_flight.done(first.info.uid)
    assert queue.in_flight.events.counts() == {"NodeAdd": 1}
    place = queue.attempts.add_unschedulable_if_not_present(
        second, 1.0, unschedulable_plugins=["Fit"]
    )
    assert place == "backoff"


def test_pods_of_one_class_popped_at_different_times_get_their_own_answers() -> None:
    queue, cls = queue_of({"Fit": [hint_for(1)]}), pod_class()
    for name in "abc":
        queue.add(pod(name, cls), 1.0)
    first = queue.attempts.pop(1.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, 1, 1.0)
    second = queue.attempts.pop(1.0)
    assert first is not None and second is not None
    places = [
        queue.attempts.add_unschedulable_if_not_present(one, 1.0, unschedulable_plugins=["Fit"])
        for one in (first, second)
    ]
    assert places == ["backoff", "unschedulable"]


def test_a_batch_asks_about_an_event_once_however_many_of_it_fail() -> None:
    cls, hint = pod_class(), Hint()
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, hint)]})
    for number in range(20):
        queue.add(pod(f"p{number}", cls), 1.0)
    batch = queue.attempts.pop_batch(1.0, 20)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, 1, 1.0)
    for one in batch:
        queue.attempts.add_unschedulable_if_not_present(one, 1.0, unschedulable_plugins=["Fit"])
    assert len(hint.asked) == 1


def test_events_that_no_plugin_registered_are_not_kept() -> None:
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("a"), 1.0)
    queue.attempts.pop(1.0)
    queue.move_all_to_active_or_backoff(POD_DELETE, None, None, 1.0)
    assert queue.in_flight.events.counts() == {}


def test_a_pod_rejected_after_done_is_tried_again_after_its_backoff() -> None:
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("a"), 1.0)
    popped = queue.attempts.pop(1.0)
    assert popped is not None
    queue.in_flight.done(popped.info.uid)
    place = queue.attempts.add_unschedulable_if_not_present(
        popped, 1.0, unschedulable_plugins=["Fit"]
    )
    assert place == "backoff"


def test_a_pod_deleted_during_its_attempt_does_not_come_back() -> None:
    queue, info = queue_of(), pod("a")
    queue.add(info, 1.0)
    popped = queue.attempts.pop(1.0)
    assert popped is not None
    queue.delete(info, 1.0)
    assert queue.attempts.add_unschedulable_if_not_present(popped, 1.0) == ""
    assert queue.place(info.uid) == "" and len(queue.pending) == 0


def test_a_change_during_the_attempt_counts_also_if_the_pod_is_added_anew() -> None:
    event = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_LABEL)
    queue = queue_of({"Spread": [ClusterEventWithHint(event)]})
    queue.add(pod("a"), 1.0)
    popped = queue.attempts.pop(1.0)
    assert popped is not None
    queue.add(pod("a", pod_class(labels={"app": "x"})), 1.5)
    place = queue.attempts.add_unschedulable_if_not_present(
        popped, 2.0, unschedulable_plugins=["Spread"]
    )
    assert place == "backoff"


def test_an_update_during_the_attempt_is_what_comes_back() -> None:
    event = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_LABEL)
    queue = queue_of({"Spread": [ClusterEventWithHint(event)]})
    old, new = pod("a"), pod("a", pod_class(labels={"app": "x"}))
    queue.add(old, 1.0)
    popped = queue.attempts.pop(1.0)
    assert popped is not None
    queue.update(old, new, 1.0)
    queue.attempts.add_unschedulable_if_not_present(popped, 1.0, unschedulable_plugins=["Spread"])
    assert popped.info is new and queue.place(new.uid) == "backoff"


# Updates and deletions of waiting pods.


def rejected_pod(queue: SchedulingQueue, info: PodInfo, plugin: str) -> None:
    queue.add(info, 1.0)
    reject(queue, 1.0, plugin)


def test_an_update_that_the_rejecting_plugin_asked_for_gives_another_try() -> None:
    event = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_TOLERATION)
    queue = queue_of({"Taints": [ClusterEventWithHint(event)]})
    old = pod("a")
    rejected_pod(queue, old, "Taints")
    tolerant = v1.PodSpec(tolerations=[v1.Toleration(key="k", operator="Exists")])
    queue.update(old, pod("a", pod_class(spec=tolerant)), 5.0)
    assert queue.place(old.uid) == "active"


def test_an_update_of_status_alone_wakes_no_pod() -> None:
    hint = Hint(always=True)
    every = ClusterEvent(Resource.POD, ActionType.UPDATE)
    queue = queue_of({"Fit": [ClusterEventWithHint(every, hint)]})
    old = pod("a")
    rejected_pod(queue, old, "Fit")
    new = pod("a", old.cls)
    new.pod.status.conditions.add(type="PodScheduled", status="False")
    queue.update(old, new, 5.0)
    queued = queue.pending.get(old.uid)
    assert queued is not None and queued.info is new
    assert queue.place(old.uid) == "unschedulable" and hint.asked == []


def test_an_updated_pod_is_found_by_its_new_class() -> None:
    fits = pod_class()
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, Hint(fits))]})
    old = pod("a")
    rejected_pod(queue, old, "Fit")
    queue.update(old, pod("a", fits), 5.0)
    assert queue.place(old.uid) == "unschedulable"
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 6.0) == 1


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    observer = Incoming()
    queue = queue_of(observer=observer)
    queue.update(None, pod("a"), 1.0)
    assert observer.counts == {("active", "UnschedulablePodUpdate"): 1}


def test_a_pod_replaced_under_its_name_is_another_pod() -> None:
    queue, old, new = queue_of(), pod("a"), pod("a", uid="second")
    queue.add(old, 1.0)
    queue.update(old, new, 2.0)
    assert (queue.place(old.uid), queue.place(new.uid)) == ("", "active")


@pytest.mark.parametrize("change", ["deleted", "nomination moved"])
def test_the_end_of_a_nomination_wakes_pods_of_no_higher_priority(change: str) -> None:
    queue = queue_of({"Fit": [ClusterEventWithHint(POD_DELETE)]})
    for name, priority in (("lower", 1), ("equal", 5), ("higher", 9)):
        rejected_pod(queue, pod(name, priority=priority), "Fit")
    nominee = pod("nominee", priority=5, nominated="n1")
    queue.add(nominee, 5.0)
    if change == "deleted":
        queue.delete(nominee, 5.0)
    else:
        queue.update(nominee, pod("nominee", nominee.cls, nominated="n2"), 5.0)
    places = [queue.place(f"uid-{name}") for name in ("lower", "equal", "higher")]
    assert places == ["active", "active", "unschedulable"]


def test_the_end_of_its_own_nomination_does_not_wake_a_pod() -> None:
    queue = queue_of({"Permit": [ClusterEventWithHint(POD_DELETE)]})
    nominee = pod("nominee", nominated="n1")
    rejected_pod(queue, nominee, "Permit")
    queue.update(nominee, pod("nominee", nominee.cls), 5.0)
    assert queue.place(nominee.uid) == "unschedulable"


@pytest.mark.parametrize(("node", "place"), [("n1", "unschedulable"), ("n2", "active")])
def test_binding_a_nominated_pod_wakes_pods_if_it_goes_to_another_node(
    node: str, place: str
) -> None:
    queue = queue_of({"Fit": [ClusterEventWithHint(POD_DELETE)]})
    rejected_pod(queue, pod("a"), "Fit")
    queue.delete(pod("nominee", priority=5, nominated="n1"), 5.0, bound_to=node)
    assert queue.place("uid-a") == place


# Gates, Activate, timeouts.


def gated_queue(gate: Gate, **options: Any) -> SchedulingQueue:
    return queue_of({gate.name: [ClusterEventWithHint(POD_DELETE)]}, gate, **options)


def test_a_gated_pod_waits_for_events_of_its_gate_only() -> None:
    gate, observer = Gate(), Incoming()
    queue, info = gated_queue(gate, observer=observer), pod("a")
    gate.held.add(info.uid)
    queue.add(info, 1.0)
    assert queue.pending.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert queue.pending.rejections.counts == {(gate.name, PROFILE): 1}
    gate.held.clear()
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 2.0)
    queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, None, 2.0)
    assert queue.place(info.uid) == "gated" and gate.asked == [info.uid]
    queue.move_all_to_active_or_backoff(POD_DELETE, None, None, 2.0)
    assert queue.place(info.uid) == "active"


def test_a_gated_pod_that_comes_to_another_group_is_asked_about_again() -> None:
    gate = Gate()
    queue, info = gated_queue(gate), pod("a")
    gate.held.add(info.uid)
    queue.add(info, 1.0)
    gate.held.clear()
    queue.update(info, replace(pod("a"), group="default/g"), 2.0)
    assert queue.place(info.uid) == "active"


def test_the_gate_that_holds_a_pod_is_asked_first_again() -> None:
    first, second = Gate("first"), Gate("second")
    queue, info = queue_of({"second": [ClusterEventWithHint(POD_DELETE)]}, first, second), pod("a")
    second.held.add(info.uid)
    queue.add(info, 1.0)
    queue.move_all_to_active_or_backoff(POD_DELETE, None, None, 2.0)
    assert (len(first.asked), len(second.asked)) == (1, 2)


def test_no_plugin_looks_at_events_for_a_pod_behind_a_gate_that_no_event_opens() -> None:
    looked: list[Any] = []

    def event_keys(_: Any, new: Any) -> tuple[str, ...]:
        looked.append(new)
        return ("key",)

    index = partial(KeyedIndex, lambda _: ("key",), event_keys)
    hints = {"Fit": [ClusterEventWithHint(POD_DELETE, Hint(always=True), index=index)]}
    first, second = Gate("Fit"), Gate("closed")
    queue, info = queue_of(hints, first, second), pod("a")
    first.held.add(info.uid)
    second.held.add(info.uid)
    queue.add(info, 1.0)
    first.held.clear()
    queue.move_all_to_active_or_backoff(POD_DELETE, None, "one", 2.0)
    queue.move_all_to_active_or_backoff(POD_DELETE, None, "two", 3.0)
    assert (looked, queue.place(info.uid)) == (["one"], "gated")


def test_a_gate_that_fails_holds_the_pod() -> None:
    class Broken(Gate):
        def pre_enqueue(self, pod: PodInfo) -> Any:
            raise RuntimeError

    observer = Incoming()
    queue = queue_of({}, Broken(), observer=observer)
    queue.add(pod("a"), 1.0)
    assert queue.place("uid-a") == "gated"
    assert observer.failed == [("SchedulingGates", "PreEnqueue")]


def test_activate_skips_hints_and_backoff() -> None:
    queue = queue_of(initial_backoff=9.0)
    infos: Sequence[PodInfo] = [pod("a"), pod("b")]
    queue.add(infos[0], 1.0)
    reject(queue, 1.0, "Fit")
    queue.add(infos[1], 1.0)
    reject(queue, 1.0)
    queue.activate(infos, 1.1)
    assert popped_names(queue, 1.1) == ["a", "b"]


def test_a_pod_that_backs_off_is_not_tried_early_though_nothing_else_waits() -> None:
    queue = queue_of(initial_backoff=4.0)
    info = pod("a")
    queue.add(info, 1.0)
    reject(queue, 1.0, "Fit")
    queue.back_off([info], 1.1)
    assert popped_names(queue, 1.1) == []
    queue.timeouts.flush(6.0)
    assert popped_names(queue, 6.0) == ["a"]
    assert not list(queue.pending.problems())


def test_activate_of_a_pod_in_flight_counts_when_its_attempt_fails() -> None:
    queue, info = queue_of(), pod("a")
    queue.add(info, 1.0)
    popped = queue.attempts.pop(1.0)
    assert popped is not None
    queue.activate([info], 1.0)
    place = queue.attempts.add_unschedulable_if_not_present(
        popped, 1.0, unschedulable_plugins=["Fit"]
    )
    assert place == "backoff"


def test_pods_no_event_helped_for_five_minutes_are_tried_again() -> None:
    queue = queue_of()
    queue.add(pod("a"), 1.0)
    popped = reject(queue, 1.0, "Fit")
    queue.timeouts.flush(290.0)
    assert queue.timeouts.next_wakeup(290.0) == 320.0
    queue.timeouts.flush(310.0)
    assert queue.place("uid-a") == "unschedulable"
    queue.timeouts.flush(320.0)
    assert queue.place("uid-a") == "active" and popped.was_flushed_from_unschedulable


def test_many_pods_that_no_event_helped_for_five_minutes_are_moved_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "AT_ONCE", 2)
    queue, names = queue_of(), [f"p{number}" for number in range(5)]
    for name in names:
        queue.add(pod(name), 1.0)
    for _ in names:
        reject(queue, 1.0, "Fit")
    moved = []
    for now in (400.0, 400.1, 400.2):
        assert queue.timeouts.next_wakeup(now) == now
        queue.timeouts.flush(now)
        moved.append(popped_names(queue, now))
    assert moved == [["p0", "p1"], ["p2", "p3"], ["p4"]]
    assert queue.timeouts.next_wakeup(400.3) is None


def test_many_pods_whose_backoff_is_over_are_moved_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "AT_ONCE", 2)
    queue, names = queue_of(), [f"p{number}" for number in range(5)]
    for name in names:
        queue.add(pod(name), 1.0)
    for _ in names:
        reject(queue, 1.0)
    moved = []
    while queue.timeouts.next_wakeup(100.0) == 100.0:
        queue.timeouts.flush(100.0)
        moved.append(popped_names(queue, 100.0))
    assert moved == [["p0", "p1"], ["p2", "p3"], ["p4"]]


def test_many_pods_that_an_event_helps_are_moved_in_parts_except_those_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "AT_ONCE", 2)
    queue, infos = queue_of(ON_NODE_ADD), [pod(f"p{number}") for number in range(5)]
    for info in infos:
        queue.add(info, 1.0)
    for _ in infos:
        reject(queue, 1.0, "Fit")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, v1.Node(), 100.0) == 5
    queue.delete(infos[3], 100.0)
    moved = [popped_names(queue, 100.0)]
    while queue.timeouts.next_wakeup(100.0) == 100.0:
        queue.timeouts.flush(100.0)
        moved.append(popped_names(queue, 100.0))
    assert moved == [["p0", "p1"], ["p2", "p4"]]


def test_pods_that_are_being_moved_are_not_found_again_by_the_next_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "AT_ONCE", 1)
    queue, cls = queue_of(ON_NODE_ADD), pod_class()
    for name in "abc":
        queue.add(pod(name, cls), 1.0)
    for _ in "abc":
        reject(queue, 1.0, "Fit")
    wake = partial(queue.move_all_to_active_or_backoff, NODE_ADD, None, v1.Node(), 100.0)
    assert wake(except_uids={"uid-c"}) == 2
    assert [wake(), wake()] == [2, 0]
    assert reject(queue, 100.0, "Fit").info.name == "a"
    assert [wake(), wake()] == [2, 0]


def test_pending_pods_lists_all_with_a_summary() -> None:
    queue = queue_of()
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Fit")
    queue.add(pod("b"), 1.0)
    reject(queue, 1.0)
    queue.add(pod("c"), 1.0)
    assert [queued.info.name for queued in queue.pending.in_order()] == ["c", "b", "a"]
    assert queue.pending.summary() == "activeQ:1; backoffQ:1; unschedulablePods:1"


def test_entries_are_reported_by_event_and_in_batches() -> None:
    calls: list[tuple[str, str, int]] = []

    class Recorder(Incoming):
        def incoming(self, queue: str, event: str, count: int) -> None:
            calls.append((queue, event, count))

    queue, cls = queue_of(ON_NODE_ADD, observer=Recorder()), pod_class()
    for name in "ab":
        queue.add(pod(name, cls), 1.0)
    for one in queue.attempts.pop_batch(1.0, 2):
        queue.attempts.add_unschedulable_if_not_present(one, 1.0, unschedulable_plugins=["Fit"])
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 1.5)
    queue.timeouts.flush_backoff_completed(3.0)
    assert calls == [
        ("active", "UnschedulablePodAdd", 1),
        ("active", "UnschedulablePodAdd", 1),
        ("unschedulable", "ScheduleAttemptFailure", 1),
        ("unschedulable", "ScheduleAttemptFailure", 1),
        ("backoff", "NodeAdd", 2),
        ("active", "BackoffComplete", 2),
    ]


def test_assigned_pods_that_change_are_events() -> None:
    label = ClusterEvent(Resource.POD, ActionType.UPDATE_POD_LABEL)
    queue = queue_of({"Affinity": [ClusterEventWithHint(label)], "Fit": []})
    rejected_pod(queue, pod("a"), "Affinity")
    old, new = pod("running").pod, pod("running", pod_class(labels={"app": "x"})).pod
    labelled = ClusterEvent(Resource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL)
    assert queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, old, 5.0) == 0
    assert queue.move_all_to_active_or_backoff(labelled, old, new, 5.0) == 1
    assert queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, new, None, 5.0) == 0


def test_an_event_that_names_pods_is_put_to_these_alone() -> None:
    hint = Hint(always=True)
    named = ClusterEventWithHint(
        POD_DELETE, hint, per_pod=True, pods=lambda old, new: ["uid-b", "uid-unknown"]
    )
    queue = queue_of({"Fit": [named]})
    cls = pod_class()
    for name in ("a", "b", "c"):
        queue.add(pod(name, cls), 0.0)
        reject(queue, 0.0, "Fit")
    assert queue.move_all_to_active_or_backoff(POD_DELETE, None, None, 20.0) == 1
    assert queue.place("uid-b") == "active"
    assert [asked.uid for asked, _, _ in hint.asked] == ["uid-b"]


def test_one_hint_in_ten_is_asked_through_the_observer() -> None:
    observer, asked = Incoming(), []

    def hint(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.SKIP

    hints = {"Fit": [ClusterEventWithHint(NODE_ADD, hint)]}
    queue = queue_of(hints, observer=observer)
    queue.add(pod("a"), 1.0)
    reject(queue, 1.0, "Fit")
    for _ in range(11):
        queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 2.0)
    assert len(asked) == 11
    assert observer.hints == [("Fit", "NodeAdd")] * 2


def test_an_event_that_names_pods_is_replayed_for_these_alone() -> None:
    hint, named = Hint(always=True), ["uid-b"]
    registered = ClusterEventWithHint(
        POD_DELETE, hint, per_pod=True, pods=lambda old, new: list(named)
    )
    queue = queue_of({"Fit": [registered]})
    for name in ("a", "b"):
        queue.add(pod(name), 0.0)
    popped = [queue.attempts.pop(0.0), queue.attempts.pop(0.0)]
    queue.move_all_to_active_or_backoff(POD_DELETE, None, None, 0.0)
    named.append("uid-a")
    places = {}
    for one in popped:
        assert one is not None
        places[one.info.name] = queue.attempts.add_unschedulable_if_not_present(
            one, 0.0, unschedulable_plugins=["Fit"]
        )
    assert places == {"a": "unschedulable", "b": "backoff"}


def test_an_event_of_which_a_plugin_cannot_name_the_pods_is_replayed_for_all() -> None:
    def broken(old: Any, new: Any) -> list[str]:
        raise RuntimeError("no idea")

    registered = ClusterEventWithHint(POD_DELETE, Hint(always=True), per_pod=True, pods=broken)
    queue = queue_of({"Fit": [registered]})
    queue.add(pod("a"), 0.0)
    popped = queue.attempts.pop(0.0)
    assert popped is not None
    queue.move_all_to_active_or_backoff(POD_DELETE, None, None, 0.0)
    place = queue.attempts.add_unschedulable_if_not_present(
        popped, 0.0, unschedulable_plugins=["Fit"]
    )
    assert place == "backoff"


def test_what_enters_is_held_back_until_the_end_of_a_batch_of_events() -> None:
    observer = Incoming()
    queue = queue_of(observer=observer)
    queue.incoming.hold()
    for name in ("a", "b"):
        queue.add(pod(name), 0.0)
    assert not observer.counts
    queue.incoming.release()
    assert observer.counts == {("active", "UnschedulablePodAdd"): 2}


def test_attempts_may_end_together() -> None:
    queue, cls = queue_of(ON_NODE_ADD), pod_class()
    for name in ("a", "b", "c"):
        queue.add(pod(name, cls), 0.0)
    batch = queue.attempts.pop_batch(0.0, 3)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, v1.Node(), 0.0)
    queue.in_flight.done(*(queued.info.uid for queued in batch[:2]), "unknown")
    assert [flight.pod for flight in queue.in_flight] == batch[2:]
    queue.in_flight.done(batch[2].info.uid)
    assert not queue.in_flight.events.counts()


def test_the_flush_at_the_time_that_next_wakeup_names_has_work() -> None:
    """That time less the last flush is rounded to less than the period."""
    queue = queue_of(ON_NODE_ADD)
    queue.add(pod("a"), 730.0)
    reject(queue, 730.0, "Fit")
    queue.timeouts.flush(1010.555)
    wakeup = queue.timeouts.next_wakeup(1011.0)
    assert wakeup == 1040.5549999999998
    queue.timeouts.flush(wakeup)
    assert popped_names(queue, wakeup) == ["a"]
