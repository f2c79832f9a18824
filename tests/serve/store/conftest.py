"""The stores the contract suite runs on; tests keep apart by their prefixes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from podsched.serve.store.etcd import EtcdOptions, connect
from podsched.serve.store.protocol import Store
from podsched.testing.memory_store import MemoryStore


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.integration)])
def endpoint(request: pytest.FixtureRequest) -> str | None:
    """Where the store under test is: None for the one in memory."""
    return request.getfixturevalue("etcd_endpoint") if request.param == "etcd" else None


@pytest.fixture
async def store(endpoint: str | None) -> AsyncIterator[Store]:
    """The store under test."""
    store: Store = MemoryStore() if endpoint is None else await connect(EtcdOptions((endpoint,)))
    yield store
    await store.close()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Keys of this test alone."""
    return f"/{request.node.name}/"
