"""How late an event loop is: how long a callback that is due has to wait for those before it.

A loop that is blocked, by a long computation or by the garbage collector, answers nobody, renews
no lease and notices no timeout. The lag is sampled: a task sleeps and sees how much later than
asked for it wakes, so a block is seen with up to ``PERIOD`` less than it took. What the operating
system takes away from a busy process counts as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: Seconds between two samples. A sample costs some 20 us, so this is 0.2 % of a core.
PERIOD: Final = 0.01


async def watch_lag(observe: Callable[[float], None], period: float = PERIOD) -> None:
    """Call ``observe`` with the running loop's lag in seconds, once a period, until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + period
        await asyncio.sleep(period)
        observe(max(0.0, clock() - due))
