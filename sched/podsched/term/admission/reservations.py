"""Reservations: starts that are promised to waiting units, in ClusterQueues with backfill.

| from | to | when |
| --- | --- | --- |
| none | reserved | the unit cannot start now, but later, beside all that runs and is reserved |
| reserved | reserved, earlier | a unit has ended before its limit |
| reserved | started | its time has come, or there is room before |
| reserved | withdrawn | it cannot be kept: ``withdrawals`` has the reasons |

An annotation of the PodGroup, or of the pod, has the reservation, so that the next leader knows it.
Quota and nodes are kept for it from its start on: a unit that would still run then may use only
what the reservation leaves over. ``timetable`` finds when a unit could start, and what it must
leave to others.

Source: Slurm's backfill scheduler, https://slurm.schedmd.com/sched_config.html#backfill.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import ceil, inf
from typing import Final, NamedTuple

from podsched.api.objects import PodSpec
from podsched.config.queues import Backfill as Settings
from podsched.lib.counted import listed
from podsched.lib.due_times import DueTimes, earliest
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import Workload
from podsched.term.admission.books import Books
from podsched.term.admission.delays import Delays
from podsched.term.admission.eligibility import Eligibility
from podsched.term.admission.endings import Endings
from podsched.term.admission.holds import Holds
from podsched.term.admission.limits import occupied
from podsched.term.admission.reservation_text import start_text, stored_reservation, time_text
from podsched.term.admission.timetable import Timetable
from podsched.term.admission.units import Unit
from podsched.term.admission.withdrawals import Withdrawals

#: Seconds between two rounds in which the waiting units are tried again because starts have moved.
#: A round may move more starts, and tries all units that may be promised one. The pause is doubled
#: while rounds follow each other, up to Slurm's default (bf_interval).
PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
#: Max names of nodes in a message.
_MOST_NAMED: Final = 5
#: Seconds ahead beyond which no start is promised, as long as the longest limit: ends so far away,
#: such as after a grace period of 2^63 - 1 seconds, help nobody.
_FARTHEST: Final = 1e10
#: Seconds by which a unit may start after its promised start without delaying another one: the
#: leader may be busy, or new.
_LATE: Final = 2.0
#: What nothing is kept for at a promised start, and whether a pod asks for it.
_NOT_KEPT: Final[Mapping[str, Callable[[PodSpec], bool]]] = {
    "affinity": lambda spec: (
        spec.affinity.HasField("pod_affinity") or spec.affinity.HasField("pod_anti_affinity")
    ),
    "spreading": lambda spec: bool(spec.topology_spread_constraints),
    "volumes": lambda spec: any(
        one.HasField("persistent_volume_claim") or one.HasField("ephemeral") for one in spec.volumes
    ),
}


class ReservationChange(NamedTuple):
    """A change of a unit's reservation, for its annotation, condition and Event.

    ``reservation``: the new one, None if it has none any more.
    """

    reservation: Reservation | None
    reason: str
    message: str
    withdrawn: bool = False


class Rounds:
    """Rounds in which the waiting units are tried again because starts have moved."""

    def __init__(self) -> None:
        self._wanted, self._next, self._pause = False, -inf, PAUSE

    def want(self) -> None:
        """Ask for a round."""
        self._wanted = True

    def next_time(self) -> float | None:
        """Return when the next round may begin; None if none is wanted."""
        return self._next if self._wanted else None

    def begin(self, now: float) -> bool:
        """Begin a round if one is wanted and the pause is over; return whether it has begun."""
        if not self._wanted or now < self._next:
            return False
        calm = now >= self._next + self._pause
        self._pause = PAUSE if calm else min(2 * self._pause, LONGEST_PAUSE)
        self._wanted, self._next = False, now + self._pause
        return True


class Reservations:
    """The reservations of all units; see the module's table."""

    def __init__(self, books: Books, endings: Endings, holds: Holds, settings: Settings) -> None:
        self._books = books
        self._units = books.units
        self.of: dict[str, Reservation] = {}
        """By the key of the unit."""
        self._nodes_version = -1
        #: Keys of units whose annotation has been read.
        self._read: set[str] = set()
        self.changes: dict[str, ReservationChange] = {}
        """By the key of the unit; for who reports them."""
        #: The promised starts that have not come yet.
        self._starts = DueTimes()
        self._rounds = Rounds()
        window = min(settings.window or inf, _FARTHEST)
        self.timetable = Timetable(books, endings, holds, self.of, window)
        self.delays = Delays(books, self.timetable, self.of)
        self.eligibility = Eligibility(books, self.timetable, self.of, settings)
        self._withdrawals = Withdrawals(books, endings, self.of, self.timetable.ends)

    def begin(self) -> None:
        """Use a new snapshot; ``update`` is called again for all units."""
        self.timetable.begin()
        self.eligibility.begin()

    def end_without_unit(self) -> None:
        """Forget the reservations of units that are gone, or wait in no queue with backfill."""
        for key in list(self.of):
            unit = self._units.get(key)
            queue = None if unit is None else self._books.snapshot.queues.get(unit.queue)
            if unit is None:
                self._end(key)
            elif queue is None or queue.backfill is None:
                self.withdraw(key, "NoBackfill", f"ClusterQueue {unit.queue} has no backfill")

    # ------------------------------------------------------------------ what happens to units

    def update(self, unit: Unit, workload: Workload | None, why: str) -> Workload | None:
        """Take in a changed unit; return its workload with the seconds that it will take.

        ``workload``: what it waits for, without these seconds. None if it waits for nothing; then
        ``why`` says why, or is "".
        """
        if not self.eligibility.enabled:
            return workload
        key = unit.key
        self.timetable.update(unit)
        if unit.held and key in self.of:
            self._end(key, ReservationChange(None, "Started", "It has started"))
        if not unit.waiting:
            self._read.discard(key)
            if key in self.of:
                self._end(key)
        if workload is None:
            self.withdraw(key, "Suspended", why or "pods of it, or their claims, are missing")
            return None
        # The limit is a part of the shape: a shorter unit may start where a longer one may not.
        seconds = occupied(self._books.cluster, unit) + _LATE
        workload = replace(workload, seconds=seconds, shape=(workload.shape, seconds))
        if not unit.held:
            self._update_reservation(unit, workload)
        # Without a shape, a unit with a reservation is decided on its own: the failure of a unit of
        # the same shape without a reservation says nothing about it.
        return replace(workload, shape=None) if key in self.of else workload

    def _update_reservation(self, unit: Unit, workload: Workload) -> None:
        """Read the reservation of a waiting unit from its annotation, or update the known one."""
        key, found = unit.key, self.of.get(unit.key)
        if key not in self._read:
            # Only once: afterwards the annotation may be older than the known reservation.
            self._read.add(key)
            found = found or stored_reservation(self._books.cluster, unit, workload)
        if found is None:
            return
        queue, priority, seconds = workload.queue, workload.priority, workload.seconds
        # Other starts may have been promised that have no room beside what it would take now.
        if found.queue != queue:
            self.withdraw(key, "Changed", f"it has moved to ClusterQueue {queue}")
        elif found.seconds < seconds:
            self.withdraw(key, "Changed", "it may run for longer than before")
        else:
            if key not in self.of:
                self._starts.set(key, found.start)
            self.of[key] = made = replace(found, priority=priority, seconds=seconds)
            self.timetable.set_reservation(key, made)

    def reserve(self, key: str, made: Reservation, kept_out: str = "") -> None:
        """Promise a start to a unit, or change its promised start.

        ``kept_out``: what else than too little room keeps it from its nodes; "" if it is not known.
        """
        old = self.of.get(key)
        # Rounded up to whole seconds, as in the annotation: the next leader reads the same start.
        made = replace(made, start=float(ceil(made.start)))
        if old == made:
            return
        message = f"It {_promise_text(self._units[key], made)}"
        change = ReservationChange(made, "Reserved", message)
        if old is not None and made.start > old.start:
            cause, why = self._withdrawals.why(key, old, kept_out)
            text = f"The start at {time_text(old.start)} is withdrawn: {why}. {message}"
            change = ReservationChange(made, cause, text, withdrawn=True)
        # Others may be able to start earlier, or have a lower priority and must be planned again.
        below = any(one.priority < made.priority for one in self.of.values())
        if below or (old is not None and made.start != old.start):
            self._rounds.want()
        untold = self.changes.get(key)
        if untold is not None and untold.withdrawn and not change.withdrawn:
            # Users know only the promise that was withdrawn, so the message has to mention it.
            text = f"{untold.message.partition('. It ')[0]}. {message}"
            change = untold._replace(reservation=made, message=text)
        self.of[key] = made
        self._starts.set(key, made.start)
        self.changes[key] = change
        self.timetable.set_reservation(key, made)

    def withdraw(self, key: str, cause: str = "", why: str = "", kept_out: str = "") -> None:
        """Withdraw a unit's reservation, if it has one.

        ``cause`` is the reason of the condition, ``why`` the text. Without them the reason is
        searched; ``kept_out``: see ``reserve``.
        """
        old = self.of.get(key)
        if old is None:
            return
        if not cause:
            cause, why = self._withdrawals.why(key, old, kept_out)
        text = f"The start at {time_text(old.start)} is withdrawn: {why}"
        self._end(key, ReservationChange(None, cause, text, withdrawn=True))

    def _end(self, key: str, change: ReservationChange | None = None) -> None:
        """End a reservation; ``change``: what is reported of it."""
        if change is not None:
            self.changes[key] = change
        del self.of[key]
        self._starts.discard(key)
        self._rounds.want()
        self.timetable.set_reservation(key, None)

    # ------------------------------------------------------------------ what is to be done

    def due(self) -> list[str]:
        """Return the keys of the units whose promised start has come."""
        return [key for key, one in self.of.items() if one.start <= self._books.now]

    def take_due(self) -> list[str]:
        """Return the keys of the units whose promised start has come since the last call."""
        # Once for each unit: one that finds no room at its start would be tried without end.
        return [key for key, _ in self._starts.pop_due(self._books.now)]

    def take_queues(self) -> Collection[str]:
        """Return the ClusterQueues in which a start may have to be promised, or moved."""
        queues, known = list[str](), self._books.snapshot.queues
        version = self._books.cluster.version("Node")
        if self.of and version != self._nodes_version:
            self._nodes_version = version
            queues += [one.queue for one in self.of.values() if self._withdrawals.missing_node(one)]
        queues += self.eligibility.take_old_enough()
        # Others may start earlier, because a reservation has ended or moved. But only once in a
        # pause, since each round may move others in turn.
        if self._rounds.begin(self._books.now):
            queues += known
        # A unit may have moved to a LocalQueue or ClusterQueue that does not exist.
        return dict.fromkeys(name for name in queues if name in known)

    def next_time(self) -> float | None:
        """Return the next time at which a unit is due, or others have to be tried again."""
        parts = self._starts, self.eligibility, self._rounds
        return earliest(*(part.next_time() for part in parts))

    def promise(self, key: str) -> str:
        """Return the promise to a unit as a clause of a message; "" without one."""
        return f"it {_promise_text(self._units[key], self.of[key])}" if key in self.of else ""


def _promise_text(unit: Unit, made: Reservation) -> str:
    """Return the promise to a unit as a clause without its subject."""
    where = f"reserved on nodes {listed(sorted(made.nodes), _MOST_NAMED)}"
    text = f"{start_text(time_text(made.start))}, {where}"
    specs = {pod.cls.id: pod.pod.spec for pod in unit.waiting.values()}.values()
    open_ = [what for what, asks in _NOT_KEPT.items() if any(map(asks, specs))]
    return f"{text}, unless other pods prevent its {' or '.join(open_)}" if open_ else text
