"""Leaves a server that is silent or unable, long before calls to it time out.

A client of several equal servers asks those in use every ``PERIOD``. If one gives no good answer
within ``silence`` seconds, it asks all servers at once. It leaves the server only if another one
answers well in the same time, so neither a delay of its own nor a fault of all servers, such as an
election of etcd, makes it switch.

It also reports whether any server answers at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import Final, Protocol

#: Seconds of silence for clients whose delay is felt.
SILENCE: Final = 0.3
#: Seconds between two questions; seconds in which another server must answer; and seconds for which
#: a client stays with a server to which it was moved here.
PERIOD, CONFIRM, STAY = 0.1, 0.1, 2.0
#: Seconds of an own delay with which silence proves nothing.
LATE = 0.05


class Health(Enum):
    """What a server answered."""

    WELL = auto()
    UNABLE = auto()
    SILENT = auto()


class Servers(Protocol):
    """The servers of a client."""

    @property
    def in_use(self) -> Collection[str]:
        """The server that gets new calls, and others that have streams."""
        ...

    @property
    def endpoints(self) -> Sequence[str]:
        """All servers."""
        ...

    async def health(self, endpoint: str, timeout: float) -> Health:
        """Return what a server answers within seconds."""
        ...

    def reached(self, reached: bool) -> None:
        """Note whether any server answers."""
        ...

    async def move(self, endpoint: str, to: str) -> None:
        """Leave one server for another; calls to the former fail."""
        ...


async def leave_silent_servers(servers: Servers, silence: float) -> None:
    """Switch away from servers without a good answer, until cancelled."""
    clock = asyncio.get_running_loop().time
    chosen, stays_until = "", 0.0
    while True:
        await asyncio.sleep(PERIOD)
        in_use, began = servers.in_use, clock()
        unwell = await _unwell(servers, in_use, silence)
        if len(unwell) < len(in_use):
            servers.reached(True)
        # A call that fails also makes the client change servers, perhaps back to the one that was
        # left: it need not stay with that one.
        if began < stays_until:
            unwell.discard(chosen)
        if not unwell:
            continue
        names = servers.endpoints
        answers = await asyncio.gather(*(servers.health(name, CONFIRM) for name in names))
        late = clock() > began + silence + CONFIRM + LATE  # It was busy and heard nothing.
        if not late:
            servers.reached(any(answer is not Health.SILENT for answer in answers))
        well = [name for name, answer in zip(names, answers, strict=True) if answer is Health.WELL]
        for name in unwell.difference(well) if well else ():
            await servers.move(name, well[0])
            chosen, stays_until = well[0], clock() + STAY


async def _unwell(servers: Servers, names: Collection[str], timeout: float) -> set[str]:
    """Return which of some servers give no good answer within seconds."""
    answers = await asyncio.gather(*(servers.health(name, timeout) for name in names))
    return {name for name, answer in zip(names, answers, strict=True) if answer is not Health.WELL}
