"""pods/proxy and services/proxy: HTTP with a pod, through its kubelet's port-forward."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from integration.test_kubelet_streams import Cluster, check_unread, resident_bytes
from integration.test_kubelet_streams import cluster as cluster  # a fixture
from support.eventually import eventually
from support.stand_in_kubelet import address_of_this_machine

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not address_of_this_machine(), reason="needs an address beside loopback"),
]
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
LARGE = os.urandom(1_000_000).hex()


@dataclass
class WebPod:
    """What listens in the pod."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.raw_path}")
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if request.path == "/away":
            raise web.HTTPFound("http://192.0.2.9/")
        if request.path == "/large":
            return web.Response(text=LARGE)
        if request.path == "/endless":
            answer = web.StreamResponse()
            await answer.prepare(request)
            while True:
                await answer.write(b"x" * 65536)
        body = await request.read()
        return web.Response(text=f"page {len(body)}", headers={"Set-Cookie": "a=b"})


@asynccontextmanager
async def web_pod(tls: ssl.SSLContext | None = None) -> AsyncIterator[WebPod]:
    pod = WebPod()
    runner = web.ServerRunner(web.Server(pod.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    pod.port = runner.addresses[0][1]
    try:
        yield pod
    finally:
        await runner.cleanup()


async def test_a_pod_answers_as_it_was_asked(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    async with web_pod() as pod:
        path = f"{PODS}/web:{pod.port}/proxy"
        assert await cluster.kubectl("get", "--raw", f"{path}/a%20b?x=1&x=2") == "page 0"
        assert pod.asked == ["GET /a%20b?x=1&x=2"]
        assert await cluster.kubectl("get", "--raw", path) == "page 0"
        sent = await cluster.kubectl("create", "--raw", f"{path}/new", "-f", "-", stdin=b"x" * 99)
        assert sent == "page 99"
        assert pod.asked[1:] == ["GET /", "POST /new"]
    assert cluster.kubelet.asked[0] == f"GET /portForward/default/web?port={pod.port}"
    await eventually("the kubelet is left", lambda: not cluster.kubelet.open_streams)


async def test_a_pod_that_speaks_https_is_asked_so(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cluster.files.cert, cluster.files.key)
    async with web_pod(context) as pod:
        path = f"{PODS}/https:web:{pod.port}/proxy/large"
        assert await cluster.kubectl("get", "--raw", path) == LARGE
        said = await cluster.kubectl("get", "--raw", f"{PODS}/web:{pod.port}/proxy/", code=1)
        assert f"port {pod.port} of pod web" in said


async def test_a_large_answer_arrives_whole(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    async with web_pod() as pod:
        path = f"{PODS}/web:{pod.port}/proxy/large"
        assert await cluster.kubectl("get", "--raw", path) == LARGE


async def test_an_answer_that_is_not_read_waits_in_the_pod(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    async with web_pod() as pod:
        before = resident_bytes()
        path = f"{PODS}/web:{pod.port}/proxy/endless"
        endless = await cluster.start("get", "--raw", path)
        await eventually("the pod is asked", lambda: pod.asked == ["GET /endless"])
        await check_unread(cluster, endless, before)
        await eventually("the kubelet is left", lambda: not cluster.kubelet.open_streams)


async def test_the_callers_credentials_stay_and_redirects_are_not_followed(
    cluster: Cluster,
) -> None:
    await cluster.pod("web", "main")
    async with web_pod() as pod:
        await cluster.kubectl("get", "--raw", f"{PODS}/web:{pod.port}/proxy/away", code=1)
        assert pod.asked == ["GET /away"]
        assert pod.headers[0].keys().isdisjoint({"authorization", "cookie"})


async def test_a_kubelet_that_redirects_is_not_followed(cluster: Cluster) -> None:
    await cluster.pod("moved", "main")
    said = await cluster.kubectl("get", "--raw", f"{PODS}/moved:80/proxy/", code=1)
    assert "it redirects, which no kubelet does" in said
    assert cluster.kubelet.asked == ["GET /portForward/default/moved?port=80"]


async def test_a_closed_port_is_told_with_what_the_kubelet_says(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    said = await cluster.kubectl("get", "--raw", f"{PODS}/web:1/proxy/", code=1)
    assert "port 1 of pod web cannot be reached: connect to port 1" in said


async def test_the_address_that_a_kubelet_says_is_never_connected_to(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    async with web_pod() as pod, web_pod() as other:
        path = f"/{PODS.strip('/')}/web/status"
        patch = f'{{"status": {{"podIP": "127.0.0.1", "hostIP": "127.0.0.1:{other.port}"}}}}'
        await cluster.kubectl(
            *("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", patch)
        )
        await cluster.kubectl("get", "--raw", path)
        await cluster.kubectl("get", "--raw", f"{PODS}/web:{pod.port}/proxy/")
        assert (len(pod.asked), len(other.asked)) == (1, 0)
    assert cluster.kubelet.asked[-1].startswith("GET /portForward/")


async def test_ports_of_the_host_and_upgrades_are_refused(cluster: Cluster) -> None:
    spec = {
        "nodeName": "real",
        "hostNetwork": True,
        "containers": [{"name": "c", "image": "i"}],
    }
    metadata = {"name": "host", "namespace": "default"}
    await cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await cluster.server.core.reflector.wait_until_fresh()
    said = await cluster.kubectl("get", "--raw", f"{PODS}/host:10255/proxy/", code=1)
    assert "pod host uses the network of its node" in said
    assert cluster.kubelet.asked == []


async def test_a_service_answers_by_a_pod_behind_it(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    async with web_pod() as pod:
        ports = [{"name": "http", "port": 80, "targetPort": pod.port}]
        metadata = {"name": "web", "namespace": "default"}
        head = {"apiVersion": "v1", "metadata": metadata}
        await cluster.create({**head, "kind": "Service", "spec": {"ports": ports}})
        said = await cluster.kubectl("get", "--raw", f"{SERVICES}/web:80/proxy/", code=1)
        assert 'no endpoints available for service "web"' in said
        target = {"kind": "Pod", "namespace": "default", "name": "web"}
        addresses = [{"ip": "10.0.0.1", "targetRef": target}, {"ip": "10.0.0.2"}]
        subset = {"addresses": addresses, "ports": [{"name": "http", "port": pod.port}]}
        await cluster.create({**head, "kind": "Endpoints", "subsets": [subset]})
        for asked in ("web", "web:80", "web:http", "http:web:80"):
            path = f"{SERVICES}/{asked}/proxy/x"
            assert await cluster.kubectl("get", "--raw", path) == "page 0"
        assert pod.asked == ["GET /x"] * 4
        said = await cluster.kubectl("get", "--raw", f"{SERVICES}/web:81/proxy/", code=1)
        assert 'no service port 81 found for service "web"' in said
        said = await cluster.kubectl("get", "--raw", f"{SERVICES}/ftp:web:80/proxy/", code=1)
        assert "invalid service request" in said
