"""``sched get -w`` on a terminal: a table whose rows change in place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from podsched.api.objects import AnyObject, object_key
from podsched.cli.formats import Printer, sorted_by
from podsched.cli.redraw import redrawn
from podsched.serve.client.object_watch import Change, ChangeType

#: Seconds between two drawings, in which ages grow as well.
_PERIOD = 0.5


class WatchedTable:
    """The objects as they are now; where they do not fit, those that changed last."""

    def __init__(
        self, items: Iterable[AnyObject], printer: Callable[[], Printer], *, sorting: str = ""
    ) -> None:
        """``printer`` makes one for each drawing, whose columns are as wide as they must be."""
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
        """Take over a change: a row is new, different, or gone."""
        key = object_key(change.object)
        self._changed.pop(key, None)
        if change.type is ChangeType.DELETED:
            self._items.pop(key, None)
            return
        self._items[key] = change.object
        self._changed[key] = None

    def lines(self, _width: int, height: int) -> Sequence[str]:
        """Return the table in so many lines."""
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
