"""Alibaba's trace of 2018: ``machine_meta``, ``container_meta`` and ``batch_task``.

Format: schema.txt of cluster-trace-v2018. Times are seconds. 100 of a cpu request or plan is a
core; memory is normalised from 0 to 100, which is assumed to be 512 GiB. Each instance of a batch
task is a pod; it is created when the task began to run, and runs as long as the task did (what the
task waited for is not in the trace). Containers are created at their first record and run to the
end; at time 0 they already run on their machines. One of the tables of work may be missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from podsched.api.node_labels import ZONE
from podsched.lab.replay.recording import MAX_SECONDS
from podsched.lab.replay.traces.builder import GIB, BadTrace, TraceBuilder, files_of, rows
from podsched.lab.replay.workload import Workload

#: What 100 of memory stands for.
MEMORY: Final = 512.0 * GIB
#: Containers are services, and go before batch work.
CONTAINER_PRIORITY: Final = 1000
#: 100 of a request is 1,000 millicores.
_MILLICORES: Final = 10.0


def read(directory: Path, seconds: float = MAX_SECONDS) -> Workload:
    """Return the workload of the first seconds. Raises BadTrace or OSError."""
    builder = TraceBuilder()
    for row in rows(directory, "machine_meta"):
        at = row.time(1)
        if at <= seconds and not builder.has_node(row.text(0)):
            cpu, memory = 1000 * row.amount(4), row.amount(5) / 100 * MEMORY
            builder.node(at, row.text(0), cpu, memory, {ZONE: f"domain-{row.text(2)}"})
    readers = {"container_meta": _containers, "batch_task": _tasks}
    present = [table for table in readers if files_of(directory, table)]
    if not present:
        raise BadTrace(f"{directory}: neither container_meta nor batch_task")
    for table in present:
        readers[table](builder, directory, seconds)
    return builder.workload(with_history=False)


def _containers(builder: TraceBuilder, directory: Path, seconds: float) -> None:
    known: set[str] = set()
    for row in rows(directory, "container_meta"):
        name, at = row.text(0), row.time(2)
        if name in known or at > seconds:
            continue
        known.add(name)
        node = row.text(1) if at <= 0 and builder.has_node(row.text(1)) else ""
        builder.pod(
            at,
            name.replace("_", "-").lower(),
            row.amount(5) * _MILLICORES,
            row.amount(7) / 100 * MEMORY,
            priority=CONTAINER_PRIORITY,
            labels={"app": row.text(3)},
            node=node,
        )
        builder.seen(at)


def _tasks(builder: TraceBuilder, directory: Path, seconds: float) -> None:
    for row in rows(directory, "batch_task"):
        began = row.time(5)
        if began > seconds or began < 0:
            continue
        ended = row.time(6)
        for instance in range(max(0, int(row.number(1)))):
            name = f"{row.text(2)}-{row.text(0)}-{instance}".replace("_", "-").lower()
            cpu, memory = row.amount(7) * _MILLICORES, row.amount(8) / 100 * MEMORY
            history = builder.pod(began, name, cpu, memory, labels={"job": row.text(2)})
            if ended > began:
                builder.runs(history, ended - began)
        builder.seen(min(max(began, ended), seconds))
