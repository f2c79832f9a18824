"""API servers on real etcd, and clients of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from podsched.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from support.api_servers import Servers, api_servers


@pytest.fixture(scope="module")
def etcd_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real etcd for the tests of one module."""
    options = EmbeddedEtcdOptions(tmp_path_factory.mktemp("etcd"), fsync=False)
    with asyncio.Runner() as runner:
        etcd = EmbeddedEtcd(options)
        runner.run(etcd.start())
        yield etcd.endpoint
        runner.run(etcd.stop())


@pytest.fixture
async def servers(etcd_endpoint: str) -> AsyncIterator[Servers]:
    """No server yet."""
    async with api_servers(etcd_endpoint) as servers:
        yield servers
