"""What ``sched chaos`` shows while it runs, on standard error.

For a person who watches a bar with what is broken now; for a pipe a line for each change of that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podsched.chaos.run import Status
from podsched.cli.output import say


@contextmanager
def progress(seconds: float) -> Iterator[Callable[[Status], None]]:
    """Yield what is to be called with each status."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[stage]:>9}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=seconds, stage="starting", now="")

        def tell(status: Status) -> None:
            bars.update(task, completed=status.now, stage=status.stage, now=_text(status))

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
