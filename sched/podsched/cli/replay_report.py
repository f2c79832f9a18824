"""What ``sched replay`` prints of its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from podsched.cli.printers import aligned
from podsched.lab.replay.comparison import QUANTILES, Comparison, Fate, Run

#: Pods that a table shows of those that fare differently; --json has all.
MOST_SHOWN = 10


def document(runs: Sequence[Run], found: Comparison | None) -> dict[str, Any]:
    """Return everything as plain data, with every pod that fares differently."""
    told: dict[str, Any] = {"runs": [run.to_json() for run in runs]}
    if found is not None:
        names = {"before": runs[-2].name, "after": runs[-1].name}
        told["differences"] = {**names, **found.to_json()}
    return told


def summaries(runs: Sequence[Run]) -> list[str]:
    """Return the lines of a table of what runs came to."""
    rows: list[tuple[str, Callable[[Run], str]]] = [
        ("pods", lambda run: f"{run.summary.pods:,}"),
        ("bound", lambda run: f"{run.summary.bound:,}"),
        ("never bound", lambda run: f"{run.summary.never_bound:,}"),
        ("fitted nowhere at first", lambda run: f"{run.summary.unschedulable:,}"),
        ("preempted", lambda run: f"{run.summary.preempted:,}"),
    ]
    for place, share in enumerate(QUANTILES):
        label = "longest wait" if share == 1 else f"wait, {share:.0%}"
        rows.append((label, partial(_wait, place)))
    rows += [
        ("cpu requested, mean", lambda run: f"{run.summary.utilisation['cpu']:.1%}"),
        ("memory requested, mean", lambda run: f"{run.summary.utilisation['memory']:.1%}"),
        ("fragmentation, mean", lambda run: f"{run.summary.fragmentation:.1%}"),
    ]
    table = [["", *(run.name.upper() for run in runs)]]
    table += [[label, *(value(run) for run in runs)] for label, value in rows]
    return aligned(table)


def notes(runs: Sequence[Run]) -> list[str]:
    """Return what is to be known of the figures."""
    before = sum(pod.waited_before for pod in runs[0].history.decided())
    if not before:
        return []
    pods = "1 pod" if before == 1 else f"{before:,} pods"
    verb = "its wait counts" if before == 1 else "their waits count"
    return ["", f"{pods} waited already when the recording began: {verb} from then."]


def _wait(place: int, run: Run) -> str:
    return span(run.summary.waits[place])


def differences(runs: Sequence[Run], found: Comparison | None) -> list[str]:
    """Return the lines that tell what differs between the last two, and of a few pods how."""
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


def _shown(found: Comparison) -> list[Fate]:
    """Return a few pods for which most differs."""
    shown: dict[str, Fate] = {}
    for fates in (found.only_before, found.longer, found.only_after, found.shorter):
        for fate in fates[: MOST_SHOWN // 3 + 1]:
            shown.setdefault(fate.before.uid, fate)
    for fate in found.elsewhere:
        shown.setdefault(fate.before.uid, fate)
    return list(shown.values())[:MOST_SHOWN]


def _row(fate: Fate) -> list[str]:
    waits = [span(pod.waited) for pod in (fate.before, fate.after)]
    return [fate.before.key, fate.before.node or "-", fate.after.node or "-", *waits]


def span(seconds: float | None) -> str:
    """Return a duration as people write it."""
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"
