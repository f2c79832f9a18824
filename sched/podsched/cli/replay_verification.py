"""``sched replay --verify``: whether recorded decisions come out the same again."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from podsched.cli.errors import FAILED, fail
from podsched.cli.output import say
from podsched.config.errors import ConfigError
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.decide.runtime.user_plugins import user_plugin_specs
from podsched.lab.replay.recording import Recording
from podsched.lab.replay.repetition import NotRepeatable, Verdict, repeat
from podsched.registry import factories

#: Decisions that are shown of those that differ; --json has all.
MOST_SHOWN = 10


def own_config(
    recording: Recording, checkpoint: Mapping[str, Any] | None = None
) -> SchedulerConfiguration:
    """Return the configuration of a checkpoint, or of the last one; exit if it is broken.

    The leader's own goes before the one that ``sched record`` was given, and that before the
    default one.
    """
    document = recording.header.get("configuration")
    held = [note.document for note in recording.checkpoints] if checkpoint is None else [checkpoint]
    for found in held:
        document = found.get("configuration", document)
    if document is None:
        return default_config()
    try:
        return load_config(document, known_plugins=user_plugin_specs(factories()))
    except ConfigError as error:
        fail(f"the configuration in the recording cannot be used: {error}")


def verify_decisions(
    file: Path, recording: Recording, config: SchedulerConfiguration | None, as_json: bool
) -> None:
    """Make all recorded decisions again; exit with 1 if one differs, or none could be made."""
    began = time.monotonic()
    try:
        verdict = repeat(
            recording, lambda found: config or own_config(recording, found), factories()
        )
    except NotRepeatable as error:
        fail(f"{file}: the decisions cannot be made again: {error}")
    took = time.monotonic() - began
    if as_json:
        print(json.dumps(_document(verdict), indent=2))
    else:
        say("\n".join(_lines(file, verdict, took)))
    if verdict.mismatches or not verdict.repeated:
        raise typer.Exit(FAILED)


def _lines(file: Path, verdict: Verdict, took: float) -> list[str]:
    differ = len(verdict.mismatches)
    outcome = f"{differ:,} came out differently" if differ else "all came out the same"
    if not verdict.repeated:
        outcome = "nothing could be compared"
    lines = [
        f"{file.name}: {verdict.repeated:,} decisions on {verdict.pods:,} pods made again in "
        f"{took:.1f} s:",
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
