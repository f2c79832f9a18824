"""What the API server exports of a call contains no secret."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from podsched.serve.server.call_metrics import ServerTelemetry
from podsched.serve.server.pipeline import Pipeline
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.tracing import Tracer
from support.api_world import World
from support.kube_client import KubeClient

SECRET = "s3cr3t-of-the-caller"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "keys", "namespace": "default"},
    "data": {"tls.key": SECRET},
}
REQUESTS = {
    "stored": ("POST", CONFIG_MAPS, CONFIG_MAP, ["etcd transaction", "API request"]),
    "of another kind": ("POST", CONFIG_MAPS, {**CONFIG_MAP, "kind": SECRET}, ["API request"]),
    "not decodable": ("POST", CONFIG_MAPS, f'{{"data": {SECRET}'.encode(), ["API request"]),
    "not found": ("GET", f"{CONFIG_MAPS}/{SECRET}", None, ["API request"]),
}


@pytest.mark.parametrize(("method", "path", "body", "names"), REQUESTS.values(), ids=REQUESTS)
async def test_no_span_of_a_call_has_its_token_or_what_it_stores(
    world: World, method: str, path: str, body: Any, names: list[str]
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    observer = ServerTelemetry(MetricRegistry(), Tracer(provider))
    kube = KubeClient(world.core, Pipeline(observer=observer))
    headers = {
        "authorization": f"Bearer {SECRET}",
        "cookie": SECRET,
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
    }
    await kube.request(method, f"{path}?access_token={SECRET}", body, headers)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == names
    assert not [text for span in spans if SECRET in (text := span.to_json())]
