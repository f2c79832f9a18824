"""Keep the pods whose attempt is running ("in flight"), and the events that arrive meanwhile.

Otherwise a wake-up could be lost: an event that would help the pod may arrive after the attempt has
read the cluster and before the pod is back in the queue. So events are kept while any pod is in
flight. When an attempt fails, the events since its pop are replayed: the hints of the plugins that
rejected the pod are called for each. Events before the pop of the oldest pod in flight are
dropped (kube-scheduler's ``inFlightEvents``)::

    events by position     3   4   5   6   7
    pod a, popped at 3     ^                   fails: 3 to 7 are replayed
    pod b, popped at 6                 ^       fails: 6 and 7 are replayed
                           when a is done, 3 to 5 are dropped

Three things keep a replay cheap:

* Events are kept by kind, so a replay covers only events that a rejecting plugin registered for.
* If a registration names the pods that an event concerns, the event is kept with these pods: a
  preemptor sees only the victims that leave its own node, not those of all other preemptors.
* Pods of one group (class and rejecting plugins) popped at the same position get the same answers
  from hints that read only classes. So a failed batch is replayed once, not once per pod.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from podsched.framework.events import ClusterEvent
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.queue.hints import HintTable, Registration, Strategy

#: Max groups whose answers are kept; keeping them only saves time.
_MAX_MEMO = 1024


#: The position of an event, and the object before and after it.
_Kept = tuple[int, Any, Any]


@dataclass(eq=False, slots=True)
class Flight:
    """A pod's running attempt; ``position`` is the number of events before it."""

    pod: QueuedPodInfo
    position: int
    #: The newest version of the pod; the attempt works on the version that it began with.
    latest: PodInfo
    deleted: bool = False
    #: Events of the pod itself: updates and activation.
    own: list[tuple[ClusterEvent, Any, Any]] = field(default_factory=list)
    #: Events for which a registration named this pod.
    named: list[tuple[Registration, ClusterEvent, Any, Any]] = field(default_factory=list)


class InFlight:
    """The pods in flight in the order of their pops, and the events since the first of them."""

    def __init__(self, hints: HintTable) -> None:
        self._hints = hints
        # An OrderedDict finds its first item at once; a dict first skips all deleted entries.
        self._flights: OrderedDict[str, Flight] = OrderedDict()
        self.events = KeptEvents(hints)

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._flights.values())

    def get(self, uid: str) -> Flight | None:
        return self._flights.get(uid)

    def start(self, pod: QueuedPodInfo) -> None:
        self._flights[pod.info.uid] = Flight(pod, self.events.position, pod.info)

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Keep an event for the pods in flight; ``old`` and ``new`` are the object's messages."""
        if not self._flights:
            return
        self.events.add(event, old, new)
        # Names are resolved when the event arrives. A pod popped later is tried after the event.
        for registration in self._hints.matching(event):
            if registration.pods is None:
                continue
            uids = self._hints.pods_named(registration, event, old, new)
            for uid in self._flights if uids is None else uids:
                flight = self._flights.get(uid)
                if flight is not None:
                    flight.named.append((registration, event, old, new))

    def finish(self, uid: str) -> Flight | None:
        """Remove a pod, and the events that were kept only for it."""
        flight = self._flights.pop(uid, None)
        if flight is not None:
            self._prune()
        return flight

    def done(self, *uids: str) -> None:
        """Remove pods as ``finish`` does; call it before PreBind at the latest.

        PreBind and binding may take minutes, and as long as a pod is in flight all events are kept.
        """
        flights = self._flights
        gone = [flight for uid in uids if (flight := flights.pop(uid, None)) is not None]
        if gone:
            self._prune()

    def _prune(self) -> None:
        # Flights are in the order of their pops, so the first has the lowest position.
        oldest = next(iter(self._flights.values()), None)
        self.events.drop_before(None if oldest is None else oldest.position)

    def replay(self, flight: Flight, pod: QueuedPodInfo, group: Hashable) -> Strategy:
        """Return where the events since the pod's pop send it.

        Calls the hints of the plugins that rejected the pod. ``group``: pods of one group get the
        same answers from hints that read only classes.
        """
        events, since = self.events, flight.position
        best = max(events.ask_per_group(pod, since, group), events.ask_per_pod(pod, since))
        for registration, event, old, new in reversed(flight.named):
            # Its plugin may not have rejected the pod, or be that of another profile.
            strategy = dict(self._hints.rejecting(pod, event)).get(registration, Strategy.SKIP)
            if strategy > best and self._hints.answers_queue(
                registration, pod.info, event, old, new
            ):
                best = strategy
        # These events are about this pod, so its group's answers do not cover them.
        return max([best, *(self._hints.strategy(pod, *event) for event in flight.own)])


class KeptEvents:
    """The kept events by kind, and the answers that their hints gave to groups of pods.

    Each has a position, the number of events before it.
    """

    def __init__(self, hints: HintTable) -> None:
        self._hints = hints
        #: Positions ascend in a deque, and none is empty: readers take the first or last entry.
        self._kept: dict[ClusterEvent, deque[_Kept]] = {}
        #: That of the next event. It never goes back, even if all events are dropped: flights and
        #: ``_memo`` refer to positions.
        self.position = 0
        #: By group and position of the pop: up to which position events were replayed, the answer.
        self._memo: dict[Hashable, tuple[int, Strategy]] = {}

    def add(self, event: ClusterEvent, old: Any, new: Any) -> None:
        self._kept.setdefault(event, deque()).append((self.position, old, new))
        self.position += 1

    def drop_before(self, position: int | None) -> None:
        """Drop the events before a position; None: all."""
        if position is None:
            self._kept.clear()
            self._memo.clear()
            return
        for event in [e for e, entries in self._kept.items() if entries[0][0] < position]:
            entries = self._kept[event]
            while entries and entries[0][0] < position:
                entries.popleft()
            if not entries:
                del self._kept[event]

    def counts(self) -> dict[str, int]:
        """Return the number of events by their text (``inflight_events``)."""
        counts: dict[str, int] = {}
        for event, entries in self._kept.items():
            counts[event.text] = counts.get(event.text, 0) + len(entries)
        return counts

    def ask_per_pod(self, pod: QueuedPodInfo, since: int) -> Strategy:
        """Return the greatest answer of the hints that read the pod itself."""
        return self._ask(pod, since, Strategy.SKIP, per_pod=True)

    def ask_per_group(self, pod: QueuedPodInfo, popped: int, group: Hashable) -> Strategy:
        """Return the greatest answer of the hints that read only the pod's class.

        It is the same for the group's pods popped at this position, so it is remembered. Only
        events that arrived since it was remembered are replayed.
        """
        memo = (group, popped)
        since, best = self._memo.get(memo, (popped, Strategy.SKIP))
        for event, entries in self._kept.items():
            # A wildcard event wakes every pod, without a hint: see ``HintTable.strategy``.
            if event.is_wildcard and entries[-1][0] >= since:
                best = max(best, Strategy.AFTER_BACKOFF)
        best = self._ask(pod, since, best, per_pod=False)
        if len(self._memo) >= _MAX_MEMO:
            self._memo.clear()
        self._memo[memo] = (self.position, best)
        return best

    def _ask(self, pod: QueuedPodInfo, since: int, best: Strategy, *, per_pod: bool) -> Strategy:
        """Call the hints that read the pod itself, or else the others; return the greatest answer.

        Only those that may answer more than ``best``. A registration that names its pods is asked
        about the events that name them (``Flight.named``).
        """
        for event in self._kept:
            if best is Strategy.IMMEDIATELY:
                break
            for registration, strategy in self._hints.rejecting(pod, event):
                if (
                    registration.per_pod is per_pod
                    and registration.pods is None
                    and strategy > best
                    and self._helped(registration, pod, event, since)
                ):
                    best = strategy
        return best

    def _helped(
        self, registration: Registration, pod: QueuedPodInfo, event: ClusterEvent, since: int
    ) -> bool:
        """Return whether the hint answers Queue for one of the kept events since a position."""
        for position, old, new in reversed(self._kept[event]):
            if position < since:
                return False
            if self._hints.answers_queue(registration, pod.info, event, old, new):
                return True
        return False
