"""Google's trace of 2011: ``machine_events`` and ``task_events`` of clusterdata-2011-2.

Format: "Google cluster-usage traces: format + schema", version 2.1. Times are microseconds, 0 for
what was there before the trace began. Resources are normalised to the largest machine, which is
assumed to have 64 cpus and 256 GiB. A task that is submitted again is a new pod. It is not known
how long evicted and lost tasks would have run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from podsched.lab.replay.history import PodHistory
from podsched.lab.replay.recording import MAX_SECONDS
from podsched.lab.replay.traces.builder import GIB, Row, TraceBuilder, rows
from podsched.lab.replay.workload import Workload

#: What 1.0 stands for, in millicores and bytes.
CPU: Final = 64_000.0
MEMORY: Final = 256.0 * GIB
_MICROSECONDS: Final = 1e6


#: Field 3 of machine_events where a machine goes; all others say what it offers.
_REMOVE: Final = 1


class TaskEvent(IntEnum):
    """Field 6 of task_events; 7 and 8, updates of requests and constraints, are not followed."""

    SUBMIT = 0
    SCHEDULE = 1
    EVICT = 2
    FAIL = 3
    FINISH = 4
    KILL = 5
    LOST = 6


_ENDS: Final = (
    TaskEvent.EVICT, TaskEvent.FAIL, TaskEvent.FINISH, TaskEvent.KILL, TaskEvent.LOST,
)  # fmt: skip
#: After these it is not known how long a task would have run.
_CUT_SHORT: Final = (TaskEvent.EVICT, TaskEvent.LOST)


@dataclass(slots=True)
class _Task:
    history: PodHistory
    times: int


def read(directory: Path, seconds: float = MAX_SECONDS) -> Workload:
    """Return the workload of the first seconds. Raises BadTrace or OSError."""
    builder = TraceBuilder()
    for row in rows(directory, "machine_events"):
        at = row.time(0) / _MICROSECONDS
        if at <= seconds:
            _machine(builder, row, at)
    tasks = _Tasks(builder)
    for row in rows(directory, "task_events"):
        at = row.time(0) / _MICROSECONDS
        if at > seconds:
            break  # parts and their rows are in the order of time
        tasks.take(row, at)
    tasks.begin()
    return builder.workload(with_history=True)


def _machine(builder: TraceBuilder, row: Row, at: float) -> None:
    name = f"machine-{row.text(1)}"
    if int(row.number(2)) == _REMOVE:
        builder.node_gone(at, name)
    else:
        builder.node(at, name, row.amount(4) * CPU, row.amount(5) * MEMORY)


class _Tasks:
    """Follows tasks by job and index."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._tasks: dict[tuple[str, str], _Task] = {}
        #: What was submitted before the trace began: most of it runs already.
        self._early: dict[tuple[str, str], Row] | None = {}

    def begin(self) -> None:
        """Add the tasks that were submitted before the trace and not scheduled as pending pods."""
        early, self._early = self._early, None
        for row in (early or {}).values():
            self._submitted(row, 0.0)

    def take(self, row: Row, at: float) -> None:
        """Take an event."""
        key, event = (row.text(2), row.text(3)), int(row.number(5))
        self._builder.seen(at)
        if at > 0 and self._early is not None:
            self.begin()
        if self._early is not None and event == TaskEvent.SUBMIT:
            self._early[key] = row
            return
        known = self._tasks.get(key)
        if event in (TaskEvent.SUBMIT, TaskEvent.SCHEDULE) and (
            known is None or known.history.ended is not None
        ):
            # A SCHEDULE without a SUBMIT is one of those that are missing in the trace.
            known = self._submitted(row, at)
        if known is None or known.history.ended is not None:
            return
        history = known.history
        if event == TaskEvent.SCHEDULE and history.bound is None:
            history.bound, history.node = at, f"machine-{row.text(4)}"
        elif event in _ENDS:
            history.ended = at
            history.preempted = event == TaskEvent.EVICT
            if history.bound is not None and event not in _CUT_SHORT:
                self._builder.runs(history, at - history.bound)

    def _submitted(self, row: Row, at: float) -> _Task:
        job, index = row.text(2), row.text(3)
        if self._early is not None:
            self._early.pop((job, index), None)
        earlier = self._tasks.get((job, index))
        times = 1 if earlier is None else earlier.times + 1
        node = f"machine-{row.text(4)}"
        runs = self._early is not None and self._builder.has_node(node)
        history = self._builder.pod(
            at,
            f"job-{job}-{index}" + (f"-{times}" if times > 1 else ""),
            row.amount(9) * CPU,
            row.amount(10) * MEMORY,
            priority=int(row.number(8)),
            labels={"job": job},
            apart=bool(row.number(12)),
            node=node if runs else "",
        )
        self._tasks[job, index] = task = _Task(history, times)
        return task
