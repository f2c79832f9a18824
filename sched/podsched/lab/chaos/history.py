"""A history as a whole, read from its file, and the state of the cluster at each revision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from podsched.api.conditions import (
    DISRUPTION_TARGET,
    TRUE,
    condition_of,
    is_finished,
    is_terminating,
)
from podsched.api.objects import (
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
)
from podsched.lab.chaos.records import (
    Begin,
    Call,
    Change,
    End,
    FaultMark,
    FencedWrite,
    HistoryError,
    Record,
    Revision,
    Settled,
    decode,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise in a history. ``keys`` of the objects concerned."""

    promise: str
    text: str
    at: float
    revision: int = 0
    keys: tuple[str, ...] = ()


#: Format of the records; other versions are refused.
VERSION = 2


@dataclass(slots=True)
class History:
    """The records of a run. ``settled`` and ``end`` are None if it was aborted."""

    begin: Begin
    calls: list[Call] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    writes: list[FencedWrite] = field(default_factory=list)
    faults: list[FaultMark] = field(default_factory=list)
    settled: Settled | None = None
    end: End | None = None

    @property
    def last_fault(self) -> float:
        """The end of the last fault; 0 if there was none."""
        return max((fault.at for fault in self.faults), default=0.0)

    @property
    def seconds(self) -> float:
        """The time of the last record."""
        times = [fault.at for fault in self.faults[-1:]]
        times += [revision.at for revision in self.revisions[-1:]]
        times += [last.at for last in (self.settled, self.end) if last is not None]
        return max(times, default=0.0)


def history_of(records: Iterable[Record]) -> History:
    """Return the history that begins with a ``Begin``. Raises HistoryError."""
    rest = iter(records)
    history = _begun(next(rest, None))
    for record in rest:
        match record:
            case Begin():
                raise HistoryError("a second beginning: two histories in one file?")
            case Call():
                history.calls.append(record)
            case Revision():
                history.revisions.append(record)
            case FencedWrite():
                history.writes.append(record)
            case FaultMark():
                history.faults.append(record)
            case Settled():
                history.settled = record
            case End():
                history.end = record
    return history


def _begun(record: Record | None) -> History:
    if record is None:
        raise HistoryError("it is empty")
    if not isinstance(record, Begin):
        raise HistoryError('the first line is no "begin"')
    if record.version != VERSION:
        raise HistoryError(f"it has version {record.version}; this sched reads {VERSION}")
    return History(record)


def load(path: Path) -> History:
    """Read a history. Raises OSError, HistoryError with the number of the line."""
    number = 0

    def records() -> Iterable[Record]:
        nonlocal number
        with path.open("rb") as file:
            for line in file:
                number += 1
                # A run that was killed may leave half a line at the end.
                if line.endswith(b"\n"):
                    yield decode(line)

    try:
        return history_of(records())
    except HistoryError as error:
        raise HistoryError(f"line {number}: {error}" if number else str(error)) from None


PODS, NODES, CLAIMS = "pods/", "nodes/", "persistentvolumeclaims/"
BUDGETS, DEVICE_CLAIMS = "poddisruptionbudgets/", "resourceclaims/"


class PodChange(NamedTuple):
    """A pod before and after a revision (None: it is not there). ``uid``: of either."""

    key: str
    uid: str
    before: Pod | None
    after: Pod | None

    @property
    def bound(self) -> bool:
        """Whether this revision bound the pod."""
        return bool(node_of(self.after) and not node_of(self.before))

    @property
    def marked(self) -> bool:
        """Whether this revision began the deletion of the pod."""
        return _is_marked(self.after) and not _is_marked(self.before)


@dataclass(slots=True)
class World:
    """Objects by key without the plural: "default/web-0", "node-1"."""

    pods: dict[str, Pod] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    """Of the pods."""
    nodes: dict[str, Node] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    device_claims: dict[str, ResourceClaim] = field(default_factory=dict)
    on_node: dict[str, dict[str, Pod]] = field(default_factory=lambda: defaultdict(dict))
    """The pods that take room, by node and key."""


class Moment(NamedTuple):
    """A revision, its changes of pods, and the world after it."""

    revision: Revision
    pods: tuple[PodChange, ...]
    world: World

    def violation(self, promise: str, text: str, *keys: str) -> Violation:
        """Return the violation of a promise by this revision; ``keys`` of the objects concerned."""
        return Violation(promise, text, self.revision.at, self.revision.number, keys)


def replay(history: History) -> Iterator[Moment]:
    """Yield every revision with the world after it, which the next one changes in place."""
    world = World()
    for revision in history.revisions:
        yield Moment(revision, apply(world, revision), world)


def apply(world: World, revision: Revision) -> tuple[PodChange, ...]:
    """Apply a revision to a world; return the changes of pods."""
    changed = [_apply(world, change) for change in revision.changes]
    return tuple(pod for pod in changed if pod is not None)


def _apply(world: World, change: Change) -> PodChange | None:
    kind, _, key = change.key.partition("/")
    if kind == "pods":
        return _apply_pod(world, key, change)
    stores: dict[str, dict[str, Any]] = {
        "nodes": world.nodes,
        "persistentvolumeclaims": world.claims,
        "poddisruptionbudgets": world.budgets,
        "resourceclaims": world.device_claims,
    }
    store = stores.get(kind, {})
    store.pop(key, None)
    if change.object is not None:
        store[key] = change.object
    return None


def _apply_pod(world: World, key: str, change: Change) -> PodChange:
    before, after = world.pods.get(key), change.object
    uid = change.uid or world.uids.get(key, "")
    world.on_node[node_of(before)].pop(key, None)
    if after is None:
        world.pods.pop(key, None)
        world.uids.pop(key, None)
    else:
        world.pods[key] = after
        world.uids[key] = uid
        if node_of(after) and not is_finished(after):
            world.on_node[node_of(after)][key] = after
    return PodChange(key, uid, before, after)


def node_of(pod: Pod | None) -> str:
    """Return the node that a pod is bound to, "" for none."""
    return pod.spec.node_name if pod is not None else ""


def disrupted(pod: Pod) -> str:
    """Return the reason of a pod's DisruptionTarget condition if that is True, else ""."""
    condition = condition_of(pod.status, DISRUPTION_TARGET)
    return condition.reason if condition is not None and condition.status == TRUE else ""


def _is_marked(pod: Pod | None) -> bool:
    return pod is not None and is_terminating(pod)
