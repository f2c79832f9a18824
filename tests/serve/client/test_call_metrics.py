"""What an API server tells about itself, and a client about its calls."""

from __future__ import annotations

import asyncio

import pytest

from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.call_metrics import ClientTelemetry
from podsched.serve.client.informer import Informer
from podsched.serve.server.call_metrics import ServerTelemetry
from podsched.serve.server.settings import ServerSettings
from podsched.telemetry.instruments import MetricRegistry
from support.api_objects import pod
from support.api_servers import Servers, start_api_server

pytestmark = pytest.mark.integration


async def test_calls_are_counted_by_resource_and_outcome(servers: Servers) -> None:
    """And the cache's state is told when somebody looks."""
    await servers.start()
    registry = MetricRegistry()
    telemetry = ServerTelemetry(registry)
    server = await start_api_server(ServerSettings(), servers.stores[0], observer=telemetry)
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


async def test_a_client_counts_its_calls_by_outcome_and_server(servers: Servers) -> None:
    server = await servers.start()
    registry = MetricRegistry()
    nowhere = "127.0.0.1:1"
    async with ApiClient([nowhere, server.address], observer=ClientTelemetry(registry)) as client:
        await client.create(pod())
        with pytest.raises(errors.AlreadyExists):
            await client.create(pod())
    text = registry.render()[0].decode()
    there = f'host="{server.address}"'
    for line in (
        f'rest_client_requests_total{{code="<error>",host="{nowhere}",method="POST"}} 1.0',
        f'rest_client_requests_total{{code="201",{there},method="POST"}} 1.0',
        f'rest_client_requests_total{{code="409",{there},method="POST"}} 1.0',
        f'rest_client_request_retries_total{{code="<error>",{there},verb="POST"}} 1.0',
        f'rest_client_request_duration_seconds_count{{{there},verb="POST"}} 2.0',
        f'rest_client_request_size_bytes_count{{{there},verb="POST"}} 2.0',
        f'rest_client_response_size_bytes_count{{{there},verb="POST"}} 1.0',
    ):
        assert line in text


async def test_events_that_are_sent_are_counted_and_an_informer_tells_how_far_it_is(
    servers: Servers,
) -> None:
    await servers.start()
    registry = MetricRegistry()
    telemetry = ServerTelemetry(registry)
    server = await start_api_server(ServerSettings(), servers.stores[0], observer=telemetry)
    servers.running.append(server)
    telemetry.follow(server.core)
    client = servers.client(server)
    await client.create(pod("listed"))
    informer = Informer(client, ["Pod"])
    ClientTelemetry(registry).follow(informer)
    following = asyncio.create_task(informer.run(lambda batch: None))
    await informer.synced.wait()
    created = await client.create(pod("watched"))
    revision = int(created.metadata.resource_version)
    await informer.wait_for_revision(revision)
    text = registry.render()[0].decode()
    following.cancel()
    assert "podsched_watch_events_total 2.0" in text
    assert f"podsched_informer_revision {float(revision)}" in text
    assert "podsched_informer_relists_total 0.0" in text
