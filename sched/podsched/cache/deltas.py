"""Keeping copies of some nodes' columns elsewhere: compact, picklable deltas.

The leader has a ``DeltaEncoder`` per shard. It reads the journal, compares each changed row with
what the shard was sent last, and so sends a row's net change however often it changed in between;
a journal that is too old costs a comparison of all rows and nothing else. The content of a pod
class is sent once, then its id. A shard's ``DeltaDecoder`` applies deltas to columns of its own.

Guarantee: after the deltas of one encoder, in order, the shard's columns equal the leader's on the
shard's nodes (usage, labels, taints, images, ports, counts, and pods with their importance and in
their order), row by row and with the same ids of label values, so that a CycleState made here can
be read there. Deltas are numbered; a gap raises ``DeltaGapError`` and the encoder has to
``restart``.

Non-goals: objects other than nodes and pods, nominations. A shard's ``PodInfo.pod`` is shared by
all pods of the class: it has the class's namespace, labels, owner and spec, neither name nor
status.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from podsched.cache.columns import Columns
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1


class DeltaGapError(Exception):
    """A delta does not follow the last one applied: ask the leader for a restart."""


def shard_of(node_name: str, shards: int) -> int:
    """Return the shard (0..shards-1) that holds a node; the same in every process."""
    return zlib.crc32(node_name.encode()) % shards


@dataclass(frozen=True, slots=True)
class ClassContent:
    """A pod class as it travels; ``id`` is the leader's."""

    id: int
    namespace: str
    labels: tuple[tuple[str, str], ...]
    spec: bytes
    controller: tuple[str, str, str] | None
    requests: tuple[tuple[str, int], ...]
    nonzero: tuple[int, int]
    scheduler_name: str
    priority: int
    preemption_policy: str


@dataclass(frozen=True, slots=True)
class NodeDelta:
    """Nodes that came or changed (row, serialized), and names of those that went with their pods.

    ``values`` are the label values that have ids from ``first_value`` on.
    """

    put: tuple[tuple[int, bytes], ...] = ()
    removed: tuple[str, ...] = ()
    first_value: int = 0
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDelta:
    """Pods that came or changed, as parallel lists (they pickle faster than objects).

    ``rows`` are the leader's rows of their nodes; ``removed`` are (row, uid).
    """

    rows: list[int] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    uids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    start_times: list[float] = field(default_factory=list)
    creation_times: list[float] = field(default_factory=list)
    terminating: list[bool] = field(default_factory=list)
    removed: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed for a shard. ``number`` 0 starts anew: the shard forgets all it had.

    ``size`` is the number of the leader's rows.
    """

    number: int
    size: int
    classes: tuple[ClassContent, ...]
    forgotten_classes: tuple[int, ...]
    nodes: NodeDelta
    pods: PodDelta


@dataclass(slots=True)
class _Sent:
    """What the shard knows of a row."""

    name: str
    version: int
    pods: dict[str, PodInfo]


class ClassWriter:
    """Which classes a shard knows already; used for the classes of waiting pods too."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, PodClass] = WeakValueDictionary()
        self._ids: set[int] = set()
        self._fresh: list[ClassContent] = []

    def id_of(self, cls: PodClass) -> int:
        """Return the class's id; its content goes with the next ``take`` when the shard lacks it."""
        if cls.id not in self._known:
            self._known[cls.id] = cls
            self._ids.add(cls.id)
            self._fresh.append(class_content(cls))
        return cls.id

    def take(self) -> tuple[ClassContent, ...]:
        """Return the contents that the shard has to be sent before it can read the ids given out."""
        fresh, self._fresh = tuple(self._fresh), []
        return fresh

    def take_forgotten(self) -> tuple[int, ...]:
        """Ids of classes that are gone here; the shard can forget them."""
        if len(self._ids) < 2 * len(self._known) + 256:
            return ()
        gone = tuple(self._ids - set(self._known))
        self._ids.difference_update(gone)
        return gone


def class_content(cls: PodClass) -> ClassContent:
    return ClassContent(
        id=cls.id,
        namespace=cls.namespace,
        labels=tuple(cls.labels.items()),
        spec=cls.spec.SerializeToString(),
        controller=cls.controller,
        requests=tuple(cls.requests.items()),
        nonzero=cls.nonzero,
        scheduler_name=cls.scheduler_name,
        priority=cls.priority,
        preemption_policy=cls.preemption_policy,
    )


class DeltaEncoder:
    """Turns the changes of the leader's columns into deltas for the nodes that ``owns`` names."""

    def __init__(self, columns: Columns, owns: Callable[[str], bool]) -> None:
        self._columns = columns
        self._owns = owns
        self.restart()

    def restart(self) -> None:
        """Make the next delta start anew, for a shard that has nothing or lost its place."""
        self.classes = ClassWriter()
        self._sent: dict[int, _Sent] = {}
        self._number = 0
        self._values_sent = 0
        self._due: set[int] = set()
        self._position = self._restated = -1

    def encode(self, limit: int | None = None) -> Delta | None:
        """Return what changed since the last delta; None when nothing did.

        ``limit``: look at so many changed rows at most and leave the others to the next delta, so
        that no call takes long.
        """
        self._due.update(self._changed_rows())
        self._position = self._columns.position
        self._restated = self._columns.restated_position
        writer = _DeltaWriter(self.classes)
        self._forget_gone(writer)
        rows = sorted(self._due)[:limit]
        self._due.difference_update(rows)
        for row in rows:
            self._compare(row, writer)
        # The order matters: ids are given out while rows are compared.
        classes = self.classes.take()
        forgotten = self.classes.take_forgotten()
        first, values = self.take_values()
        if not (writer.changed or classes or forgotten or values) and self._number:
            return None
        nodes = NodeDelta(tuple(writer.nodes), tuple(writer.removed_nodes), first, values)
        delta = Delta(self._number, self._columns.size, classes, forgotten, nodes, writer.pods)
        self._number += 1
        return delta

    @property
    def next_number(self) -> int:
        """The number that the next delta will have; the shard's must be equal to be current."""
        return self._number

    def take_values(self) -> tuple[int, tuple[str, ...]]:
        """(first id, label values) that the shard has to be told before it reads a CycleState."""
        first = self._values_sent
        values = tuple(self._columns.values_from(first))
        self._values_sent += len(values)
        return first, values

    def unsent(self) -> Rows | None:
        """Ascending rows that the shard may not have as they are now; None: perhaps all."""
        changed = self._columns.changed_since(self._position)
        if changed is None or not self._due:
            return changed
        return np.union1d(changed, np.array(sorted(self._due), dtype=np.intp))

    def untold(self) -> Rows | None:
        """Like ``unsent``, with the rows where nothing changed but start times of pods."""
        unsent = self.unsent()
        restated = self._columns.restated_since(self._restated)
        if unsent is None or restated is None:
            return None
        return np.union1d(unsent, restated).astype(np.intp)

    @property
    def has_more(self) -> bool:
        """Whether the last ``encode`` left rows to the next."""
        return bool(self._due)

    def _forget_gone(self, writer: _DeltaWriter) -> None:
        """Tells of nodes that left their rows, before any of them comes back in another row."""
        names = self._columns.names
        for row in sorted(self._due & self._sent.keys()):
            if self._sent[row].name != names[row]:
                writer.removed_nodes.append(self._sent.pop(row).name)
        self._due = {row for row in self._due if names[row] and self._owns(names[row])}

    def _changed_rows(self) -> Iterable[int]:
        changed = self._columns.changed_since(self._position)
        restated = self._columns.restated_since(self._restated)
        if changed is None or restated is None:
            return range(self._columns.size)
        return sorted({*changed.tolist(), *restated.tolist()})

    def _compare(self, row: int, writer: _DeltaWriter) -> None:
        columns = self._columns
        name = columns.names[row]
        sent = self._sent.get(row)
        if sent is None:
            sent = self._sent[row] = _Sent(name, 0, {})
        version = columns.node_version(row)
        if sent.version != version:
            writer.nodes.append((row, columns.node(row).SerializeToString()))
            sent.version = version
        pods = columns.pods(row)
        if writer.put_pods(row, sent.pods, pods.values()):
            sent.pods = dict(pods)


class _DeltaWriter:
    """Collects one delta."""

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
        """Write how a node's pods differ; whether they do (be it in what does not travel)."""
        added: list[PodInfo] = []
        stale = dict(before)
        different = False
        order = iter(before)
        for pod in now:
            different = different or next(order, "") != pod.uid
            old = stale.pop(pod.uid, None)
            if old is not pod:
                different = True
                if old is None or not _travels_alike(old, pod):
                    added.append(pod)
        if not different and not stale:
            return False
        if _order_there(before, stale, added) != [pod.uid for pod in now]:
            # A pod that left and came back alike is last here and still in its old place there.
            added, stale = list(now), before
        if added or stale:
            self._write(row, added, stale)
        return True

    def _write(self, row: int, added: Sequence[PodInfo], stale: Iterable[str]) -> None:
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
    """Return the order in which the shard will have a row's pods: see ``Columns.replace_pod``."""
    order = {uid: pod for uid, pod in before.items() if uid not in gone}
    for pod in added:
        old = order.get(pod.uid)
        if old is not None and not (old.cls is pod.cls and old.terminating == pod.terminating):
            del order[pod.uid]
        order[pod.uid] = pod
    return list(order)


def _travels_alike(old: PodInfo, new: PodInfo) -> bool:
    return (
        old.cls is new.cls
        and old.terminating == new.terminating
        and old.start_time == new.start_time
    )


class DeltaDecoder:
    """A shard's columns, kept current by deltas."""

    def __init__(self) -> None:
        self.columns = Columns()
        self._classes: dict[int, tuple[PodClass, v1.Pod]] = {}
        self._next = 0

    def apply(self, delta: Delta) -> None:
        """Apply the next delta. Raises DeltaGapError, and changes nothing, when it is another.

        ``columns`` is a new object after a delta that starts anew.
        """
        if delta.number == 0:
            self.columns = Columns(delta.size)
            self._classes.clear()
        elif delta.number != self._next:
            raise DeltaGapError(f"delta {delta.number} came where {self._next} was due")
        self._next = delta.number + 1
        self.columns.reserve(delta.size)
        self.learn(delta.classes)
        self._apply_gone(delta)
        self._apply_nodes(delta.nodes)
        self._apply_pods(delta.pods)
        for class_id in delta.forgotten_classes:
            self._classes.pop(class_id, None)

    @property
    def next_number(self) -> int:
        """The number of the delta that is due."""
        return self._next

    def learn(self, contents: Iterable[ClassContent]) -> None:
        """Take over classes, for example of the waiting pod that is to be evaluated."""
        for content in contents:
            if content.id not in self._classes:
                self._classes[content.id] = _class_of(content)

    def pod(self, class_id: int, uid: str, name: str) -> PodInfo:
        """Return a pod of a known class, without a node."""
        cls, message = self._classes[class_id]
        return PodInfo(uid, f"{cls.namespace}/{name}", name, cls, message)

    def _apply_gone(self, delta: Delta) -> None:
        for row, uid in delta.pods.removed:
            self.columns.remove_pod(row, self.columns.pods(row)[uid])
        for name in delta.nodes.removed:
            self.columns.remove_node(name)

    def _apply_nodes(self, nodes: NodeDelta) -> None:
        self.columns.adopt_values(nodes.first_value, list(nodes.values))
        for row, message in nodes.put:
            node = v1.Node.FromString(message)
            if self.columns.row_of(node.metadata.name) is None:
                self.columns.add_node(node, row)
            else:
                self.columns.update_node(node)

    def _apply_pods(self, pods: PodDelta) -> None:
        for i, row in enumerate(pods.rows):
            pod = self.pod(pods.classes[i], pods.uids[i], pods.names[i])
            pod.node_name = self.columns.names[row]
            pod.start_time = pods.start_times[i]
            pod.creation_time = pods.creation_times[i]
            pod.terminating = pods.terminating[i]
            if pod.uid in self.columns.pods(row):
                self.columns.replace_pod(row, pod)
            else:
                self.columns.add_pod(row, pod)


def _class_of(content: ClassContent) -> tuple[PodClass, v1.Pod]:
    spec = v1.PodSpec.FromString(content.spec)
    message = v1.Pod(spec=spec)
    message.metadata.namespace = content.namespace
    message.metadata.labels.update(dict(content.labels))
    if content.controller is not None:
        kind, name, uid = content.controller
        message.metadata.owner_references.add(kind=kind, name=name, uid=uid, controller=True)
    cls = PodClass(
        id=content.id,
        namespace=content.namespace,
        labels=dict(content.labels),
        spec=spec,
        controller=content.controller,
        requests=dict(content.requests),
        nonzero=content.nonzero,
        scheduler_name=content.scheduler_name,
        priority=content.priority,
        preemption_policy=content.preemption_policy,
    )
    return cls, message
