"""How often a standby connects to the leader."""

from __future__ import annotations

import asyncio

import pytest

from podsched.term.election import peers
from podsched.term.election.peers import follow_leader

pytestmark = pytest.mark.looptime


class Connections:
    """Connections that break after some seconds, although the leader lives.

    ``lasting``: the seconds of the first ones; the others last as long as the last of these.
    """

    def __init__(self, *lasting: float) -> None:
        self.began: list[float] = []
        self._lasting = lasting

    async def connect(self, *_: object) -> peers._Ending:
        self.began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._lasting[min(len(self.began), len(self._lasting)) - 1])
        return peers._Ending.BROKEN


async def follow(connections: Connections, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(peers, "_connect_once", connections.connect)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await follow_leader("h:1", "leader", lambda _: None, chance=lambda: 0.5)


async def test_an_address_that_greets_and_breaks_at_once_is_not_asked_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections = Connections(0.001)
    await follow(connections, monkeypatch, 60)
    assert len(connections.began) < 100


async def test_after_a_connection_that_has_lasted_the_next_one_follows_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections = Connections(10.0)
    await follow(connections, monkeypatch, 59)
    assert connections.began == [10.0 * number + connections.began[0] for number in range(6)]


async def test_the_second_short_connection_in_a_row_is_followed_by_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections = Connections(0.5, 0.5, 10.0)
    await follow(connections, monkeypatch, 5)
    first, second, third = connections.began
    assert second == first + 0.5
    assert third > second + 0.5
