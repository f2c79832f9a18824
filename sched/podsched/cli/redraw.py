"""Lines that are redrawn in place on a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from podsched.api.objects import AnyObject, object_key
from podsched.cli.formats import Printer, sorted_by
from podsched.lib.printable import printable
from podsched.serve.client.object_watch import Change, ChangeType

Lines = Callable[[int, int], Sequence[str]]
"""Returns what is to be seen in so many columns and lines."""


def is_terminal() -> bool:
    """Whether standard output is a terminal that can redraw lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


@asynccontextmanager
async def redrawn(lines: Lines, period: float, *, whole_screen: bool) -> AsyncIterator[None]:
    """Draw lines now, every ``period`` seconds, and a last time at the end of the block.

    whole_screen: on the terminal's alternate screen.
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


#: Seconds between two drawings, in which ages grow as well.
_PERIOD = 0.5


class WatchedTable:
    """The present objects; if they do not fit the screen, those that changed last."""

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
        """Apply a change: a row is new, different, or removed."""
        key = object_key(change.object)
        self._changed.pop(key, None)
        if change.type is ChangeType.DELETED:
            self._items.pop(key, None)
            return
        self._items[key] = change.object
        self._changed[key] = None

    def lines(self, _width: int, height: int) -> Sequence[str]:
        """Return the table, limited to ``height`` lines."""
        room = max(height - 2, 1)
        hidden = len(self._items) - room + 1 if len(self._items) > room else 0
        shown = [*self._changed][hidden:] if hidden else self._items
        items = [item for key, item in self._items.items() if key in shown or not hidden]
        if self._sorting:
            items = sorted_by(items, self._sorting)
        if not items:
            return ["No resources found."]
        lines = self._printer().text(items, single=False).splitlines()
        return [*lines, f"... {hidden} more, unchanged for longer"] if hidden else lines
