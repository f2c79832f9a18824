"""One etcd for all store tests, and the stores the contract suite runs on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from podsched.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.store.etcd import EtcdOptions, connect
from podsched.store.protocol import Store
from podsched.testing.memory_store import MemoryStore


@pytest.fixture(scope="session")
def etcd_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real etcd for the whole session; tests keep apart by their prefixes."""
    options = EmbeddedEtcdOptions(tmp_path_factory.mktemp("etcd"), fsync=False)
    with asyncio.Runner() as runner:
        etcd = EmbeddedEtcd(options)
        runner.run(etcd.start())
        yield etcd.endpoint
        runner.run(etcd.stop())


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
