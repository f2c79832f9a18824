"""Logs of batch systems in the Standard Workload Format (``.swf``, ``.swf.gz``).

Format: D. G. Feitelson, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html, version 2: a
line of 18 numbers for each job, -1 for what is not known; comments begin with ";", and those at the
head may say ``MaxProcs: N``. Jobs that never ran, or of which the size is not known, are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from podsched.lab.replay.traces.builder import LATEST, MAX_PODS, BadTrace, Row, lines_of

_MOST_LINE: Final = 1 << 16
_PROCESSORS: Final = re.compile(r";\s*MaxProcs:\s*(\d{1,9})\s*$")
#: Indexes of fields.
_SUBMITTED, _RAN, _ALLOCATED, _REQUESTED, _TIME = 1, 3, 4, 7, 8


class BatchJob(NamedTuple):
    """A job; times are seconds."""

    submitted: float
    """Since the first job."""
    runs: float
    limit: float
    """How long its user asked for; it is ended then."""
    processors: int


class BatchTrace(NamedTuple):
    """A log: the machine's processors, and the jobs as they were submitted."""

    processors: int
    jobs: list[BatchJob]


def read(path: Path, seconds: float) -> BatchTrace:
    """Return the jobs of the first seconds. Raises BadTrace or OSError."""
    jobs: list[BatchJob] = []
    processors, began = 0, math.inf
    for row in _rows(path):
        if isinstance(row, int):
            processors = row
        elif (job := _job(row)) is not None:
            began = min(began, job.submitted)
            # If earlier jobs follow, it is even later than the time that is wanted.
            if job.submitted > began + seconds:
                continue
            if len(jobs) >= MAX_PODS:
                raise BadTrace(f"more than {MAX_PODS:,} jobs: read less of the trace (--for)")
            jobs.append(job)
    if not jobs:
        raise BadTrace(f"{path}: no job that ran")
    jobs = [job._replace(submitted=job.submitted - began) for job in jobs]
    jobs = [job for job in jobs if job.submitted <= seconds]
    jobs.sort(key=lambda job: job.submitted)
    # A machine may have had fewer processors than some job is said to have used.
    return BatchTrace(max(processors, *(job.processors for job in jobs), 1), jobs)


def _job(row: Row) -> BatchJob | None:
    ran, limit = row.number(_RAN, most=LATEST), row.number(_TIME, most=LATEST)
    size = row.number(_REQUESTED, most=LATEST)
    if size <= 0:
        size = row.number(_ALLOCATED, most=LATEST)
    if ran <= 0 or size <= 0:
        return None
    limit = limit if limit > 0 else ran
    return BatchJob(row.time(_SUBMITTED), min(ran, limit), limit, round(size))


def _rows(path: Path) -> Iterator[Row | int]:
    """Yield the rows, and the number of processors where a comment says it."""
    for number, line in enumerate(lines_of(path, _MOST_LINE), 1):
        text = line.decode(errors="replace").strip()
        if text.startswith(";"):
            if found := _PROCESSORS.match(text):
                yield int(found[1])
        elif text:
            yield Row(text.split(), f"{path}: line {number}")
