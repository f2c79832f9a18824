"""How a client finds etcd's leader among the members."""

from __future__ import annotations

import asyncio

import pytest

from podsched.serve.store.endpoints import Endpoints
from podsched.serve.store.etcd import EtcdOptions
from support.eventually import PATIENCE


async def test_a_member_that_does_not_answer_holds_up_no_search_for_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoints = Endpoints(EtcdOptions(("follower:1", "paused:1", "leader:1")))

    async def leads(index: int) -> bool:
        if index == 1:
            await asyncio.Event().wait()
        return index == 2

    monkeypatch.setattr(endpoints.leader, "_leads", leads)
    assert await asyncio.wait_for(endpoints.leader.find(), timeout=PATIENCE)
    assert endpoints.members.endpoint == "leader:1"
