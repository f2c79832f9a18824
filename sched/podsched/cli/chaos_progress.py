"""What ``sched chaos`` shows while it runs, on standard error.

For a person who watches a bar with what is broken now; for a pipe a line for each change of that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podsched.cli.output import say
from podsched.lab.chaos.run import Status


@contextmanager
def progress(seconds: float) -> Iterator[Callable[[Status], None]]:
    """Yield what is to be called with each status."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    # What is broken gets what is left of the line, and is cut where it is longer.
    columns = (
        TextColumn("{task.fields[stage]:>9}", table_column=Column(no_wrap=True, min_width=9)),
        BarColumn(bar_width=10, table_column=Column(min_width=10)),
        TextColumn("{task.fields[now]:>4.0f} s", table_column=Column(no_wrap=True, min_width=6)),
        TextColumn(
            "{task.fields[text]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bars:
        task = bars.add_task("", total=seconds, stage="starting", now=0.0, text="")

        def tell(status: Status) -> None:
            bars.update(
                task,
                completed=status.broken_for,
                stage=status.stage,
                now=status.now,
                text=_text(status),
            )

        yield tell


class _Lines:
    """Prints a line when something else is broken than before."""

    def __init__(self) -> None:
        self._last: tuple[str, tuple[str, ...]] | None = None

    def __call__(self, status: Status) -> None:
        if (status.stage, status.broken) != self._last:
            self._last = (status.stage, status.broken)
            say(f"{status.now:7.1f} s  {status.stage}  {_text(status)}", error=True)


def _text(status: Status) -> str:
    leader = status.leader or "no leader"
    broken = "; ".join(status.broken) or "nothing is broken"
    return f"{leader}, {status.bound} bound, {status.waiting} waiting | {broken}"
