"""A progress bar on standard error, for long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

#: With fewer steps, the work ends before a bar could be read.
_FEWEST = 100


#: Counts a step, or a number of steps.
Advance = Callable[..., object]


@contextmanager
def progress_bar(what: str, total: int, fewest: int = _FEWEST) -> Iterator[Advance]:
    """Show a bar while the block counts ``total`` steps; no bar for a pipe, or for few steps."""
    if total < fewest or not sys.stderr.isatty():
        yield lambda count=1: None
        return
    from rich.console import Console  # not above: half of what a command takes to start
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    # Lines printed meanwhile go above the bar if both are on the terminal.
    both = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=both) as bars:
        yield partial(bars.advance, bars.add_task(what, total=total))


@contextmanager
def share_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar while the block runs; the yielded function is called with the share done."""
    steps, done = 1000, 0
    with progress_bar(what, steps) as advance:

        def passed(share: float) -> None:
            nonlocal done
            if (reached := int(steps * share)) > done:
                advance(reached - done)
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
    from rich.progress import FileSizeColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    size = (FileSizeColumn(),) if counted else ()
    columns = (SpinnerColumn(), TextColumn(what), *size, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done: bars.update(task, completed=done)
