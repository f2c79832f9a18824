"""Why a unit cannot wait in its queue, and whether its queue drains."""

from __future__ import annotations

from typing import Final, NamedTuple

from podsched.api.conditions import is_terminating
from podsched.api.objects import ClusterQueue, LocalQueue
from podsched.api.queue_labels import QUEUE_NAME
from podsched.api.selectors import compile_selector
from podsched.queues.assignment import Waiting
from podsched.queues.stored import is_stopped
from podsched.term.admission.books import Books
from podsched.term.admission.endings import DRAINS, LOCAL_QUEUE_STOPPED, QUEUE_STOPPED
from podsched.term.admission.requeuing import Requeuing
from podsched.term.admission.units import Unit

REASON_NO_QUEUE: Final = f"pods of namespace {{}} have to be in a queue: set the label {QUEUE_NAME}"


class Problem(NamedTuple):
    """Why a unit cannot wait in a queue."""

    reason: Waiting
    message: str


class QueueState(NamedTuple):
    """Whether units may wait in a LocalQueue and its ClusterQueue, and whether they drain."""

    drains: str
    """The reason with which units are evicted, because a queue drains; "" if none drains."""
    problem: Problem | None
    """Why no unit can wait there."""


class QueueStates:
    """The states of queues, read once for each LocalQueue until ``clear``."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._of: dict[tuple[str, str], QueueState] = {}

    def clear(self) -> None:
        """Have them read again, because an object that they depend on has changed."""
        self._of.clear()

    def of(self, unit: Unit) -> QueueState:
        """Return the state of a unit's queues."""
        # If the LocalQueue is made again during a refresh, units may be in another ClusterQueue.
        queues = unit.local_queue_key, unit.queue
        found = self._of.get(queues)
        if found is None:
            found = self._of[queues] = _queue_state(self._books, unit)
        return found


def find_problem(state: QueueState, requeuing: Requeuing, unit: Unit) -> Problem | None:
    """Return why a unit cannot wait in its queue; None if it can."""
    why = requeuing.deactivated(unit.key)
    return Problem(Waiting.SUSPENDED, why) if why else state.problem


def _queue_state(books: Books, unit: Unit) -> QueueState:
    local = books.cluster.get("LocalQueue", unit.namespace, unit.local_queue)
    queue = books.cluster.get("ClusterQueue", "", unit.queue)
    drains = ""
    if local is not None and local.spec.stop_policy == DRAINS:
        drains = LOCAL_QUEUE_STOPPED
    elif queue is not None and queue.spec.stop_policy == DRAINS:
        drains = QUEUE_STOPPED
    if (problem := _stopped(local, queue, unit)) is None:
        assert queue is not None
        problem = _refused(books, queue, unit)
    return QueueState(drains, problem)


def _stopped(local: LocalQueue | None, queue: ClusterQueue | None, unit: Unit) -> Problem | None:
    namespace, name = unit.namespace, unit.local_queue
    if not name:
        return Problem(Waiting.MISCONFIGURED, REASON_NO_QUEUE.format(namespace))
    if local is None:
        return Problem(Waiting.MISCONFIGURED, f"LocalQueue {name} doesn't exist")
    if is_stopped(local):
        return Problem(Waiting.SUSPENDED, f"LocalQueue {name} is stopped")
    if queue is None:
        return Problem(Waiting.MISCONFIGURED, f"ClusterQueue {unit.queue} doesn't exist")
    if is_stopped(queue):
        return Problem(Waiting.SUSPENDED, f"ClusterQueue {unit.queue} is stopped")
    return None


def _refused(books: Books, queue: ClusterQueue, unit: Unit) -> Problem | None:
    if is_terminating(queue) or not books.snapshot.admits(unit.queue):
        return Problem(Waiting.SUSPENDED, f"ClusterQueue {unit.queue} is inactive")
    space = books.cluster.get("Namespace", "", unit.namespace)
    has_selector = queue.spec.HasField("namespace_selector")
    selector = compile_selector(queue.spec.namespace_selector if has_selector else None)
    if not selector.matches({} if space is None else space.metadata.labels):
        message = "workload namespace doesn't match ClusterQueue selector"
        return Problem(Waiting.MISCONFIGURED, message)
    return None
