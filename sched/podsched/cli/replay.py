"""``sched replay``: a recording run again in virtual time, with another configuration maybe."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Annotated

import typer

from podsched.bench.plot import write_chart
from podsched.cli.config import read_config
from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.output import say
from podsched.cli.progress import progress_bar
from podsched.cli.replay_report import differences, document, span, summaries
from podsched.config.errors import ConfigError
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.engine.runtime.user_plugins import user_plugin_specs
from podsched.plugins.registry import factories
from podsched.replay.charts import chart
from podsched.replay.comparison import compare, run_of
from podsched.replay.history import History, large_pod
from podsched.replay.recording import BadRecording, Recording, read_recording
from podsched.replay.simulation import simulate_workload
from podsched.replay.workload import Workload, resized, workload_of
from podsched.telemetry.log_output import configure_logging

_RECORDED, _REPLAYED = "recorded", "replayed"
_STEPS = 1000


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What sched record has written.")],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="KubeSchedulerConfiguration to try; - reads it."
        ),
    ] = None,
    nodes: Annotated[
        str,
        typer.Option(
            "--nodes", metavar="+N|-N", help="So many nodes more, like those there are, or fewer."
        ),
    ] = "",
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Write a chart of the runs over time (SVG)."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, every pod that differs.")
    ] = False,
) -> None:
    """Run a recording again in virtual time, and show what differs.

    The real scheduler decides on the recorded pods as they arrive; they run as
    long as they ran. Without options it is the configuration of the recording
    that decides; with --config or --nodes both runs are made and compared. A
    recording of hours takes seconds.
    """
    configure_logging("text", "error")
    recording = _read(file)
    difference = _nodes(nodes)
    own = _own_config(recording)
    tried = own if config is None else read_config(config)
    workload = workload_of(recording, {profile.scheduler_name for profile in own.profiles})
    if not recording.ended:
        warn(f"{file}: the end is missing; {workload.seconds:,.0f} s of it are replayed")
    began = time.monotonic()
    histories = [(_REPLAYED, _simulate(workload, own, _REPLAYED))]
    if config is not None or difference:
        name = _name(config, difference)
        histories.append((name, _simulate(_resized(workload, difference), tried, name)))
    took, simulated = time.monotonic() - began, workload.seconds * len(histories)
    if workload.recorded is not None:
        histories.insert(0, (_RECORDED, workload.recorded))
    large = large_pod(histories[0][1].decided())
    runs = [run_of(name, history, large) for name, history in histories]
    before, after = runs[-2], runs[-1]
    found = compare(before.history, after.history)
    if plot is not None:
        write_chart(plot, chart(file.name, runs))
    if as_json:
        print(json.dumps(document(runs, found, large), indent=2))
        return
    say(f"{file.name}: {span(simulated)} replayed in {took:.1f} s\n")
    say("\n".join([*summaries(runs), "", *differences(before, after, found)]))


def _read(file: Path) -> Recording:
    try:
        return read_recording(file)
    except BadRecording as error:
        fail(str(error), USAGE)


def _nodes(text: str) -> int:
    if not text:
        return 0
    if not re.fullmatch("[+-][0-9]{1,6}", text):
        fail(f'--nodes: "{text}" is neither +N nor -N', USAGE)
    return int(text)


def _own_config(recording: Recording) -> SchedulerConfiguration:
    document = recording.header.get("configuration")
    if document is None:
        return default_config()
    try:
        return load_config(document, known_plugins=user_plugin_specs())
    except ConfigError as error:
        fail(f"the configuration in the recording cannot be used: {error}")


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
