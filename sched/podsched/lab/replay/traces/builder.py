"""Read the tables of a trace, and build a workload of its nodes and pods."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from podsched.api.node_labels import HOSTNAME
from podsched.api.objects import AnyObject, Node, Pod
from podsched.api.resources import readable_requests
from podsched.cache.pod_class import DEFAULT_SCHEDULER_NAME
from podsched.lab.replay.history import History, PodHistory
from podsched.lab.replay.recording import Change
from podsched.lab.replay.workload import NodeSpans, Workload
from podsched.lib.bounded_text import bounded_lines
from podsched.lib.files import open_file
from podsched.serve.client.informer import EventType

#: Max number in a row: no machine has as many cores, and no task as many instances.
MOST: Final = 1e6
#: Max time in a row: 2^63 - 1 microseconds mean after the end of Google's trace.
LATEST: Final = 2.0**63
_MOST_LINE: Final = 1 << 20


class BadTrace(ValueError):
    """A table of a trace is missing, or has a row that does not fit its format."""


class Row:
    """One row; fields are read by their index, from 0."""

    __slots__ = ("_fields", "_where")

    def __init__(self, fields: Sequence[str], where: str) -> None:
        self._fields = fields
        self._where = where

    def text(self, place: int) -> str:
        """Return a field. Raises BadTrace if the row is shorter."""
        if place >= len(self._fields):
            count = len(self._fields)
            raise BadTrace(f"{self._where}: {count} fields, of which number {place + 1} is wanted")
        return self._fields[place].strip()

    def number(self, place: int, missing: float = 0.0, *, most: float = MOST) -> float:
        """Return a field as a number; ``missing`` if it is empty. Raises BadTrace."""
        text = self.text(place)
        try:
            value = float(text) if text else missing
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise BadTrace(f'{self._where}: field {place + 1}: "{text}" is not a number')
        if abs(value) > most:
            raise BadTrace(f"{self._where}: field {place + 1}: {value:g} is more than {most:g}")
        return value

    def amount(self, place: int) -> float:
        """Return a field as a number of at least 0. Raises BadTrace."""
        value = self.number(place)
        if value < 0:
            raise BadTrace(f"{self._where}: field {place + 1}: {value:g} is negative")
        return value

    def time(self, place: int) -> float:
        """Return a field as a time, of any unit. Raises BadTrace."""
        return self.number(place, most=LATEST)


def files_of(directory: Path, table: str) -> list[Path]:
    """Return the file of a table, or the files of its parts, sorted by name; [] for none."""
    whole = [directory / f"{table}{end}" for end in (".csv", ".csv.gz")]
    return [path for path in whole if path.is_file()] or sorted((directory / table).glob("*.csv*"))


def rows(directory: Path, table: str) -> Iterator[Row]:
    """Yield the rows of a table, or of its parts (``table/*.csv.gz``) in the order of names.

    Raises BadTrace or OSError.
    """
    files = files_of(directory, table)
    if not files:
        raise BadTrace(f"{directory}: neither {table}.csv, {table}.csv.gz nor {table}/*.csv.gz")
    for path in files:
        yield from _rows_of(path)


def lines_of(path: Path, most: int) -> Iterator[bytes]:
    """Yield the lines of a file, which may be compressed; each has at most ``most`` bytes.

    Raises BadTrace or OSError.
    """
    number = 0
    with open_file(path) as raw:
        file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        try:
            for line in bounded_lines(file, most):
                number += 1
                yield line
        except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadTrace(f"{path}: line {number + 1}: {error}") from error


def _rows_of(path: Path) -> Iterator[Row]:
    reader = csv.reader(line.decode() for line in lines_of(path, _MOST_LINE))
    while True:
        try:
            fields = next(reader, None)
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadTrace(f"{path}: line {reader.line_num + 1}: {error}") from error
        if fields is None:
            return
        if fields:
            yield Row(fields, f"{path}: line {reader.line_num}")


#: Pods of one trace; a pod takes some 5 kB.
MAX_PODS: Final = 200_000
#: Nodes of one trace, and changes of them: the largest has 12,500.
MAX_NODES: Final = 50_000
MAX_CHANGES: Final = 1_000_000
#: Unix time at which a trace begins whose times are relative: 2011-05-01T23:00:00Z, Google's.
BEGAN: Final = 1_304_290_800.0
GIB: Final = 1 << 30
_PODS_A_NODE = "1000"
_NAMESPACE = "trace"


class TraceBuilder:
    """Collects nodes, pods and changes; times are seconds since the trace's start."""

    def __init__(self) -> None:
        self._objects: list[AnyObject] = []
        self._changes: list[Change] = []
        self._run_times: dict[str, float] = {}
        self._histories: dict[str, PodHistory] = {}
        self._nodes: dict[str, Node] = {}
        self._spans = NodeSpans()
        self._end = 0.0

    # ------------------------------------------------------------------ nodes

    def node(
        self,
        at: float,
        name: str,
        cpu: float,
        memory: float,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Add a node, or change what it offers: ``cpu`` in millicores, ``memory`` in bytes.

        Raises BadTrace when there are too many.
        """
        if len(self._nodes) >= MAX_NODES and name not in self._nodes:
            raise BadTrace(f"more than {MAX_NODES:,} nodes")
        node = Node()
        node.metadata.name, node.metadata.uid = name, f"uid-{name}"
        node.metadata.labels.update({HOSTNAME: name, **(labels or {})})
        amounts = {"cpu": f"{round(cpu)}m", "memory": str(round(memory)), "pods": _PODS_A_NODE}
        node.status.allocatable.update(amounts)
        node.status.capacity.update(amounts)
        node.status.conditions.add(type="Ready", status="True")
        known = self._nodes.get(name)
        self._nodes[name] = node
        self._spans.seen(at, node)
        if at <= 0 and known is None:
            self._objects.append(node)
        else:
            type_ = EventType.ADDED if known is None else EventType.MODIFIED
            self._change(at, type_, "Node", name, node)

    def node_gone(self, at: float, name: str) -> None:
        """Remove a node, if it is there."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._spans.gone(at, name)
            self._change(at, EventType.DELETED, "Node", name, node)

    def has_node(self, name: str) -> bool:
        return name in self._nodes

    # ------------------------------------------------------------------ pods

    def pod(
        self,
        at: float,
        name: str,
        cpu: float,
        memory: float,
        *,
        priority: int = 0,
        labels: Mapping[str, str] | None = None,
        apart: bool = False,
        node: str = "",
    ) -> PodHistory:
        """Add a pod that arrives at a time, and return its history.

        ``cpu`` in millicores, ``memory`` in bytes. ``node``: where it runs at first. ``apart``: no
        two pods with its labels on one node. Raises BadTrace if there are too many, or two with the
        same name.
        """
        if len(self._histories) >= MAX_PODS:
            raise BadTrace(f"more than {MAX_PODS:,} pods: read less of the trace (--for)")
        if f"uid-{name}" in self._histories:
            raise BadTrace(f"{name} is there twice")
        pod = Pod()
        pod.metadata.name, pod.metadata.namespace = name, _NAMESPACE
        pod.metadata.uid = f"uid-{name}"
        pod.metadata.labels.update(labels or {})
        pod.spec.scheduler_name, pod.spec.priority = DEFAULT_SCHEDULER_NAME, priority
        requests = pod.spec.containers.add(name="main", image=_NAMESPACE).resources.requests
        requests.update({"cpu": f"{round(cpu)}m", "memory": str(round(memory))})
        if apart:
            affinity = pod.spec.affinity.pod_anti_affinity
            term = affinity.required_during_scheduling_ignored_during_execution.add()
            term.topology_key = HOSTNAME
            term.label_selector.match_labels.update(labels or {})
        pod.spec.node_name, pod.status.phase = node, "Running" if node else "Pending"
        uid, key = pod.metadata.uid, f"{_NAMESPACE}/{name}"
        history = PodHistory(
            uid, key, readable_requests(pod), max(at, 0.0), decided=not node, priority=priority
        )
        if node:
            history.bound, history.node = 0.0, node
            self._objects.append(pod)
        else:
            self._change(max(at, 0.0), EventType.ADDED, "Pod", key, pod)
        self._histories[uid] = history
        return history

    def runs(self, history: PodHistory, seconds: float) -> None:
        """Note how long a pod runs from the moment it is bound."""
        self._run_times[history.uid] = seconds

    def seen(self, at: float) -> None:
        """Note the time of a record: the trace lasts at least until then."""
        self._end = max(self._end, at)

    # ------------------------------------------------------------------ the result

    def workload(self, *, with_history: bool) -> Workload:
        """Return the workload; ``with_history``: the trace has the outcomes of its pods."""
        seconds = max(self._end, 1.0)
        nodes = self._spans.until(seconds)
        recorded = History(seconds, self._histories, nodes) if with_history else None
        self._changes.sort(key=lambda change: change.at)
        # Nodes come first: a pod that runs to begin with is on one of them.
        objects = sorted(self._objects, key=lambda item: isinstance(item, Pod))
        return Workload(BEGAN, seconds, objects, self._changes, self._run_times, recorded=recorded)

    def _change(self, at: float, type_: EventType, kind: str, key: str, item: AnyObject) -> None:
        if len(self._changes) >= MAX_CHANGES:
            raise BadTrace(f"more than {MAX_CHANGES:,} changes: read less of the trace (--for)")
        self.seen(at)
        self._changes.append(Change(at, type_, kind, key, item))
