"""Draws lines on a terminal again and again, in place."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from podsched.api.objects import AnyObject, object_key
from podsched.cli.formats import Printer, sorted_by
from podsched.lib.printable import printable
from podsched.serve.client.object_watch import Change, ChangeType

Lines = Callable[[int, int], Sequence[str]]
"""Returns the lines to draw, from the width and height of the terminal."""


def is_terminal() -> bool:
    """Return whether standard output is a terminal that can redraw lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM exit in place of ending at once, which would leave the terminal as it is drawn.

    That is without a cursor, and perhaps on the alternate screen.
    """
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@asynccontextmanager
async def redrawn(lines: Lines, period: float, *, whole_screen: bool) -> AsyncIterator[None]:
    """Draw lines now, every ``period`` seconds, and once more at the end of the block.

    ``whole_screen``: draw on the terminal's alternate screen.
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

    screen = Live(drawn(), console=console, auto_refresh=False, screen=whole_screen)
    with _exit_on_sigterm(), screen as live:
        drawing = asyncio.create_task(keep_drawing(), name="draw")
        try:
            yield
        finally:
            drawing.cancel()
            live.update(drawn(), refresh=True)


#: Seconds between two drawings; ages change even without changes of objects.
_PERIOD = 0.5


class WatchedTable:
    """A table of the current objects; if they do not fit on the screen, of those changed last."""

    def __init__(
        self, items: Iterable[AnyObject], printer: Callable[[], Printer], *, sorting: str = ""
    ) -> None:
        """``printer`` makes a new printer for each drawing, with fitting columns."""
        self._items = {object_key(item): item for item in items}
        self._changed: dict[str, None] = dict.fromkeys(self._items)
        self._printer = printer
        self._sorting = sorting

    async def follow(self, changes: AsyncIterator[Change]) -> None:
        """Draw changes until cancelled."""
        async with redrawn(self.lines, _PERIOD, whole_screen=False):
            async for change in changes:
                self.apply(change)

    def apply(self, change: Change) -> None:
        """Add, replace or remove an object."""
        key = object_key(change.object)
        self._changed.pop(key, None)
        if change.type is ChangeType.DELETED:
            self._items.pop(key, None)
            return
        self._items[key] = change.object
        self._changed[key] = None

    def lines(self, _width: int, height: int) -> Sequence[str]:
        """Return the table, limited to ``height`` lines."""
        if not self._items:
            return ["No resources found."]
        room, rest = max(height - 2, 1), len(self._items) - 1
        hidden = min(rest - room + 2, rest) if rest >= room else 0
        # A row may take several lines.
        while len(lines := self._table(hidden)) + bool(hidden) >= height and hidden < rest:
            hidden += 1
        return [*lines, f"... {hidden} more, unchanged for longer"] if hidden else lines

    def _table(self, hidden: int) -> list[str]:
        """Return the lines of the table without the objects that are unchanged for longest."""
        shown = {*list(self._changed)[hidden:]}
        items = [item for key, item in self._items.items() if key in shown]
        if self._sorting:
            items = sorted_by(items, self._sorting)
        return self._printer().text(items, single=False).splitlines()
