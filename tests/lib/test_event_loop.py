"""The lag of an event loop, at virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.lib.event_loop import watch_lag


@pytest.mark.looptime
async def test_a_block_is_seen_by_the_next_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = asyncio.get_running_loop()
    clock, blocked = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + blocked)
    lags: list[float] = []
    watching = asyncio.create_task(watch_lag(lags.append, 0.01))
    await asyncio.sleep(0.025)
    blocked = 0.5  # as if a callback had taken so long
    await asyncio.sleep(0.01)
    watching.cancel()
    assert lags[:2] == pytest.approx([0.0, 0.0])
    assert lags[2] == pytest.approx(0.5, abs=0.02)
