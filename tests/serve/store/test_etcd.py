"""The store on etcd, with members that the test plays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aetcd.rpc import rpc_pb2

from podsched.serve.store.connection import Connection
from podsched.serve.store.etcd import EtcdOptions, EtcdStore


async def test_the_status_names_the_member_that_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_ready(connection: Connection, timeout: float) -> bool:
        return True

    monkeypatch.setattr(Connection, "ready", is_ready)
    store = EtcdStore(EtcdOptions(("a:1", "b:1"), silence=0))
    members = store._endpoints.members

    async def answer_late(*_: Any, **__: Any) -> rpc_pb2.StatusResponse:
        members.use(1)
        return rpc_pb2.StatusResponse(version="3.6.0")

    maintenance = SimpleNamespace(Status=answer_late)
    monkeypatch.setattr(members.connection_to(0), "maintenance", maintenance)
    assert (await store.status()).endpoint == "a:1"
    assert members.endpoint == "b:1"
    await store.close()
