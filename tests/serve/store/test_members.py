"""The connections to etcd's members. No I/O: none of the channels is used."""

from __future__ import annotations

import asyncio

import pytest

from podsched.lib.server_health import STAY
from podsched.serve.store.endpoints import Endpoints
from podsched.serve.store.etcd import EtcdOptions
from podsched.serve.store.members import Members


class Stream:
    """A watch, which is cancelled with its channel or by itself."""

    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def changed(_: object) -> bool:
    return True


async def test_a_silent_member_is_left_also_on_connections_with_an_earlier_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = Members(EtcdOptions(("a:1", "b:1")))
    earlier = members.connection_to(0)
    monkeypatch.setattr(members._files, "changed", changed)
    members.leave(members.connection_to(1))  # a call that failed elsewhere
    later = members.connection_to(0)
    assert later is not earlier
    await members.close_silent("a:1", "b:1")
    assert (earlier.silent, later.silent) == (True, True)
    assert members.endpoint == "b:1"
    await members.close()


@pytest.mark.looptime
async def test_a_member_that_was_silent_is_not_the_next_one_for_two_seconds() -> None:
    members = Members(EtcdOptions(("a:1", "b:1", "c:1")))
    members.connection_to(0)
    members.use(1)
    await members.close_silent("b:1", "a:1")
    members.leave(members.connection_to(0))
    assert members.endpoint == "c:1"
    members.leave(members.connection_to(2))
    assert members.endpoint == "a:1"
    await asyncio.sleep(STAY + 0.01)
    members.leave(members.connection_to(0))
    assert members.endpoint == "b:1"
    await members.close()


@pytest.mark.looptime
async def test_a_silent_member_is_used_if_no_other_is_left() -> None:
    members = Members(EtcdOptions(("a:1", "b:1")))
    members.use(1)
    await members.close_silent("b:1", "a:1")
    members.leave(members.connection_to(0))
    assert members.endpoint == "b:1"
    await members.close()


async def test_watches_on_a_member_end_when_another_one_is_used() -> None:
    members, watch = Members(EtcdOptions(("a:1", "b:1"))), Stream()
    members.connection_to(0).watches.add(watch)
    members.leave(members.connection_to(0))
    assert (members.endpoint, watch.cancelled) == ("b:1", True)
    await members.close()


async def test_watches_with_an_earlier_certificate_end_when_another_member_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members, watch = Members(EtcdOptions(("a:1", "b:1"))), Stream()
    members.connection_to(0).watches.add(watch)
    monkeypatch.setattr(members._files, "changed", changed)
    members.leave(members.connection_to(1))  # a call that failed elsewhere
    assert not watch.cancelled
    members.use(1)
    assert watch.cancelled
    await members.close()


async def test_a_member_that_is_left_while_it_says_that_it_leads_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoints = Endpoints(EtcdOptions(("leader:1", "follower:1")))

    async def leads(index: int) -> bool:
        await asyncio.sleep(0)
        endpoints.members.leave(endpoints.members.connection_to(0))
        return index == 0

    monkeypatch.setattr(endpoints.leader, "_leads", leads)
    assert await endpoints.leader.find()
    assert endpoints.members.endpoint == "leader:1"
    await endpoints.close()
