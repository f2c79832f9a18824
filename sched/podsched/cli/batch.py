"""``sched replay --trace swf``: run a log of batch jobs in FIFO order and with backfill."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from podsched.cli.errors import USAGE, fail_on
from podsched.cli.output import show_answer
from podsched.cli.printers import aligned
from podsched.cli.progress import share_bar
from podsched.lab.replay.batch import BatchRun, Order, batch_chart, history_of, run_batch, summary
from podsched.lab.replay.calibration import Calibration, calibrate
from podsched.lab.replay.traces import swf
from podsched.lab.replay.traces.builder import BadTrace
from podsched.lab.replay.traces.swf import BatchTrace


def replay_batch(
    file: Path, seconds: float, plot: Path | None, *, as_json: bool, eta: bool
) -> None:
    """Run a log in each order, and show the runs side by side; exit if the log is broken.

    ``eta``: also show how well estimates of waiting times hold.
    """
    with fail_on(OSError, about=file, code=USAGE), fail_on(BadTrace, code=USAGE):
        trace = swf.read(file, seconds)
    began = time.monotonic()
    runs = [_run(trace, order) for order in Order]
    took = time.monotonic() - began
    if plot is not None:
        plot.write_text(batch_chart(file.name, trace, runs), encoding="utf-8")
    estimates = [calibrate(history_of(trace, run)) for run in runs] if eta else []
    documents: list[dict[str, object]] = [
        {
            "order": run.order,
            **summary(trace, run)._asdict(),
            "promised": run.promised,
            "broken": run.broken,
        }
        for run in runs
    ]
    for document, found in zip(documents, estimates, strict=False):
        document["eta"] = asdict(found)
    size = f"{len(trace.jobs):,} jobs, {trace.processors:,} processors"
    table = aligned(_table(trace, runs, estimates))
    show_answer(documents, [f"{file.name}: {size}, in {took:.1f} s", "", *table], as_json=as_json)


def _run(trace: BatchTrace, order: Order) -> BatchRun:
    with share_bar(order) as passed:
        return run_batch(trace, order, passed)


def _table(
    trace: BatchTrace, runs: list[BatchRun], estimates: list[Calibration]
) -> list[list[str]]:
    found = [summary(trace, run) for run in runs]
    rows = [
        ["", *(run.order.upper() for run in runs)],
        ["processors in use", *(f"{one.utilisation:.1%}" for one in found)],
        ["wait, mean", *(f"{one.wait_mean:,.0f} s" for one in found)],
        ["wait, 50%", *(f"{one.wait_median:,.0f} s" for one in found)],
        ["wait, 95%", *(f"{one.wait_p95:,.0f} s" for one in found)],
        ["bounded slowdown, mean", *(f"{one.slowdown:,.1f}" for one in found)],
        ["promised a start", *(f"{run.promised:,}" for run in runs)],
        ["broken promises", *(f"{run.broken:,}" for run in runs)],
    ]
    if estimates:
        held = (f"{one.within / max(1, one.estimates):.0%} of {one.estimates}" for one in estimates)
        rows.append(["estimates that held", *held])
        rows.append(["intervals without an end", *(str(one.open) for one in estimates)])
    return rows
