"""Encode the changes of a shard's nodes as deltas; used by the leader.

For each row of the shard the encoder keeps what it has sent (``_SentRow``) and compares it with the
current row. So a delta contains only the net change of a row, and the journal only has to tell
*which* rows to compare::

    journal:  4, 9, 4, 4     -> _due = {4, 9}   9 belongs to another shard -> dropped
    row 4 was sent:   node version 12, pods {a, b}
    row 4 is now:     node version 12, pods {b, c}      -> removed (4, a), added c

When the journal is too old, all rows are compared: O(rows), without sending more than what
changed. ``limit`` bounds the rows compared at once; the others stay due.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np

from podsched.cache.columns import Columns
from podsched.cache.deltas import ClassContent, Delta, NodeDelta, PodDelta, class_content
from podsched.cache.pod_table import has_same_usage
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows


class ClassWriter:
    """Tracks the classes that a shard knows.

    References to classes are weak: a class that a shard knows must not stay alive for that.
    """

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, PodClass] = WeakValueDictionary()
        self._ids: set[int] = set()
        self._fresh: list[ClassContent] = []

    def id_of(self, cls: PodClass) -> int:
        """Return the class's id; its content is in the next ``take`` if the shard lacks it."""
        if cls.id not in self._known:
            self._known[cls.id] = cls
            self._ids.add(cls.id)
            self._fresh.append(class_content(cls))
        return cls.id

    def take(self) -> tuple[ClassContent, ...]:
        """Return the contents that the shard needs before it can read the ids given out."""
        fresh, self._fresh = tuple(self._fresh), []
        return fresh

    def take_forgotten(self) -> tuple[int, ...]:
        """Return the ids of classes that are gone here, for the shard to forget.

        Only once half of the ids are of such classes: finding them is O(classes).
        """
        if len(self._ids) < 2 * len(self._known) + 256:
            return ()
        gone = tuple(self._ids - set(self._known))
        self._ids.difference_update(gone)
        return gone


@dataclass(slots=True)
class _SentRow:
    """The state of a row that was last sent to the shard."""

    name: str
    version: int
    pods: dict[str, PodInfo]


class DeltaEncoder:
    """Turns the changes of the leader's columns into deltas for the nodes that ``owns`` names."""

    def __init__(self, columns: Columns, owns: Callable[[str], bool]) -> None:
        self._columns = columns
        self._owns = owns
        self.restart()

    def restart(self) -> None:
        """Make the next delta a full one, for a shard that is new or has missed a delta."""
        self._classes = ClassWriter()
        self._sent: dict[int, _SentRow] = {}
        self._number = 0
        self._due: set[int] = set()
        # -1 is before any position of a journal, so the first delta compares all rows.
        self._position = self._start_times = -1

    def encode(self, limit: int | None = None) -> Delta | None:
        """Return what changed since the last delta; None when nothing did.

        ``limit``: max rows to compare; the others are left to the next delta, so that no call takes
        long.
        """
        changed = self._changed_rows()
        self._position = self._columns.position
        self._start_times = self._columns.start_times.position
        writer = _DeltaWriter(self._classes)
        self._forget_gone(changed, writer)
        names = self._columns.names
        # Rows that are due from before have the nodes that they had.
        self._due -= changed
        self._due |= {row for row in changed if names[row] and self._owns(names[row])}
        rows = sorted(self._due)[:limit]
        # Rows beyond the limit stay due, although the journal is read from here on.
        self._due.difference_update(rows)
        for row in rows:
            self._compare(row, writer)
        # Take classes last, because comparing rows assigns class ids.
        classes = self._classes.take()
        forgotten = self._classes.take_forgotten()
        # The first delta is sent even if it is empty, because it makes the shard drop what it has.
        if not (writer.changed or classes or forgotten) and self._number:
            return None
        nodes = NodeDelta(tuple(writer.nodes), tuple(writer.removed_nodes))
        delta = Delta(self._number, self._columns.size, classes, forgotten, nodes, writer.pods)
        self._number += 1
        return delta

    @property
    def next_number(self) -> int:
        """The number that the next delta will have; the shard's must be equal to be current."""
        return self._number

    def unsent_rows(self, *, with_start_times: bool = False) -> Rows | None:
        """Return the rows, ascending, that may be outdated in the shard; None: possibly all.

        ``with_start_times``: the rows where only start times of pods changed as well.
        """
        changed = self._columns.changed_since(self._position)
        if changed is None:
            return None
        rows = {*changed.tolist(), *self._due}
        if with_start_times:
            restarted = self._columns.start_times.changed_since(self._start_times)
            if restarted is None:
                return None
            rows.update(restarted.tolist())
        return np.array(sorted(rows), dtype=np.intp)

    @property
    def has_more(self) -> bool:
        """Whether the last ``encode`` left rows to the next."""
        return bool(self._due)

    def _forget_gone(self, changed: set[int], writer: _DeltaWriter) -> None:
        """Write the nodes that left their rows, before any of them comes back in another row."""
        names = self._columns.names
        for row in sorted(changed & self._sent.keys()):
            if self._sent[row].name != names[row]:
                writer.removed_nodes.append(self._sent.pop(row).name)

    def _changed_rows(self) -> set[int]:
        """Return the rows to compare, judging by the journals; all rows if these are too old."""
        changed = self._columns.changed_since(self._position)
        restarted = self._columns.start_times.changed_since(self._start_times)
        if changed is None or restarted is None:
            return set(range(self._columns.size))
        return {*changed.tolist(), *restarted.tolist()}

    def _compare(self, row: int, writer: _DeltaWriter) -> None:
        """Write the differences between a row and its state that was last sent."""
        columns = self._columns
        name = columns.names[row]
        sent = self._sent.get(row)
        if sent is None:
            # No node has the version 0, so the node is sent.
            sent = self._sent[row] = _SentRow(name, 0, {})
        version = columns.node_table.row_version(row)
        if sent.version != version:
            writer.nodes.append((row, columns.node(row).SerializeToString()))
            sent.version = version
        pods = columns.pods(row)
        if writer.put_pods(row, sent.pods, pods.values()):
            sent.pods = dict(pods)


class _DeltaWriter:
    """A delta while it is being written."""

    def __init__(self, classes: ClassWriter) -> None:
        self._classes = classes
        self.nodes: list[tuple[int, bytes]] = []
        self.removed_nodes: list[str] = []
        self.pods = PodDelta()

    @property
    def changed(self) -> bool:
        pods = self.pods
        return bool(self.nodes or self.removed_nodes or pods.rows or pods.removed)

    def put_pods(self, row: int, before: dict[str, PodInfo], now: Collection[PodInfo]) -> bool:
        """Write the differences between a row's pods and those sent; return whether there are any.

        If they differ only in something that is not sent, such as a status, nothing is written.
        Still the caller must keep the new objects, because pods are compared by identity.

        The order of the pods is compared as well, because preemption uses it to choose among
        equally important pods.
        """
        added: list[PodInfo] = []
        stale = dict(before)
        different = False
        order = iter(before)
        for pod in now:
            different = different or next(order, "") != pod.uid
            old = stale.pop(pod.uid, None)
            if old is not pod:
                different = True
                if old is None or not _same_when_sent(old, pod):
                    added.append(pod)
        if not different and not stale:
            return False
        if _order_there(before, stale, added) != [pod.uid for pod in now]:
            # A pod that left and came back unchanged is last here and in its old place there: send
            # the whole row.
            added, stale = list(now), before
        if added or stale:
            self._write(row, added, stale)
        return True

    def _write(self, row: int, added: Sequence[PodInfo], stale: Iterable[str]) -> None:
        """Append pods to the delta: ``stale`` as removed, ``added`` as added or changed."""
        pods = self.pods
        pods.removed.extend((row, uid) for uid in stale)
        for pod in added:
            pods.rows.append(row)
            pods.classes.append(self._classes.id_of(pod.cls))
            pods.uids.append(pod.uid)
            pods.names.append(pod.name)
            pods.start_times.append(pod.start_time)
            pods.creation_times.append(pod.creation_time)
            pods.terminating.append(pod.terminating)


def _order_there(
    before: dict[str, PodInfo], gone: Collection[str], added: Iterable[PodInfo]
) -> list[str]:
    """Return the order in which the shard will have a row's pods: see ``PodTable.replace``."""
    order = {uid: pod for uid, pod in before.items() if uid not in gone}
    for pod in added:
        old = order.get(pod.uid)
        if old is not None and not has_same_usage(old, pod):
            del order[pod.uid]
        order[pod.uid] = pod
    return list(order)


def _same_when_sent(old: PodInfo, new: PodInfo) -> bool:
    return has_same_usage(old, new) and old.start_time == new.start_time
