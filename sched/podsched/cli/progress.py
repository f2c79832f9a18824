"""A progress bar on standard error, for long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

#: With fewer steps, the work ends before a bar could be read.
_FEWEST = 100


class Progress(NamedTuple):
    """Counts steps."""

    advance: Callable[[], object]
    advance_by: Callable[[int], object]


@contextmanager
def progress_bar(what: str, total: int, fewest: int = _FEWEST) -> Iterator[Progress]:
    """Show a bar while the block counts ``total`` steps; no bar for a pipe, or for few steps."""
    if total < fewest or not sys.stderr.isatty():
        yield Progress(lambda: None, lambda count: None)
        return
    from rich.console import Console  # not above: half of what a command takes to start
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    # Lines printed meanwhile go above the bar if both are on the terminal.
    with Bars(
        *columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()
    ) as bars:
        task = bars.add_task(what, total=total)
        yield Progress(lambda: bars.advance(task), lambda count: bars.advance(task, count))


@contextmanager
def share_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar while the block runs; the yielded function is called with the share done."""
    steps, done = 1000, 0
    with progress_bar(what, steps) as bar:

        def passed(share: float) -> None:
            nonlocal done
            if (reached := int(steps * share)) > done:
                bar.advance_by(reached - done)
                done = reached

        yield passed


@contextmanager
def working(what: str, *, counted: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a spinner and the time while the block runs.

    ``counted``: also show a size; the yielded function is called with the bytes so far.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console  # not above: see there
    from rich.progress import FileSizeColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    size = (FileSizeColumn(),) if counted else ()
    columns = (SpinnerColumn(), TextColumn(what), *size, TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done: bars.update(task, completed=done)
