"""Tables of objects, with kubectl's columns where kubectl has them."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from podsched.api.hollow_nodes import is_hollow
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject
from podsched.lib.ages import age
from podsched.lib.printable import printable_line

NONE = "<none>"
_GAP = "   "
_DEFAULT_SCHEDULER = "default-scheduler"
#: Columns that a wrapped cell needs beside the others; with less, it goes on at the left.
_LEAST_WRAPPED = 24


#: A node's CPU, MEMORY and PODS as cells.
Usage = Callable[[Any], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: heading, function from object and time to cell, and whether it needs ``wide``.

    usual: what most cells say; a terminal that is too narrow goes without the column if all do.
    """

    heading: str
    cell: Callable[[Any, float], str]
    wide: bool = False
    usual: str = ""


def _age(obj: Any, now: float) -> str:
    created = obj.metadata.creation_timestamp
    if not created.seconds:
        return "<unknown>"
    return age(now - created.seconds - created.nanos / 1e9)


def pod_status(pod: Any, now: float = 0.0) -> str:
    """Return a pod's STATUS: its phase, Terminating or SchedulingGated."""
    if pod.metadata.HasField("deletion_timestamp"):
        return "Terminating"
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        return "SchedulingGated"
    return pod.status.phase or "Pending"


def node_status(node: Any, now: float = 0.0) -> str:
    """Return a node's STATUS: its readiness, and whether it is cordoned."""
    ready = [c.status for c in node.status.conditions if c.type == "Ready"]
    text = {"True": "Ready", "False": "NotReady"}.get(ready[0] if ready else "", "Unknown")
    return f"{text},SchedulingDisabled" if node.spec.unschedulable else text


def _version(node: Any, now: float) -> str:
    """Return a node's VERSION: its kubelet's, as kubectl has it, or that it has none."""
    return "hollow" if is_hollow(node) else node.status.node_info.kubelet_version or NONE


def _taints(node: Any, now: float) -> str:
    shown = [
        f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}"
        for t in node.spec.taints
    ]
    return ",".join(shown) or NONE


def _selector(selector: Any) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted(selector.items())) or NONE


def _role(binding: Any, now: float) -> str:
    return f"{binding.role_ref.kind}/{binding.role_ref.name}"


def _subjects(binding: Any, now: float) -> str:
    return ",".join(f"{s.kind}/{s.name}" for s in binding.subjects) or NONE


def _quota(prefix: str) -> Callable[[Any, float], str]:
    """Return the cell with what a quota limits: "limits." alone, or all else, as kubectl has it."""

    def cell(quota: Any, now: float) -> str:
        used = quota.status.used
        return ", ".join(
            f"{name}: {used.get(name, '?')}/{hard}"
            for name, hard in sorted(quota.spec.hard.items())
            if name.startswith("limits.") == bool(prefix)
        )

    return cell


_USED = ("CPU", "MEMORY", "PODS")
_NAMESPACE = Column("NAMESPACE", lambda o, _: o.metadata.namespace)
_NAME = Column("NAME", lambda o, _: o.metadata.name)
_AGE = Column("AGE", _age)

_OWNER = (
    Column("DESIRED", lambda o, _: str(o.spec.replicas if o.spec.HasField("replicas") else 1)),
    Column("READY", lambda o, _: str(o.status.ready_replicas)),
)

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "Pod": (
        Column("STATUS", pod_status),
        Column("NODE", lambda o, _: o.spec.node_name or NONE),
        Column("PRIORITY", lambda o, _: str(o.spec.priority), wide=True),
        Column(
            "NOMINATED NODE",
            lambda o, _: o.status.nominated_node_name or NONE,
            wide=True,
            usual=NONE,
        ),
        Column(
            "SCHEDULER",
            lambda o, _: o.spec.scheduler_name,
            wide=True,
            usual=_DEFAULT_SCHEDULER,
        ),
    ),
    "Node": (
        Column("STATUS", node_status),
        Column("CPU", lambda o, _: o.status.allocatable.get("cpu", "0")),
        Column("MEMORY", lambda o, _: o.status.allocatable.get("memory", "0")),
        Column("PODS", lambda o, _: o.status.allocatable.get("pods", "0")),
        Column("VERSION", _version),
        Column("TAINTS", _taints, wide=True),
        Column(
            "ZONE",
            lambda o, _: o.metadata.labels.get("topology.kubernetes.io/zone", NONE),
            wide=True,
        ),
    ),
    "Namespace": (Column("STATUS", lambda o, _: o.status.phase or "Active"),),
    "PriorityClass": (
        Column("VALUE", lambda o, _: str(o.value)),
        Column("GLOBAL-DEFAULT", lambda o, _: str(o.global_default).lower()),
        Column("PREEMPTIONPOLICY", lambda o, _: o.preemption_policy or "PreemptLowerPriority"),
    ),
    "PodDisruptionBudget": (
        Column("MIN AVAILABLE", lambda o, _: o.spec.min_available or "N/A"),
        Column("MAX UNAVAILABLE", lambda o, _: o.spec.max_unavailable or "N/A"),
        Column("ALLOWED DISRUPTIONS", lambda o, _: str(o.status.disruptions_allowed)),
    ),
    "ReplicaSet": _OWNER,
    "StatefulSet": _OWNER,
    "ReplicationController": _OWNER[:1],
    "Service": (Column("SELECTOR", lambda o, _: _selector(o.spec.selector)),),
    "Event": (
        Column("LAST SEEN", lambda o, now: age(now - o.last_timestamp.seconds)),
        Column("TYPE", lambda o, _: o.type),
        Column("REASON", lambda o, _: o.reason),
        Column("OBJECT", lambda o, _: f"{o.involved_object.kind.lower()}/{o.involved_object.name}"),
        Column("COUNT", lambda o, _: str(o.count or 1), wide=True),
        Column("MESSAGE", lambda o, _: o.message),
        Column("NAME", lambda o, _: o.metadata.name, wide=True),
    ),
    "Lease": (
        Column("HOLDER", lambda o, _: o.spec.holder_identity or NONE),
        Column("TRANSITIONS", lambda o, _: str(o.spec.lease_transitions), wide=True),
    ),
    "PersistentVolume": (
        Column("CAPACITY", lambda o, _: o.spec.capacity.get("storage", "")),
        Column("STATUS", lambda o, _: o.status.phase or "Available"),
        Column(
            "CLAIM",
            lambda o, _: (
                f"{o.spec.claim_ref.namespace}/{o.spec.claim_ref.name}"
                if o.spec.claim_ref.name
                else NONE
            ),
        ),
        Column("STORAGECLASS", lambda o, _: o.spec.storage_class_name or NONE),
    ),
    "PersistentVolumeClaim": (
        Column("STATUS", lambda o, _: o.status.phase or "Pending"),
        Column("VOLUME", lambda o, _: o.spec.volume_name or NONE),
        Column("STORAGECLASS", lambda o, _: o.spec.storage_class_name or NONE),
    ),
    "RoleBinding": (
        Column("ROLE", _role),
        Column("SUBJECTS", _subjects),
    ),
    "ClusterRoleBinding": (
        Column("ROLE", _role),
        Column("SUBJECTS", _subjects),
    ),
    "ConfigMap": (Column("DATA", lambda o, _: str(len(o.data) + len(o.binary_data))),),
    "RuntimeClass": (Column("HANDLER", lambda o, _: o.handler),),
    "ResourceQuota": (
        Column("REQUEST", _quota("")),
        Column("LIMIT", _quota("limits.")),
    ),
    "StorageClass": (
        Column("PROVISIONER", lambda o, _: o.provisioner),
        Column("VOLUMEBINDINGMODE", lambda o, _: o.volume_binding_mode or "Immediate"),
    ),
}


def columns_of(
    kind: Kind,
    *,
    namespaces: bool,
    wide: bool,
    kinds_in_names: bool = False,
    usage: Usage | None = None,
) -> list[Column]:
    """Return the columns of a kind's table.

    namespaces: the namespace comes first. kinds_in_names: pod/web instead of web. usage: shows the
    CPU, MEMORY and PODS of nodes.
    """
    middle = [c for c in _COLUMNS.get(kind.name, ()) if wide or not c.wide]
    if usage is not None and kind.name == "Node":
        middle = [_used(column, usage) for column in middle]
    first = [_NAMESPACE] if namespaces and kind.namespaced else []
    if kind.name == "Event":
        # As in kubectl, whose table of events begins with their age and ends with their message.
        return [*first, *middle]
    name = _NAME
    if kinds_in_names:
        name = Column("NAME", lambda o, _: f"{kind.name.lower()}/{o.metadata.name}")
    return [*first, name, *middle, _AGE]


def _used(column: Column, usage: Usage) -> Column:
    if column.heading not in _USED:
        return column
    at = _USED.index(column.heading)
    return Column(column.heading, lambda o, _: usage(o)[at])


def aligned(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> list[str]:
    """Return the rows as lines with aligned columns, as kubectl prints them.

    Line breaks in cells are escaped. ``widths``: minimum widths of the columns; the last column is
    never padded.
    """
    rows = [[printable_line(cell) for cell in row] for row in rows]
    columns = max((len(row) for row in rows), default=0)
    least = [*widths, *[0] * columns]
    wide = [max(least[i], *(len(row[i]) for row in rows if i < len(row))) for i in range(columns)]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, wide, strict=False)).rstrip()
        for row in rows
    ]


def wrapped(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> list[str]:
    """Return rows as ``aligned`` does, the last column wrapped at the width of the terminal.

    Nothing is wrapped for a pipe or a file, where lines are searched and cut.
    """
    width = terminal_width()
    if width is None:
        return aligned(rows, widths)
    heads = aligned([row[:-1] for row in rows], widths[:-1])
    least = sum(widths[:-1]) + len(_GAP) * (len(widths) - 2) if widths else 0
    start = max((least, *(len(head) for head in heads))) + len(_GAP)
    beside = width - start >= _LEAST_WRAPPED
    indent = start if beside else 4
    lines: list[str] = []
    for head, row in zip(heads, rows, strict=True):
        text = printable_line(row[-1])
        if beside or start + len(text) <= width:
            first = head.ljust(start)
        else:
            lines.append(head)
            first = " " * indent
            if text == "-":
                continue  # Nothing is not worth a line of its own.
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=first,
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        ) or [head]
    return lines


def terminal_width() -> int | None:
    """Return the columns of the terminal, or of ``COLUMNS``; None for a pipe or a file."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def _fitting(columns: list[Column], objects: Sequence[AnyObject], now: float) -> list[Column]:
    """Return columns without those that say the usual of all objects, if the terminal is narrow."""
    width = terminal_width()
    if width is None or not any(column.usual for column in columns):
        return columns
    heading = [column.heading for column in columns]
    rows = [heading, *([column.cell(obj, now) for column in columns] for obj in objects)]
    if max(map(len, aligned(rows))) <= width:
        return columns
    return [
        column
        for at, column in enumerate(columns)
        if not column.usual or any(row[at] != column.usual for row in rows[1:])
    ]


class TablePrinter:
    """A table of objects of one kind; rows printed later keep the widths of the first ones."""

    def __init__(
        self,
        kind: Kind,
        *,
        namespaces: bool,
        wide: bool,
        kinds_in_names: bool = False,
        usage: Usage | None = None,
    ) -> None:
        self._columns = columns_of(
            kind, namespaces=namespaces, wide=wide, kinds_in_names=kinds_in_names, usage=usage
        )
        self._widths: list[int] = []
        self._wrap = kind.name == "Event" and not wide

    def lines(self, objects: Sequence[AnyObject], now: float) -> list[str]:
        """Return the next rows as lines, preceded by the headings the first time."""
        if not self._widths:
            self._columns = _fitting(self._columns, objects, now)
        rows = [[column.cell(obj, now) for column in self._columns] for obj in objects]
        if not self._widths:
            rows.insert(0, [column.heading for column in self._columns])
            self._widths = [max(len(row[i]) for row in rows) for i in range(len(self._columns))]
        return wrapped(rows, self._widths) if self._wrap else aligned(rows, self._widths)
