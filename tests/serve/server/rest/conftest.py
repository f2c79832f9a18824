"""A client of the REST API of a server on a store in memory."""

from __future__ import annotations

import pytest

from support.api_world import World
from support.kube_client import KubeClient


@pytest.fixture
def kube(world: World) -> KubeClient:
    return KubeClient(world.core)
