"""The connection to the leader, over real loopback sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from podsched.config.leader_election import LeaderElectionSettings
from podsched.term.election.elector import LeaderElector
from podsched.term.election.etcd_lock import EtcdLock
from podsched.term.election.options import ElectionCallbacks
from podsched.term.election.peers import PeerListener, follow_leader
from podsched.testing.memory_store import MemoryStore
from support.eventually import eventually
from support.relay import Relay

pytestmark = pytest.mark.integration


class Follower:
    """A follower of "leader" at a port, and its reports."""

    def __init__(self, port: int) -> None:
        self.reports: list[bool] = []
        address = f"127.0.0.1:{port}"
        self.task = asyncio.create_task(
            follow_leader(address, "leader", self.reports.append, chance=random.random)
        )


@pytest.fixture
async def follow_at() -> AsyncIterator[Callable[[int], Follower]]:
    followers: list[Follower] = []

    def start(port: int) -> Follower:
        followers.append(Follower(port))
        return followers[-1]

    yield start
    for follower in followers:
        follower.task.cancel()
    await asyncio.gather(*(f.task for f in followers), return_exceptions=True)


async def is_met(listener: PeerListener) -> None:
    """Wait until a follower is connected, and has read who is there."""
    await eventually("a connection", lambda: len(listener.peers), 1)
    for _ in range(10):  # turns of the event loop: this process may stand still in some of them
        await asyncio.sleep(0.01)


async def test_a_leader_that_goes_away_is_reported_as_confirmed(
    follow_at: Callable[[int], Follower],
) -> None:
    """Broken, and the address refuses since."""
    listener = PeerListener("leader")
    follower = follow_at(await listener.start("127.0.0.1", 0))
    await is_met(listener)
    listener.close()
    # Not once: the first claim of the lock may be refused.
    await eventually("reports", lambda: len(follower.reports) > 2)
    assert set(follower.reports) == {True}


@pytest.mark.parametrize("releases", [True, False])
async def test_a_leader_that_stops_is_missed_unless_it_has_released_the_lock(
    follow_at: Callable[[int], Follower], releases: bool
) -> None:
    """A claim on what it has released would be refused, and come before the one that is not."""
    settings, store = LeaderElectionSettings(release_on_cancel=releases), MemoryStore()
    lock = EtcdLock(store, settings, 2)
    elector = LeaderElector(lock, settings, "leader", ElectionCallbacks())
    running = asyncio.create_task(elector.run())
    await eventually("it leads", elector.is_leader)
    follower = follow_at(int(elector.state.view.candidate.address.rpartition(":")[2]))
    await is_met(elector._listener)
    await elector.stop()
    await running
    if releases:
        await eventually("the follower ends", follower.task.done)
        assert follower.reports == []
    else:
        await eventually("a report", lambda: True in follower.reports)
    await store.close()


async def test_a_leader_that_is_back_at_once_is_not_reported_as_gone(
    follow_at: Callable[[int], Follower],
) -> None:
    """Only the connection broke."""
    listener = PeerListener("leader")
    relay = Relay(await listener.start("127.0.0.1", 0))
    await relay.start()
    follower = follow_at(relay.port)
    await is_met(listener)
    await relay.drop()
    await eventually("a report", lambda: len(follower.reports), 1)
    assert follower.reports == [False]
    await is_met(listener)
    await relay.stop()
    await eventually("another report", lambda: follower.reports[:2], [False, True])
    listener.close()


async def test_an_address_that_never_answered_says_nothing_about_the_leader(
    follow_at: Callable[[int], Follower],
) -> None:
    """A wrong address or a firewall in the way is no reason to depose anybody."""
    listener = PeerListener("somebody else")
    port = await listener.start("127.0.0.1", 0)
    follower = follow_at(port)
    await asyncio.sleep(0.05)
    listener.close()
    await asyncio.sleep(0.2)
    assert follower.reports == []
