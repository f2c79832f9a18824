"""Lines that are drawn again in place, on a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from podsched.lib.printable import printable

Lines = Callable[[int, int], Sequence[str]]
"""Returns what is to be seen in so many columns and lines."""


def is_terminal() -> bool:
    """Whether standard output is a terminal on which something can be drawn again."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


@asynccontextmanager
async def redrawn(lines: Lines, period: float, *, whole_screen: bool) -> AsyncIterator[None]:
    """Draw lines now, every ``period`` seconds, and a last time at the end of the block.

    whole_screen: on a screen of their own, which the terminal forgets afterwards.
    """
    from rich.console import Console  # not above: half of what a command takes to start
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)

    def drawn() -> Text:
        width, height = console.size
        shown = [printable(line)[:width] for line in lines(width, height)[:height]]
        return Text("\n".join(shown), no_wrap=True, overflow="crop", end="")

    async def keep_drawing() -> None:
        while True:
            await asyncio.sleep(period)
            live.update(drawn(), refresh=True)

    with Live(drawn(), console=console, auto_refresh=False, screen=whole_screen) as live:
        drawing = asyncio.create_task(keep_drawing(), name="draw")
        try:
            yield
        finally:
            drawing.cancel()
            live.update(drawn(), refresh=True)
