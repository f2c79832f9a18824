"""What becomes of the answers of nodes and pods."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from podsched.api.objects import Node
from podsched.serve.server.kubelets.addresses import Endpoint
from podsched.serve.server.kubelets.client import KubeletClient
from podsched.serve.server.rest.proxying import proxied
from support.api_world import World
from support.kube_client import KubeClient


class Content:
    """The body of an answer."""

    async def iter_any(self) -> AsyncGenerator[bytes, None]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Kubelet:
    """Stands for aiohttp's answer, and for what asks for it."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.headers = {"Content-Type": "text/plain"}
        self.content = Content()

    async def endpoint(self, node: Node) -> Endpoint:
        return Endpoint(node.metadata.name, "10.0.0.1", "10.0.0.1", 10250)

    async def request(self, *_: Any, **__: Any) -> Kubelet:
        return self

    def close(self) -> None:
        """Nothing is open."""


async def asked(world: World, status: int) -> bytes:
    """Return all bytes that a client gets for a node's answer."""
    kubelets = cast(KubeletClient, Kubelet(status))
    client = KubeClient(world.core, kubelets=kubelets)
    return bytes((await client.get("/api/v1/nodes/worker-1/proxy/pods")).sent)


async def test_a_node_that_switches_protocols_without_being_asked_is_refused(world: World) -> None:
    """What it sent next would be read as the answer to another request of the connection."""
    assert (await asked(world, 200)).startswith(b"HTTP/1.1 200 ")
    answer = await asked(world, 101)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"answered 101" in answer


@pytest.mark.parametrize(
    "prefix",
    [
        "nodes/worker-1",
        "nodes/proxy",
        "namespaces/default/pods/web",
        "namespaces/default/pods/proxy",
        "namespaces/proxy/services/proxy",
    ],
)
def test_what_follows_the_proxy_is_passed_on_whatever_names_are_before_it(prefix: str) -> None:
    rests = ("/a/proxy/b?c=/proxy/", "/", "")
    found = [proxied(f"/api/v1/{prefix}/proxy{rest}") for rest in rests]
    assert found == ["/a/proxy/b?c=/proxy/", "/", "/"]
