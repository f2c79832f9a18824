"""Which of the units that cannot start now may be promised a start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Final

from podsched.config.queues import Backfill as Settings
from podsched.lib.due_times import DueTimes
from podsched.queues.backfill.parts import equal_parts, has_one_left
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import Backfill, Workload
from podsched.term.admission.books import Books
from podsched.term.admission.timetable import Timetable

#: Max promised starts: the cost of each grows with their number.
_MOST_RESERVED: Final = 100


class Eligibility:
    """See the module."""

    def __init__(
        self,
        books: Books,
        timetable: Timetable,
        reserved: Mapping[str, Reservation],
        settings: Settings,
    ) -> None:
        """``reserved``: by key of the unit."""
        self._books = books
        self._timetable = timetable
        self._reserved = reserved
        self._settings = settings
        self.enabled = False
        """Whether a ClusterQueue has backfill."""
        #: When waiting units will have waited for ``minAge``.
        self._old_enough = DueTimes()
        #: By ClusterQueue with backfill, the promised starts that no other one may take.
        self._parts: Mapping[str, int] = {}

    def begin(self) -> None:
        """Use a new snapshot."""
        self._old_enough.clear()
        # With EASY more are promised only if units of higher priority come.
        needs = {Backfill.EASY: self._settings.starts_per_queue, Backfill.CONSERVATIVE: inf}
        policies = {name: queue.backfill for name, queue in self._books.snapshot.queues.items()}
        of_queues = {name: needs[one] for name, one in policies.items() if one is not None}
        self.enabled = bool(of_queues)
        self._parts = equal_parts(_MOST_RESERVED, of_queues)

    def may_promise(self, workload: Workload, policy: Backfill) -> bool:
        """Whether a unit that cannot start now may be promised a start, or keep the one it has."""
        key, settings = workload.key, self._settings
        if key in self._reserved:
            return True
        lowest = settings.min_priority
        if lowest is not None and workload.priority < lowest:
            return False
        promised = Counter(one.queue for one in self._reserved.values())
        if not has_one_left(workload.queue, _MOST_RESERVED, self._parts, promised):
            return False
        grown = workload.queued_at + settings.min_age
        if settings.min_age and grown > self._books.now:
            self._old_enough.set(key, grown)
            return False
        who = key, workload.queue, workload.priority
        return self._timetable.outlook.plan.may_reserve(*who, policy, settings.starts_per_queue)

    def take_old_enough(self) -> list[str]:
        """Return the ClusterQueues of units that have waited for ``minAge`` since the last call."""
        units = self._books.units
        grown = [key for key, _ in self._old_enough.pop_due(self._books.now)]
        return [units[key].queue for key in grown if key in units]

    def next_time(self) -> float | None:
        """Return the next time at which a unit will have waited for ``minAge``."""
        return self._old_enough.next_time()
