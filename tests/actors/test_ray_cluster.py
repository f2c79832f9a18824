"""Joining a Ray cluster, without Ray."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest

from podsched.actors import ray_cluster
from support.eventually import PATIENCE


def test_a_first_value_is_serialized_when_joining(monkeypatch: pytest.MonkeyPatch) -> None:
    """For it, Ray imports pydantic and others, which would block a new leader's event loop."""
    ray = SimpleNamespace(init=Mock(), put=Mock(), cluster_resources=lambda: {"CPU": 3.0})
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert ray_cluster._init("127.0.0.1:1") == (ray, 3)
    ray.init.assert_called_once()
    ray.put.assert_called_once()


async def test_the_log_tells_that_joining_took_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Mock()
    monkeypatch.setattr(ray_cluster, "_log", log)
    monkeypatch.setattr(ray_cluster, "_check_nodes", Mock(side_effect=TimeoutError))
    assert not await ray_cluster.RayCluster("head:6379", 1.0, Mock())._join()
    assert log.warning.call_args.kwargs["error"] == "TimeoutError()"


async def test_a_cluster_joined_through_a_ray_client_is_not_taken_for_lost() -> None:
    assert await ray_cluster._is_open("ray://127.0.0.1:10001")


async def test_a_node_that_has_ended_is_noticed_though_a_new_head_has_the_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A standby calls nothing that would fail, so it would only notice once it leads."""
    cluster = ray_cluster.RayCluster("head:6379", 1.0, Mock())
    cluster._raylet = "/session_1/sockets/raylet"
    cluster.joined.set()
    monkeypatch.setattr(ray_cluster, "WATCH_PERIOD", 0.0)
    monkeypatch.setattr(ray_cluster, "_is_open", AsyncMock(return_value=True))
    found = Mock(side_effect=[{cluster._raylet}, None, frozenset()])
    monkeypatch.setattr(ray_cluster, "raylet_sockets", found)
    async with asyncio.timeout(PATIENCE):
        await cluster._watch()
    assert found.call_count == 3
