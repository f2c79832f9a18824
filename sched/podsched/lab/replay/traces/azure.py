"""Azure's traces of virtual machines of 2017 and 2019: ``vmtable`` of AzurePublicDataset V1, V2.

Format: the pages AzurePublicDatasetV1.md and AzurePublicDatasetV2.md. Times are seconds. Cores and
memory (GB) are numbers, in V2 of a bucket; the largest buckets are open (">24", ">64"). Physical
machines are not in the trace: nodes of 64 cores and 512 GiB are made, so many that the peak of all
requests fills 80 % of them. The packing trace of 2020 is a database and is not read.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from podsched.lab.replay.recording import MAX_SECONDS
from podsched.lab.replay.traces.builder import GIB, Row, TraceBuilder, rows
from podsched.lab.replay.workload import Workload

#: Cores and memory of the open buckets.
_OPEN: Final = {">24": 32.0, ">64": 128.0}
NODE_CORES: Final = 64
NODE_MEMORY_GIB: Final = 512
#: Share of the nodes' cores or memory that is requested at the peak.
FILLED: Final = 0.8
#: Priority of virtual machines that are known to be interactive; of all others 0.
INTERACTIVE: Final = 1000


def read(directory: Path, seconds: float = MAX_SECONDS) -> Workload:
    """Return the workload of the first seconds. Raises BadTrace or OSError."""
    builder = TraceBuilder()
    changes: list[tuple[float, float, float]] = []
    for number, row in enumerate(rows(directory, "vmtable")):
        if number == 0 and not row.text(3).replace(".", "").isdigit():
            continue  # some copies of the table have a header
        created, deleted = row.time(3), row.time(4)
        if created > seconds:
            continue
        cores, memory = _amount(row, 9), _amount(row, 10)
        history = builder.pod(
            created,
            f"vm-{number:07}",
            1000 * cores,
            memory * GIB,
            priority=INTERACTIVE if row.text(8) == "Interactive" else 0,
            labels={"category": row.text(8) or "Unknown"},
        )
        builder.runs(history, max(deleted - created, 0.0))
        builder.seen(min(deleted, seconds))
        changes += [(created, cores, memory), (deleted, -cores, -memory)]
    for number in range(_nodes(changes)):
        builder.node(0.0, f"host-{number:05}", 1000 * NODE_CORES, NODE_MEMORY_GIB * GIB)
    return builder.workload(with_history=False)


def _amount(row: Row, place: int) -> float:
    found = _OPEN.get(row.text(place))
    return row.amount(place) if found is None else found


def _nodes(changes: list[tuple[float, float, float]]) -> int:
    """Return the number of nodes of which the peak of all requests fills the share ``FILLED``."""
    cores = memory = 0.0
    most = 0.0
    # What ends comes before what begins at the same time.
    for _, more_cores, more_memory in sorted(changes):
        cores, memory = cores + more_cores, memory + more_memory
        most = max(most, cores / NODE_CORES, memory / NODE_MEMORY_GIB)
    return max(1, math.ceil(most / FILLED))
