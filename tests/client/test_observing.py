"""What an API server tells about itself."""

from __future__ import annotations

import pytest

from podsched.client import errors
from podsched.server.observing import ServerTelemetry
from podsched.server.server import serve
from podsched.server.settings import ServerSettings
from podsched.telemetry.instruments import MetricRegistry
from support.api_objects import pod
from support.api_servers import Servers

pytestmark = pytest.mark.integration


async def test_calls_are_counted_by_resource_and_outcome(servers: Servers) -> None:
    """And the cache's state is told when somebody looks."""
    await servers.start()
    registry = MetricRegistry()
    telemetry = ServerTelemetry(registry)
    server = await serve(ServerSettings(), servers.stores[0], observer=telemetry)
    servers.running.append(server)
    telemetry.follow(server.core)
    client = servers.client(server)
    await client.create(pod())
    with pytest.raises(errors.AlreadyExists):
        await client.create(pod())
    await client.list("Pod")
    text = registry.render()[0].decode()
    for line in (
        'apiserver_request_total{code="OK",resource="pods",verb="Create"} 1.0',
        'apiserver_request_total{code="ALREADY_EXISTS",resource="pods",verb="Create"} 1.0',
        'apiserver_request_duration_seconds_count{resource="pods",verb="List"} 1.0',
        'apiserver_storage_objects{resource="pods"} 1.0',
    ):
        assert line in text
