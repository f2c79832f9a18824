"""``sched replay``: run a recording in virtual time, possibly with another configuration."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from podsched.cli.batch import replay_batch
from podsched.cli.config import read_config
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, warn
from podsched.cli.flags import takes_flags
from podsched.cli.options import seconds_or_fail
from podsched.cli.output import os_error_text, say, show_answer
from podsched.cli.printers import aligned
from podsched.cli.progress import share_bar
from podsched.cli.quota_changes import change_quota, change_weight, queue_named
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.decide.runtime.user_plugins import user_plugin_specs
from podsched.lab.replay.calibration import calibrate, calibration_line
from podsched.lab.replay.comparison import (
    QUANTILES,
    Comparison,
    PodComparison,
    Run,
    chart,
    compare,
    run_of,
)
from podsched.lab.replay.history import History, large_pod
from podsched.lab.replay.recording import MAX_SECONDS, BadRecording, Recording, read_recording
from podsched.lab.replay.repetition import NotRepeatable, Verdict, repeat
from podsched.lab.replay.simulation import cluster_after
from podsched.lab.replay.traces import alibaba2018, azure, google2011
from podsched.lab.replay.traces.builder import BadTrace
from podsched.lab.replay.workload import Workload, resized, workload_of
from podsched.lib.counted import counted
from podsched.registry import factories
from podsched.serve.client.informer import EventType
from podsched.telemetry.log_output import configure_logging

_RECORDED, _REPLAYED = "recorded", "replayed"


#: Formats of public traces.
Trace = Literal["google2011", "azure", "alibaba2018", "swf"]
_READERS: Mapping[Trace, Callable[[Path, float], Workload]] = {
    "google2011": google2011.read,
    "azure": azure.read,
    "alibaba2018": alibaba2018.read,
}


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="File of sched record; with --trace, a directory or a .swf file."
    ),
]


@dataclass(frozen=True, slots=True)
class _Flags:
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration to compare with that of the recording."""
    nodes: str = flag("", "+N|-N")
    """Add N nodes like the existing ones, or remove N."""
    quota: list[str] | None = flag(None, "QUEUE/RESOURCE=+N")
    """Change the quota of a ClusterQueue or Cohort by +N or -N, or to =N; repeatable."""
    weight: list[str] | None = flag(None, "QUEUE=N")
    """Give a ClusterQueue or Cohort another weight in fair sharing; repeatable."""
    trace: Trace | None = flag(None)
    """Read a public trace of this format: CSV tables, or a .swf file."""
    duration: str = flag("", "TIME", names="--for")
    """Read only the beginning of a trace, such as 6h."""
    plot: Path | None = flag(None, "FILE")
    """Write a chart of the runs over time (SVG)."""
    verify: bool = flag(False)
    """Repeat each recorded decision, and compare it bit by bit."""
    as_json: bool = flag(False, names="--json")
    """Print everything as JSON, with every pod that differs."""
    eta: bool = flag(False)
    """Show how accurate estimates of waiting times are in the last run."""


@takes_flags
def replay(file: File, given: _Flags) -> None:
    """Run a recording again in virtual time, and show what differs.

    The real scheduler schedules the recorded pods at the times of their arrival; they run as long
    as they did. With --config, --nodes, --quota or --weight there is a second run, which is
    compared with the first, that is as it was recorded. A recording of hours takes seconds. With
    --trace, the pods are those of a public trace of Google's, Azure's or Alibaba's clusters, or
    the jobs of a log in the Standard Workload Format, which run with FIFO, EASY and conservative
    backfill (docs/replay.md).
    """
    configure_logging("text", "error")
    difference = _nodes(given.nodes)
    if given.verify:
        if difference or _of_queues(given) or given.trace is not None or given.plot is not None:
            others = "--nodes, --quota, --weight, --trace and --plot"
            fail(f"--verify cannot be combined with {others}", USAGE)
        verify_decisions(
            file,
            _read(file),
            None if given.config is None else read_config(given.config),
            given.as_json,
        )
        return
    if given.trace == "swf":
        _replay_batch(file, given)
        return
    source = _recorded(file) if given.trace is None else _traced(given.trace, file, given.duration)
    if given.trace is None and given.duration:
        fail("--for is for traces: add --trace", USAGE)
    workload, own = source
    tried = own if given.config is None else read_config(given.config)
    changed = _with_other_queues(_resized(workload, difference), given)
    began = time.monotonic()
    histories = [(_REPLAYED, _simulate(workload, own, _REPLAYED))]
    if name := _name(given, difference):
        histories.append((name, _simulate(changed, tried, name)))
    took, simulated = time.monotonic() - began, workload.seconds * len(histories)
    if workload.recorded is not None:
        histories.insert(0, (_RECORDED, workload.recorded))
    runs = _measured(histories)
    found = compare(runs[-2].history, runs[-1].history) if len(runs) > 1 else None
    if given.plot is not None:
        given.plot.write_text(chart(file.name, runs), encoding="utf-8")
    if given.as_json:
        print(json.dumps(document(runs, found), indent=2))
        return
    say(f"{file.name}: {span(simulated)} replayed in {took:.1f} s\n")
    say(*summaries(runs), *notes(runs), *differences(runs, found))
    if given.eta:
        say("\n" + calibration_line(calibrate(runs[-1].history)))


def _measured(histories: Sequence[tuple[str, History]]) -> list[Run]:
    large = large_pod(histories[0][1].decided())
    return [run_of(name, history, large) for name, history in histories]


def _read(file: Path) -> Recording:
    with fail_on(OSError, about=file, code=USAGE), fail_on(BadRecording, code=USAGE):
        recording = read_recording(file)
    if not recording.ended:
        warn(f"{file}: the end is missing; its first {recording.seconds:,.0f} s are read")
    return recording


def _recorded(file: Path) -> tuple[Workload, SchedulerConfiguration]:
    """Return the workload of a recording and the configuration in it; exit if it is broken."""
    recording = _read(file)
    config = own_config(recording)
    if len({json.dumps(each.get("configuration")) for each in recording.checkpoints}) > 1:
        warn(f"{file}: the configuration changed meanwhile; the last one decides from the start")
    known = recording.known_to(recording.checkpoints[-1] if recording.checkpoints else {})
    workload = workload_of(known, {profile.scheduler_name for profile in config.profiles})
    return workload, config


def _replay_batch(file: Path, given: _Flags) -> None:
    if given.config is not None or given.nodes or _of_queues(given):
        others = "--config, --nodes, --quota and --weight"
        fail(f"--trace swf cannot be combined with {others}", USAGE)
    # Only starts and ends of jobs cost time, so by default even a log of years is read completely.
    seconds = seconds_or_fail("--for", given.duration) if given.duration else math.inf
    replay_batch(file, seconds, given.plot, as_json=given.as_json, eta=given.eta)


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
    except OSError as error:
        fail(f"{error.filename or directory}: {os_error_text(error)}", USAGE)


def _nodes(text: str) -> int:
    if not text:
        return 0
    if not re.fullmatch("[+-][0-9]{1,6}", text):
        fail(f'--nodes: "{text}" is neither +N nor -N', USAGE)
    return int(text)


def _resized(workload: Workload, difference: int) -> Workload:
    with fail_on(ValueError, about="--nodes", code=USAGE):
        return resized(workload, difference) if difference else workload


def _of_queues(given: _Flags) -> list[str]:
    """Return the changes of quotas and weights."""
    return [*(given.quota or ()), *(given.weight or ())]


def _with_other_queues(workload: Workload, given: _Flags) -> Workload:
    """Return the workload with other quotas and weights, also where queues are updated later."""
    changes = [(text, change_quota) for text in given.quota or ()]
    changes += [(text, change_weight) for text in given.weight or ()]
    if not changes:
        return workload
    objects = list(workload.objects)
    for text, change in changes:
        change(objects, text)
    later = []
    for known in workload.changes:
        item = [known.item]
        if known.kind in ("ClusterQueue", "Cohort") and known.type is not EventType.DELETED:
            for text, change in changes:
                if queue_named(text) == known.item.metadata.name:
                    change(item, text)
        later.append(known._replace(item=item[0]))
    return replace(workload, objects=objects, changes=later)


def _name(given: _Flags, difference: int) -> str:
    """Return the name of the second run, "" if there is none."""
    parts = [given.config.name] if given.config is not None else []
    if difference:
        parts.append(f"{difference:+} node{'' if abs(difference) == 1 else 's'}")
    return ", ".join([*parts, *_of_queues(given)])


def _simulate(workload: Workload, config: SchedulerConfiguration, name: str) -> History:
    if config.extenders:
        warn(f"{name}: a replay does not call extenders")
    with share_bar(name) as passed:
        cluster = cluster_after(
            workload, config, factories(), lambda at: passed(at / workload.seconds)
        )
    return cluster.history()


#: Max differing pods, or decisions, that are shown; --json has all.
MOST_SHOWN = 10


def document(runs: Sequence[Run], found: Comparison | None) -> dict[str, Any]:
    """Return all results as plain data, with every pod whose result differs."""
    results: dict[str, Any] = {"runs": [run.to_json() for run in runs]}
    if found is not None:
        names = {"before": runs[-2].name, "after": runs[-1].name}
        results["differences"] = {**names, **found.to_json()}
    return results


def summaries(runs: Sequence[Run]) -> list[str]:
    """Return the lines of a table of the runs' summaries."""
    found = [run.summary for run in runs]
    rows = [
        ["", *(run.name.upper() for run in runs)],
        ["pods", *(f"{one.pods:,}" for one in found)],
        ["bound", *(f"{one.bound:,}" for one in found)],
        ["never bound", *(f"{one.never_bound:,}" for one in found)],
        ["unschedulable at first", *(f"{one.unschedulable:,}" for one in found)],
        ["preempted", *(f"{one.preempted:,}" for one in found)],
    ]
    for place, share in enumerate(QUANTILES):
        label = "longest wait" if share == 1 else f"wait, {share:.0%}"
        rows.append([label, *(span(one.waits[place]) for one in found)])
    return aligned(
        [
            *rows,
            ["cpu requested, mean", *(f"{one.utilisation['cpu']:.1%}" for one in found)],
            ["memory requested, mean", *(f"{one.utilisation['memory']:.1%}" for one in found)],
            ["fragmentation, mean", *(f"{one.fragmentation:.1%}" for one in found)],
        ]
    )


def notes(runs: Sequence[Run]) -> list[str]:
    """Return notes about the figures."""
    before = sum(pod.waited_before for pod in runs[0].history.decided())
    if not before:
        return []
    verb = "its wait counts" if before == 1 else "their waits count"
    pods = counted(before, "pod")
    return ["", f"{pods} waited already when the recording began: {verb} from then on."]


def differences(runs: Sequence[Run], found: Comparison | None) -> list[str]:
    """Return lines about the differences of the last two runs, with a few pods."""
    if found is None:
        return []
    before, after = runs[-2], runs[-1]
    lines = ["", f'Of {found.pods:,} pods, with "{after.name}" against "{before.name}":']
    counts = [
        (found.elsewhere, "are placed elsewhere"),
        (found.longer, "wait longer (by 1 s or more)"),
        (found.shorter, "wait shorter"),
        (found.only_after, "are bound that were not"),
        (found.only_before, "are not bound that were"),
        (found.preempted, "are preempted that were not"),
        (found.spared, "are not preempted that were"),
    ]
    lines += [f"  {len(fates):>7,} {what}" for fates, what in counts]
    shown = _shown(found)
    if shown:
        head = ["POD", "WAS ON", "IS ON", "WAITED", "WAITS"]
        lines += ["", *aligned([head, *(_row(fate) for fate in shown)])]
    return lines


def _shown(found: Comparison) -> list[PodComparison]:
    """Return a few pods with the largest differences."""
    shown: dict[str, PodComparison] = {}
    for fates in (found.only_before, found.longer, found.only_after, found.shorter):
        for fate in fates[: MOST_SHOWN // 3 + 1]:
            shown.setdefault(fate.before.uid, fate)
    for fate in found.elsewhere:
        shown.setdefault(fate.before.uid, fate)
    return list(shown.values())[:MOST_SHOWN]


def _row(fate: PodComparison) -> list[str]:
    waits = [span(pod.waited) for pod in (fate.before, fate.after)]
    return [fate.before.key, fate.before.node or "-", fate.after.node or "-", *waits]


def span(seconds: float | None) -> str:
    """Return a duration in a readable form."""
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def own_config(
    recording: Recording, checkpoint: Mapping[str, Any] | None = None
) -> SchedulerConfiguration:
    """Return the configuration of a checkpoint, or of the last one; exit if it is broken.

    It is the leader's if the checkpoint has it, else that given to ``sched record``, else the
    default.
    """
    document = recording.header.get("configuration")
    for found in recording.checkpoints if checkpoint is None else [checkpoint]:
        document = found.get("configuration", document)
    with fail_on(ConfigError, about="the configuration in the recording cannot be used"):
        return load_config(document or {}, known_plugins=user_plugin_specs(factories()))


def verify_decisions(
    file: Path, recording: Recording, config: SchedulerConfiguration | None, as_json: bool
) -> None:
    """Repeat all recorded decisions; exit with 1 if one differs, or none could be repeated."""
    began = time.monotonic()
    with fail_on(NotRepeatable, about=f"{file}: the decisions cannot be repeated"):
        verdict = repeat(
            recording, lambda found: config or own_config(recording, found), factories()
        )
    took = time.monotonic() - began
    show_answer(_document(verdict), _lines(file, verdict, took), as_json=as_json)
    if verdict.mismatches or not verdict.repeated:
        raise typer.Exit(FAILED)


def _lines(file: Path, verdict: Verdict, took: float) -> list[str]:
    differ = len(verdict.mismatches)
    outcome = f"{differ:,} differ" if differ else "all are the same"
    if not verdict.repeated:
        outcome = "nothing could be compared"
    lines = [
        f"{file.name}: {counted(verdict.repeated, 'decision')} on {counted(verdict.pods, 'pod')} "
        f"repeated in {took:.1f} s:",
        f"  {outcome}",
        f"  {verdict.placed:,} chose a node, {verdict.preempting:,} preempted; of "
        f"{verdict.scored:,} the scores of single nodes were compared",
    ]
    lines += [f"  {count:,} left out: {why}" for why, count in verdict.left_out.items()]
    lines += [f"  {mismatch}" for mismatch in verdict.mismatches[:MOST_SHOWN]]
    if differ > MOST_SHOWN:
        lines.append(f"  and {differ - MOST_SHOWN:,} more")
    return lines


def _document(verdict: Verdict) -> dict[str, Any]:
    return {
        "repeated": verdict.repeated,
        "pods": verdict.pods,
        "placed": verdict.placed,
        "preempting": verdict.preempting,
        "scored": verdict.scored,
        "leftOut": verdict.left_out,
        "mismatches": [
            {
                "number": found.number,
                "pod": found.pod,
                "fields": {n: {"recorded": w, "repeated": i} for n, (w, i) in found.fields.items()},
            }
            for found in verdict.mismatches
        ],
    }
