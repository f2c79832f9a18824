"""The blocking client on a real API server."""

from __future__ import annotations

import asyncio

import pytest

from podsched import ChangeType, Client, ClientError
from podsched.serve.client.errors import NotFound
from support.api_objects import pod
from support.api_servers import Servers

pytestmark = pytest.mark.integration


def program(address: str) -> list[tuple[str, str]]:
    """Create, change, watch and delete a pod."""
    seen: list[tuple[str, str]] = []
    with Client(address) as client:
        client.create(pod("web"))
        changes = client.watch(["pods"], "default")
        assert next(changes).type is ChangeType.ADDED
        client.patch("Pod", "web", {"metadata": {"labels": {"app": "web"}}}, "default")
        client.delete("Pod", "web", "default", grace_period_seconds=0)
        for change in changes:
            seen.append((change.type, change.object.metadata.name))
            if change.type is ChangeType.DELETED:
                break
        with pytest.raises(NotFound):
            client.get("Pod", "web", "default")
    return seen


async def test_a_program_without_an_event_loop_uses_the_api(servers: Servers) -> None:
    server = await servers.start()
    seen = await asyncio.to_thread(program, server.address)
    assert seen[-1] == (ChangeType.DELETED, "web")


async def test_a_closed_client_and_a_dead_server_are_clear_errors(servers: Servers) -> None:
    server = await servers.start()
    client = await asyncio.to_thread(Client, server.address)
    await asyncio.to_thread(client.close)
    with pytest.raises(RuntimeError, match="the client is closed"):
        await asyncio.to_thread(client.get, "Pod", "web", "default")
    assert issubclass(NotFound, ClientError)
