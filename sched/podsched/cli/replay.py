"""``sched replay``: a recording run again in virtual time, with another configuration maybe."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from podsched.cli.config import read_config
from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.flags import takes_flags
from podsched.cli.output import say
from podsched.cli.progress import progress_bar
from podsched.cli.replay_report import differences, document, notes, span, summaries
from podsched.cli.replay_verification import own_config, verify_decisions
from podsched.cli.timeouts import seconds_or_fail
from podsched.config.flags import flag
from podsched.config.load import SchedulerConfiguration, default_config
from podsched.lab.bench.plot import write_chart
from podsched.lab.replay.calibration import calibrate, calibration_line
from podsched.lab.replay.charts import chart
from podsched.lab.replay.comparison import Run, compare, run_of
from podsched.lab.replay.history import History, large_pod
from podsched.lab.replay.recording import MAX_SECONDS, BadRecording, Recording, read_recording
from podsched.lab.replay.simulation import simulate_workload
from podsched.lab.replay.traces import alibaba2018, azure, google2011
from podsched.lab.replay.traces.tables import BadTrace
from podsched.lab.replay.workload import Workload, resized, workload_of
from podsched.registry import factories
from podsched.telemetry.log_output import configure_logging

_RECORDED, _REPLAYED = "recorded", "replayed"
_STEPS = 1000


class Trace(StrEnum):
    """Formats of public traces."""

    GOOGLE_2011 = "google2011"
    AZURE = "azure"
    ALIBABA_2018 = "alibaba2018"


_READERS: Mapping[Trace, Callable[[Path, float], Workload]] = {
    Trace.GOOGLE_2011: google2011.read,
    Trace.AZURE: azure.read,
    Trace.ALIBABA_2018: alibaba2018.read,
}


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="What sched record has written; with --trace, a directory."
    ),
]


@dataclass(frozen=True, slots=True)
class _Flags:
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration to try."""
    nodes: str = flag("", "+N|-N")
    """So many nodes more, like those there are, or fewer."""
    trace: Trace | None = flag(None)
    """Read a public trace of this format, its CSV tables."""
    duration: str = flag("", "TIME", names="--for")
    """Read the first so much of a trace, as in 6h."""
    plot: Path | None = flag(None, "FILE")
    """Write a chart of the runs over time (SVG)."""
    verify: bool = flag(False)
    """Make each recorded decision again, and compare it bit by bit."""
    as_json: bool = flag(False, names="--json")
    """Print everything as JSON, every pod that differs."""
    eta: bool = flag(False)
    """Tell how well estimates of waiting times hold in the last run."""


@takes_flags
def replay(
    file: File,
    given: _Flags,
) -> None:
    """Run a recording again in virtual time, and show what differs.

    The real scheduler decides on the recorded pods as they arrive; they run as
    long as they ran. Without options it is the configuration of the recording
    that decides; with --config or --nodes both runs are made and compared. A
    recording of hours takes seconds. With --trace the pods are those of a public
    trace of Google's, Azure's or Alibaba's clusters (docs/replay.md).
    """
    configure_logging("text", "error")
    difference = _nodes(given.nodes)
    if given.verify:
        if difference or given.trace is not None or given.plot is not None:
            fail("--verify is for a recording as it is: leave out the other options", USAGE)
        verify_decisions(
            file,
            _read(file),
            None if given.config is None else read_config(given.config),
            given.as_json,
        )
        return
    source = _recorded(file) if given.trace is None else _traced(given.trace, file, given.duration)
    if given.trace is None and given.duration:
        fail("--for is for traces: add --trace", USAGE)
    workload, own = source
    tried = own if given.config is None else read_config(given.config)
    changed = _resized(workload, difference)
    began = time.monotonic()
    histories = [(_REPLAYED, _simulate(workload, own, _REPLAYED))]
    if given.config is not None or difference:
        name = _name(given.config, difference)
        histories.append((name, _simulate(changed, tried, name)))
    took, simulated = time.monotonic() - began, workload.seconds * len(histories)
    if workload.recorded is not None:
        histories.insert(0, (_RECORDED, workload.recorded))
    runs = _measured(histories)
    found = compare(runs[-2].history, runs[-1].history) if len(runs) > 1 else None
    if given.plot is not None:
        write_chart(given.plot, chart(file.name, runs))
    if given.as_json:
        print(json.dumps(document(runs, found), indent=2))
        return
    say(f"{file.name}: {span(simulated)} replayed in {took:.1f} s\n")
    say("\n".join([*summaries(runs), *notes(runs), *differences(runs, found)]))
    if given.eta:
        say("\n" + calibration_line(calibrate(runs[-1].history)))


def _measured(histories: Sequence[tuple[str, History]]) -> list[Run]:
    large = large_pod(histories[0][1].decided())
    return [run_of(name, history, large) for name, history in histories]


def _read(file: Path) -> Recording:
    try:
        return read_recording(file)
    except BadRecording as error:
        fail(str(error), USAGE)


def _recorded(file: Path) -> tuple[Workload, SchedulerConfiguration]:
    """Return the workload of a recording and the configuration in it; exit if it is broken."""
    recording = _read(file)
    config = own_config(recording)
    if len({json.dumps(n.document.get("configuration")) for n in recording.checkpoints}) > 1:
        warn(f"{file}: the configuration changed meanwhile; the last one decides from the start")
    workload = workload_of(recording, {profile.scheduler_name for profile in config.profiles})
    if not recording.ended:
        warn(f"{file}: the end is missing; {workload.seconds:,.0f} s of it are replayed")
    return workload, config


def _traced(
    trace: Trace, directory: Path, duration: str
) -> tuple[Workload, SchedulerConfiguration]:
    """Return the workload of a trace and the default configuration; exit if it is broken."""
    seconds = seconds_or_fail("--for", duration) if duration else MAX_SECONDS
    if seconds > MAX_SECONDS:
        fail(f"--for: {duration}: at most {MAX_SECONDS / 86400:.0f} days are replayed", USAGE)
    try:
        return _READERS[trace](directory, seconds), default_config()
    except BadTrace as error:
        fail(str(error), USAGE)


def _nodes(text: str) -> int:
    if not text:
        return 0
    if not re.fullmatch("[+-][0-9]{1,6}", text):
        fail(f'--nodes: "{text}" is neither +N nor -N', USAGE)
    return int(text)


def _resized(workload: Workload, difference: int) -> Workload:
    try:
        return resized(workload, difference) if difference else workload
    except ValueError as error:
        fail(f"--nodes: {error}", USAGE)


def _name(config: Path | None, difference: int) -> str:
    parts = [config.name] if config is not None else []
    if difference:
        parts.append(f"{difference:+} node{'' if abs(difference) == 1 else 's'}")
    return ", ".join(parts)


def _simulate(workload: Workload, config: SchedulerConfiguration, name: str) -> History:
    if config.extenders:
        warn(f"{name}: extenders are not asked in a replay")
    done = 0
    with progress_bar(name, _STEPS) as bar:

        def passed(at: float) -> None:
            nonlocal done
            while done < int(_STEPS * at / workload.seconds):
                bar.advance()
                done += 1

        return simulate_workload(workload, config, factories(), passed)


__all__ = ["replay"]
