"""API servers on real etcd, and clients of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.api_servers import Servers, api_servers


@pytest.fixture
async def servers(etcd_endpoint: str) -> AsyncIterator[Servers]:
    """No server yet."""
    async with api_servers(etcd_endpoint) as servers:
        yield servers
