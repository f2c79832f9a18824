"""Keep the pods of queues out of activeQ, except while the admission cycle pops them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status, unresolvable
from podsched.term.admission.units import Unit, unit_key

REASON_GATED: Final = "waiting for admission to a queue"
_GATED: Final = unresolvable(REASON_GATED)


class Gate:
    """The PreEnqueue plugin for the pods of queues, of all profiles."""

    name: ClassVar[str] = "Admission"

    def __init__(
        self,
        units: Mapping[str, Unit],
        queue_of: Callable[[PodInfo], str | None],
        note_helped: Callable[[str], None],
    ) -> None:
        """``queue_of``: returns a pod's queue, None without one.

        ``note_helped`` gets the keys of units that an event may help: the scheduling queue runs
        PreEnqueue again for their pods.
        """
        self._units = units
        self._queue_of = queue_of
        self._note_helped = note_helped
        self.active = False
        """Whether there are queues, or namespaces whose pods have to be in one."""
        #: The key of the unit whose pods may pass.
        self._passing = ""

    @contextmanager
    def lets_pass(self, key: str) -> Iterator[None]:
        """Let the pods of a unit pass while they are popped."""
        self._passing = key
        try:
            yield
        finally:
            self._passing = ""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject a pod of a queue, unless its unit is being admitted; let other pods pass."""
        if not self.active:
            return SUCCESS
        key = unit_key(pod)
        if key == self._passing:
            return SUCCESS
        # Finding the queue takes longest; a pod that is counted as waiting in one has one.
        unit = self._units.get(key)
        if (unit is None or pod.uid not in unit.waiting) and self._queue_of(pod) is None:
            return SUCCESS
        self._note_helped(key)
        return _GATED
