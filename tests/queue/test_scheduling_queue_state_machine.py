"""Random sequences of events against a model that knows no groups, indexes, heaps or pruned logs.

An event carries a number; bit ``class * 3 + plugin`` of it says whether the plugin's hint helps
pods of the class, so hints are arbitrary functions of class and event.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from podsched.framework.events import ASSIGNED_POD_DELETE, ClusterEventWithHint, QueueingHint
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.queue.scheduling_queue import SchedulingQueue
from support.examples import examples
from support.queue_world import NODE_ADD, POD_DELETE, PROFILE, Gate, PrioritySort, pod, pod_class

CLASSES = [pod_class(priority=number % 3) for number in range(4)]
NUMBER = {cls.id: number for number, cls in enumerate(CLASSES)}
PLUGINS = ("plain", "indexed", "per-pod")
# Few bits at a time, or nearly every event would help nearly everybody.
EVENTS = st.lists(st.sampled_from(range(3 * len(CLASSES))), max_size=3).map(
    lambda bits: sum(1 << bit for bit in set(bits))
)
CHOICES = st.integers(0, 11)
REJECTORS = st.sampled_from(
    [set(), *({plugin} for plugin in PLUGINS), {"plain", "indexed"}, {"indexed", "per-pod"}]
)


def helps(plugin: str, class_number: int, event: int) -> bool:
    return bool(event >> (class_number * 3 + PLUGINS.index(plugin)) & 1)


def hint(plugin: str) -> Any:
    def answer(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
        helped = helps(plugin, NUMBER[pod.cls.id], new)
        return QueueingHint.QUEUE if helped else QueueingHint.SKIP

    return answer


def index() -> KeyedIndex:
    return KeyedIndex(
        lambda pod: [NUMBER[pod.cls.id]],
        lambda old, new: [n for n in range(len(CLASSES)) if helps("indexed", n, new)],
    )


HINTS = {
    "plain": [ClusterEventWithHint(NODE_ADD, hint("plain"))],
    "indexed": [ClusterEventWithHint(NODE_ADD, hint("indexed"), index=index)],
    "per-pod": [ClusterEventWithHint(NODE_ADD, hint("per-pod"), per_pod=True)],
    "gate": [ClusterEventWithHint(POD_DELETE)],
}


def chosen(uids: Iterable[str], choice: int) -> str:
    ordered = sorted(uids)
    return ordered[choice % len(ordered)]


@dataclass
class Expected:
    """Where the model holds a pod."""

    number: int
    info: PodInfo
    place: str = ""
    timestamp: float = 0.0
    entered: int = 0
    rejections: int = 0
    errors: int = 0
    rejectors: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    missed: list[int] = field(default_factory=list)
    activated: bool = False
    deleted: bool = False
    in_error_heap: bool = False

    def backoff_end(self) -> float | None:
        count = self.errors or self.rejections
        if count == 0:
            return None
        return math.floor(self.timestamp + min(10.0, 2.0 ** (count - 1)))

    def backing_off(self, now: float) -> bool:
        end = self.backoff_end()
        return end is not None and not end < math.floor(now)

    def strategy(self, event: int) -> int:
        if any(helps(plugin, self.number, event) for plugin in self.pending):
            return 2
        return int(any(helps(plugin, self.number, event) for plugin in self.rejectors))

    def order(self) -> tuple[Any, ...]:
        return (-self.info.priority, self.timestamp, self.entered)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate("gate")
        self.queue = SchedulingQueue(PrioritySort(), {PROFILE: [self.gate]}, {PROFILE: HINTS})
        self.now = 1000.0
        self.count = 0
        self.pods: dict[str, Expected] = {}
        self.flights: dict[str, QueuedPodInfo] = {}

    def stamp(self, expected: Expected) -> None:
        self.count += 1
        expected.timestamp, expected.entered = self.now, self.count

    def flying(self, choice: int) -> str | None:
        if not self.flights:
            self.pop_one()
        return chosen(self.flights, choice) if self.flights else None

    def settle(self, expected: Expected, strategy: int) -> None:
        """Where the rules send a pod that is in no queue."""
        uid = expected.info.uid
        if strategy == 0:
            expected.place = "unschedulable"
        elif uid in self.gate.held:
            expected.place = "gated"
        elif strategy == 1 and expected.backing_off(self.now):
            expected.place = "backoff"
            expected.in_error_heap = not (expected.rejectors | expected.pending)
        else:
            expected.place = "active"

    @initialize(numbers=st.lists(st.sampled_from(range(4)), min_size=2, max_size=6))
    def begin(self, numbers: list[int]) -> None:
        for number in numbers:
            self.add(number, False)

    @rule(number=st.sampled_from(range(4)), held=st.booleans())
    def add(self, number: int, held: bool) -> None:
        self.count += 1
        info = pod(f"p{self.count}", CLASSES[number])
        if held:
            self.gate.held.add(info.uid)
        expected = self.pods[info.uid] = Expected(number, info)
        self.stamp(expected)
        self.queue.add(info, self.now)
        self.settle(expected, 2)

    @rule(choice=CHOICES)
    def delete(self, choice: int) -> None:
        if not self.pods:
            return
        expected = self.pods[chosen(self.pods, choice)]
        self.queue.delete(expected.info, self.now)
        if expected.place == "in-flight":
            expected.deleted = True
        else:
            del self.pods[expected.info.uid]

    @rule(times=st.integers(1, 4))
    def pop(self, times: int) -> None:
        for _ in range(times):
            self.pop_one()

    def pop_one(self) -> None:
        popped = self.queue.attempts.pop(self.now)
        active = [e for e in self.pods.values() if e.place == "active"]
        backoff = [e for e in self.pods.values() if e.place == "backoff" and not e.in_error_heap]
        if active:
            wanted = min(active, key=Expected.order)
        elif backoff:
            wanted = min(backoff, key=lambda e: (e.backoff_end(), *e.order()))
        else:
            assert popped is None
            return
        assert popped is not None and popped.info is wanted.info
        wanted.place, wanted.missed, wanted.activated = "in-flight", [], False
        wanted.rejectors, wanted.pending = set(), set()
        self.flights[wanted.info.uid] = popped

    @rule(choice=CHOICES, rejectors=REJECTORS, pending=REJECTORS)
    def fail(self, choice: int, rejectors: set[str], pending: set[str]) -> None:
        uid = self.flying(choice)
        if uid is None:
            return
        expected = self.pods[uid]
        self.queue.attempts.add_unschedulable_if_not_present(
            self.flights.pop(uid),
            self.now,
            unschedulable_plugins=set(rejectors),
            pending_plugins=set(pending),
        )
        if expected.deleted:
            del self.pods[uid]
            return
        expected.rejectors, expected.pending = rejectors, pending
        if rejectors | pending:
            expected.rejections, expected.errors = expected.rejections + 1, 0
        else:
            expected.errors += 1
        self.stamp(expected)
        answers = [expected.strategy(event) for event in expected.missed]
        errors = expected.activated or not rejectors | pending
        self.settle(expected, max([*answers, int(errors)]))

    @rule(choice=CHOICES)
    def done(self, choice: int) -> None:
        uid = self.flying(choice)
        if uid is None:
            return
        del self.flights[uid]
        del self.pods[uid]
        self.queue.in_flight.done(uid)

    @rule(choice=CHOICES)
    def return_unattempted(self, choice: int) -> None:
        uid = self.flying(choice)
        if uid is None:
            return
        self.queue.attempts.return_unattempted([self.flights.pop(uid)], self.now)
        expected = self.pods[uid]
        if expected.deleted:
            del self.pods[uid]
        else:
            self.settle(expected, 2)

    @rule(event=EVENTS)
    def event(self, event: int) -> None:
        self.queue.move_all_to_active_or_backoff(NODE_ADD, None, event, self.now)
        for expected in self.pods.values():
            if expected.place == "in-flight":
                expected.missed.append(event)
            elif expected.place == "unschedulable" and (strategy := expected.strategy(event)):
                self.settle(expected, strategy)

    @rule(choice=CHOICES)
    def open_gate(self, choice: int) -> None:
        if self.gate.held:
            self.gate.held.discard(chosen(self.gate.held, choice))
        self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, None, None, self.now)
        for expected in self.pods.values():
            if expected.place == "gated":
                self.settle(expected, 1)

    @rule(choice=CHOICES)
    def activate(self, choice: int) -> None:
        if not self.pods:
            return
        expected = self.pods[chosen(self.pods, choice)]
        self.queue.activate([expected.info], self.now)
        if expected.place == "in-flight":
            expected.activated = True
        else:
            self.settle(expected, 2)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.7, 20.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.timeouts.flush_backoff_completed(self.now)
        for expected in self.pods.values():
            if expected.place == "backoff" and not expected.backing_off(self.now):
                expected.place = "active"

    @rule()
    def time_out(self) -> None:
        self.now += 301.0
        self.queue.timeouts.flush(self.now)
        for expected in self.pods.values():
            if expected.place == "backoff":
                expected.place = "active"
            elif expected.place in ("unschedulable", "gated"):
                self.settle(expected, 1)

    @invariant()
    def every_pod_is_where_the_model_has_it(self) -> None:
        places = {uid: self.queue.place(uid) for uid in self.pods}
        assert places == {uid: expected.place for uid, expected in self.pods.items()}
        assert len(self.queue.pending) == sum(e.place != "in-flight" for e in self.pods.values())

    @invariant()
    def the_books_agree(self) -> None:
        self.queue.check_invariants()

    @invariant()
    def no_pod_backs_off_for_longer_than_ten_seconds_and_a_window(self) -> None:
        for uid, expected in self.pods.items():
            queued = self.queue.pending.get(uid)
            if queued is not None and expected.place == "backoff":
                assert queued.backoff_expiration <= queued.timestamp + 10.0
                wakeup = self.queue.timeouts.next_wakeup(self.now)
                assert (wakeup is not None and wakeup <= queued.backoff_expiration + 1.0) or (
                    wakeup == self.now
                )

    @invariant()
    def events_are_kept_only_while_a_pod_is_in_flight(self) -> None:
        if not self.flights:
            assert self.queue.in_flight.events.counts() == {}


QueueMachine.TestCase.settings = examples(250, stateful_step_count=60)
TestQueueMachine = QueueMachine.TestCase
