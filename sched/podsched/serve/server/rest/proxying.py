"""Passes requests on to kubelets: proxies of nodes, pods and Services.

``pod_streams`` has what runs in pods: log, exec, attach and port-forward.

pods/proxy and services/proxy reach a pod through its kubelet's port-forward
(``kubelets.forwarding``).

Who may: the verb of the HTTP method on nodes/proxy, pods/proxy and services/proxy.

Source: pkg/registry/core/pod/strategy.go and pkg/registry/core/node/rest, v1.36.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Final, cast
from urllib.parse import quote

import aiohttp

from podsched.api.kinds import KINDS
from podsched.api.objects import Endpoints, Node, Pod, Service
from podsched.api.reasons import StatusCode
from podsched.serve.server import errors
from podsched.serve.server.access.identity import caller
from podsched.serve.server.access.rights import rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.kubelets.addresses import Endpoint, NoAddress, kubelet_port
from podsched.serve.server.kubelets.client import Headers, KubeletClient, KubeletError
from podsched.serve.server.kubelets.forwarding import PROTOCOL, PodConnection, PodPort
from podsched.serve.server.rest.failures import bad_request
from podsched.serve.server.rest.kubelet_lookup import (
    LONGEST_ANSWER,
    KubeletLookup,
    failed,
    pieces_of,
)
from podsched.serve.server.rest.messages import Answer, Request
from podsched.serve.server.rest.pod_streams import PodStreams
from podsched.serve.server.rest.proxy_targets import asked_of, pod_port, pods_behind
from podsched.serve.server.rest.routes import Target

#: Max streams of one user and of this server. Each holds up to 0.4 MB: what its two connections
#: and their TLS buffer.
MAX_OF_USER: Final = 100
MAX_STREAMS: Final = 400
_RETRY_AFTER: Final = 1.0

#: Headers of a proxied request and of its answer that are passed on.
_OF_REQUESTS: Final = frozenset({"accept", "content-type", "range", "if-none-match"})
_OF_ANSWERS: Final = frozenset({"etag", "last-modified", "content-range", "content-encoding"})
_PROXIED_PATH: Final = re.compile(r"/api/v1/(?:(?:[^/?]+/){2}){1,2}?proxy(?P<rest>[/?].*)?")
#: Sent with what nodes and pods answer: a browser runs no script of it as the API server's.
_SANDBOX: Final = {"Content-Security-Policy": "sandbox"}

Verb = Callable[[Target, Request, ExitStack], Awaitable[Answer]]
"""Answers a request for one subresource. The ExitStack closes what is open once that is sent."""


class Proxying:
    """Answers requests that go to kubelets. Methods raise ApiError."""

    def __init__(self, core: ServerCore, kubelets: KubeletClient) -> None:
        self._object = core.storage.message
        self._kubelets = kubelets
        self._lookup = KubeletLookup(core.storage, kubelets)
        self._open: Counter[str] = Counter()
        streams = PodStreams(self._lookup, kubelets)
        self._verbs: dict[str, Verb] = {
            "log": streams.log,
            "exec": streams.exec,
            "attach": streams.attach,
            "portforward": streams.port_forward,
            "proxy": self._proxy,
        }

    async def answer(self, target: Target, request: Request, held: ExitStack) -> Answer:
        """Answer a request for a subresource at a kubelet; held: the stack of ``admitted``."""
        try:
            return await self._verbs[target.subresource](target, request, held)
        except KubeletError as error:
            raise failed(error) from None

    @contextlib.contextmanager
    def admitted(self) -> Iterator[ExitStack]:
        """Count a stream of the caller within the block; afterwards its connection is closed.

        Raises ApiError if there are too many.
        """
        user = caller().user
        if self._open[user] >= MAX_OF_USER or self._open.total() >= MAX_STREAMS:
            cause = f"{MAX_OF_USER} streams to kubelets of one user, {MAX_STREAMS} of a server"
            raise errors.too_many_requests(f"there may be at most {cause}", _RETRY_AFTER)
        self._open[user] += 1
        try:
            with ExitStack() as held:
                yield held
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    # ------------------------------------------------------------------ proxies

    async def _proxy(self, target: Target, request: Request, held: ExitStack) -> Answer:
        kind = target.resource.kind
        rights().check(target.verb, kind, target.namespace, target.name, "proxy")
        if "upgrade" in request.headers:
            # Whoever may only get nodes/proxy could run commands by a WebSocket.
            instead = "pods/exec" if kind.name == "Node" else "kubectl port-forward"
            raise bad_request(f"upgrades are not passed through {kind.plural}/proxy: use {instead}")
        if kind.name == "Node":
            return await self._proxy_node(target, request, held)
        tls, name, port = asked_of(target.name, kind.name.lower())
        if kind.name == "Pod":
            pod = await self._lookup.pod(target.namespace, name)
            return await self._proxy_pod(pod, pod_port(pod, port), tls, request, held)
        service = cast(Service, await self._object(kind, target.namespace, name))
        endpoints = await self._endpoints(target.namespace, name)
        chosen, number = random.choice(pods_behind(service, endpoints, port))
        pod = await self._lookup.pod(target.namespace, chosen)
        return await self._proxy_pod(pod, number, tls, request, held)

    async def _endpoints(self, namespace: str, name: str) -> Endpoints:
        """Return the Endpoints of a Service, empty ones if there are none."""
        try:
            return cast(Endpoints, await self._object(KINDS["Endpoints"], namespace, name))
        except ApiError as error:
            if error.code is not StatusCode.NOT_FOUND:
                raise
            return Endpoints()

    async def _proxy_pod(
        self, pod: Pod, port: int, tls: bool, request: Request, held: ExitStack
    ) -> Answer:
        """Pass a request on to a port of a pod, through its kubelet."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if pod.spec.host_network:
            raise bad_request(
                f"pod {name} uses the network of its node, whose own ports are not passed on to: "
                "use kubectl port-forward"
            )
        endpoint = await self._lookup.of_pod(pod)
        path = f"/portForward/{quote(namespace, safe='')}/{quote(name, safe='')}?port={port}"
        where = PodPort(name, port, tls)
        channels = await self._kubelets.channels(endpoint, path, PROTOCOL)
        connection = PodConnection(where, channels)
        held.callback(connection.close)
        response = await connection.request(
            request.method, proxied(request.target), _headers(request), request.body or None
        )
        return _proxied_answer(where, response, held)

    async def _proxy_node(self, target: Target, request: Request, held: ExitStack) -> Answer:
        node = await self._lookup.node(_name_of(target.name))
        _check_port(node, target.name)
        endpoint = await self._lookup.of_node(node)
        response = await self._kubelets.request(
            endpoint,
            request.method,
            proxied(request.target),
            headers=_headers(request),
            body=request.body or None,
        )
        return _proxied_answer(endpoint, response, held)


def _name_of(asked: str) -> str:
    """Return the node in NAME, NAME:PORT, https:NAME: or https:NAME:PORT. Raises RestError."""
    parts = asked.split(":")
    if len(parts) == 3 and parts[0] == "https":
        return parts[1]
    if len(parts) > 2:
        raise bad_request(f"invalid node request {asked[:300]!r}")
    return parts[0]


def _check_port(node: Node, asked: str) -> None:
    """Raise RestError for another port than the kubelet's."""
    _, separator, port = asked.rpartition(":")
    with contextlib.suppress(NoAddress):
        if separator and port and port != str(kubelet_port(node)):
            why = f"only the kubelet's port {kubelet_port(node)} is served"
            raise bad_request(f"port {port[:20]} of node {node.metadata.name}: {why}")


def proxied(target: str) -> str:
    """Return path and query of a request below the proxy, unchanged."""
    found = _PROXIED_PATH.fullmatch(target)
    rest = found["rest"] if found else None
    return rest if rest and rest[0] == "/" else f"/{rest or ''}"


def _headers(request: Request) -> Headers:
    return [(n, v) for n, v in request.header_lines if n.lower() in _OF_REQUESTS]


def _proxied_answer(
    where: Endpoint | PodPort, response: aiohttp.ClientResponse, held: ExitStack
) -> Answer:
    held.callback(response.close)
    if response.status < 200:
        # What follows would have no length, and be read as answers to other requests.
        raise KubeletError(f"{where} answered {response.status}", response.status)
    shown = {n: v for n, v in response.headers.items() if n.lower() in _OF_ANSWERS}
    kind = response.headers.get("Content-Type", "application/octet-stream")
    pieces = pieces_of(where, response)
    return Answer(pieces, response.status, kind, shown | _SANDBOX, LONGEST_ANSWER, patient=True)
