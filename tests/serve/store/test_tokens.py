"""The token of etcd's authentication."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aetcd.rpc import rpc_pb2

from podsched.lib.certificate_files import Pems
from podsched.serve.store.connection import Connection, EtcdOptions
from podsched.serve.store.tokens import AuthToken

pytestmark = pytest.mark.looptime

OPTIONS = EtcdOptions(username="scheduler", password="secret")


def member(seconds: float) -> tuple[Connection, list[Any]]:
    """Return a connection to a member that takes so long to authenticate, and its requests."""
    asked = []

    async def authenticate(request: Any, timeout: float) -> Any:
        asked.append(request)
        await asyncio.sleep(min(seconds, timeout))
        return rpc_pb2.AuthenticateResponse(token="token")

    connection = Connection("127.0.0.1:2379", OPTIONS, Pems(None, None, None))
    connection.auth = SimpleNamespace(Authenticate=authenticate)
    return connection, asked


async def test_calls_to_a_member_wait_for_no_token_from_another_one() -> None:
    token = AuthToken(OPTIONS)
    (silent, _), (well, _) = member(1000), member(0)
    waiting = asyncio.create_task(token.metadata(silent))
    await asyncio.sleep(0)
    async with asyncio.timeout(0.1):
        assert ("token", "token") in await token.metadata(well)
    waiting.cancel()


async def test_calls_to_a_member_at_once_authenticate_once() -> None:
    token = AuthToken(OPTIONS)
    connection, asked = member(1)
    await asyncio.gather(*(token.metadata(connection) for _ in range(3)))
    assert len(asked) == 1


async def test_each_of_the_calls_whose_token_has_expired_may_be_repeated() -> None:
    token = AuthToken(OPTIONS)
    connection, _ = member(0)
    await token.metadata(connection)
    assert [token.forget(), token.forget()] == [True, True]


async def test_without_a_user_there_is_no_token_to_renew() -> None:
    assert not AuthToken(EtcdOptions()).forget()
