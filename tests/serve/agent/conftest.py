from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.agent_world import AgentWorld, started_world


@pytest.fixture
async def world() -> AsyncIterator[AgentWorld]:
    async for world in started_world():
        yield world
