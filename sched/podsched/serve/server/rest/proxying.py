"""Passes requests on to kubelets: log, exec, attach, port-forward, and proxy of nodes and pods.

exec, attach and port-forward switch protocols (SPDY, or a WebSocket). The kubelet speaks them; here
all bytes pass unchanged. kubectl first asks for a WebSocket, which a kubelet of v1.36 or later
speaks; if an older one refuses, kubectl asks for SPDY.

pods/proxy and services/proxy reach a pod through its kubelet's port-forward
(``kubelets.forwarding``).

Who may: get pods/log; create pods/exec, pods/attach and pods/portforward, for GET beside get, as in
Kubernetes since v1.35; the verb of the HTTP method on nodes/proxy, pods/proxy and services/proxy.

Source: pkg/registry/core/pod/strategy.go and rest/log.go, pkg/registry/core/node/rest, v1.36.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Final, cast
from urllib.parse import quote, urlencode

import aiohttp

from podsched.api.hollow_nodes import HOLLOW_TEXT, is_hollow
from podsched.api.kinds import KINDS
from podsched.api.objects import Endpoints, Node, Pod, Service
from podsched.api.reasons import StatusCode
from podsched.serve.server import errors
from podsched.serve.server.access.identity import caller
from podsched.serve.server.access.rights import rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.kubelets.addresses import Endpoint, NoAddress, kubelet_port
from podsched.serve.server.kubelets.client import Headers, KubeletClient, KubeletError, check_answer
from podsched.serve.server.kubelets.forwarding import PodPort, open_port
from podsched.serve.server.rest.failures import RestError, bad_request, unavailable
from podsched.serve.server.rest.messages import TEXT, Answer, Request, Upgrade, query_of
from podsched.serve.server.rest.options import flag, number
from podsched.serve.server.rest.proxy_targets import asked_of, pod_port, pods_behind
from podsched.serve.server.rest.routes import Target

#: Max streams of one user and of this server. Each holds up to 0.4 MB: what its two connections
#: and their TLS buffer.
MAX_OF_USER: Final = 100
MAX_STREAMS: Final = 400
_RETRY_AFTER: Final = 1.0
#: Seconds that a log may be followed.
_LOG_SECONDS: Final = 24 * 3600.0
#: Seconds to wait for the head of a log that is followed: a kubelet sends it with the first line.
_FOLLOW_SECONDS: Final = 5.0
#: Max characters of the path and query that a kubelet is asked for.
_LONGEST_TARGET: Final = 16 << 10

#: Headers of an upgrade that are passed on, in both directions.
_OF_UPGRADES: Final = re.compile(
    r"connection|upgrade|x-stream-protocol-version|sec-websocket-\w+", re.IGNORECASE
)
#: Headers of a proxied request and of its answer that are passed on.
_OF_REQUESTS: Final = frozenset({"accept", "content-type", "range", "if-none-match"})
_OF_ANSWERS: Final = frozenset({"etag", "last-modified", "content-range", "content-encoding"})
_PROXIED_PATH: Final = re.compile(r"/api/v1/(?:[^/?]+/){2,4}?proxy(?P<rest>[/?].*)?")
#: Sent with what nodes and pods answer: a browser runs no script of it as the API server's.
_SANDBOX: Final = {"Content-Security-Policy": "sandbox"}

_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

Verb = Callable[[Target, Request, ExitStack], Awaitable[Answer]]
"""Answers a request for one subresource. The ExitStack closes what is open once that is sent."""


class Proxying:
    """Answers requests that go to kubelets. Methods raise ApiError."""

    def __init__(self, core: ServerCore, kubelets: KubeletClient) -> None:
        self._object = core.storage.message
        self._kubelets = kubelets
        self._open: Counter[str] = Counter()
        self._verbs: dict[str, Verb] = {
            "log": self._log,
            "exec": self._exec,
            "attach": self._attach,
            "portforward": self._port_forward,
            "proxy": self._proxy,
        }

    async def answer(self, target: Target, request: Request, held: ExitStack) -> Answer:
        """Answer a request for a subresource at a kubelet; held: the stack of ``admitted``."""
        try:
            return await self._verbs[target.subresource](target, request, held)
        except KubeletError as error:
            raise _failed(error) from None

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

    # ------------------------------------------------------------------ pods

    async def _log(self, target: Target, request: Request, held: ExitStack) -> Answer:
        rights().check("get", KINDS["Pod"], target.namespace, target.name, "log")
        options = _log_options(request.query, target.name)
        pod = await self._pod(target)
        container = _container(pod, request.query.get("container", ""))
        if not pod.spec.node_name:
            return Answer(b"", 204, TEXT)
        endpoint = await self._kubelet_of(pod)
        path = f"{_path('containerLogs', target, container)}?{urlencode(options)}"
        if "follow" not in options:
            response = await self._kubelets.request(endpoint, "GET", path)
            held.callback(response.close)
            await check_answer(endpoint, response)
            return _streamed(_pieces(endpoint, response))
        asked = self._kubelets.request(endpoint, "GET", path, seconds=_LOG_SECONDS)
        asking = asyncio.create_task(asked, name="ask for a log")
        held.callback(_end, asking)
        await asyncio.wait([asking], timeout=_FOLLOW_SECONDS)
        if asking.done():
            await check_answer(endpoint, asking.result())
        return _streamed(_pieces_later(endpoint, asking))

    async def _exec(self, target: Target, request: Request, held: ExitStack) -> Answer:
        asked = query_of(request.target.partition("?")[2])
        options = _stream_options(asked)
        commands = asked.get("command", [])
        if not any(commands):
            raise _invalid("PodExecOptions", target.name, "command: Required value")
        options += [("command", part) for part in commands]
        return await self._upgraded("exec", target, request, options, held)

    async def _attach(self, target: Target, request: Request, held: ExitStack) -> Answer:
        options = _stream_options(query_of(request.target.partition("?")[2]))
        return await self._upgraded("attach", target, request, options, held)

    async def _port_forward(self, target: Target, request: Request, held: ExitStack) -> Answer:
        # The ports of a WebSocket; SPDY names them in its streams.
        ports = query_of(request.target.partition("?")[2]).get("ports", [])
        for text in ports:
            if not all(p.isdecimal() and 0 < int(p) < 1 << 16 for p in text[:6000].split(",")):
                raise bad_request(f"ports: {text[:100]!r} is not a port from 1 to 65535")
        options = [("port", port) for text in ports for port in text.split(",")]
        return await self._upgraded("portForward", target, request, options, held)

    async def _upgraded(
        self,
        action: str,
        target: Target,
        request: Request,
        options: list[tuple[str, str]],
        held: ExitStack,
    ) -> Answer:
        """Switch protocols with a pod's kubelet."""
        for verb in {target.verb, "create"}:
            kind = target.resource.kind
            rights().check(verb, kind, target.namespace, target.name, target.subresource)
        if "upgrade" not in request.headers:
            raise bad_request("you must specify at least 1 of SPDY and WebSocket: Upgrade required")
        pod = await self._pod(target)
        container = (
            "" if action == "portForward" else _container(pod, request.query.get("container", ""))
        )
        endpoint = await self._kubelet_of(pod)
        path = f"{_path(action, target, container)}?{urlencode(options)}"
        headers = [(n, v) for n, v in request.header_lines if _OF_UPGRADES.fullmatch(n)]
        head, stream = await self._kubelets.upgrade(endpoint, request.method, path, headers)
        held.callback(stream.abort)
        return Answer(Upgrade(_switching(head), stream), 101)

    async def _pod(self, target: Target) -> Pod:
        """Return a pod. The right to its subresource is enough."""
        found = await self._object(target.resource.kind, target.namespace, target.name)
        return cast(Pod, found)

    async def _kubelet_of(self, pod: Pod) -> Endpoint:
        if not pod.spec.node_name:
            raise bad_request(f"pod {pod.metadata.name} does not have a host assigned")
        return await self._endpoint(await self._node(pod.spec.node_name), pod.metadata.name)

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
            pod = await self._pod(replace(target, name=name))
            return await self._proxy_pod(pod, pod_port(pod, port), tls, request, held)
        service = cast(Service, await self._object(kind, target.namespace, name))
        endpoints = await self._endpoints(target.namespace, name)
        chosen, number = random.choice(pods_behind(service, endpoints, port))
        pod = cast(Pod, await self._object(KINDS["Pod"], target.namespace, chosen))
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
        endpoint = await self._kubelet_of(pod)
        path = f"/portForward/{quote(namespace, safe='')}/{quote(name, safe='')}?port={port}"
        where = PodPort(endpoint, name, port, path, tls)
        connection = await open_port(self._kubelets, where)
        held.callback(connection.close)
        response = await connection.request(
            request.method, _proxied(request), _headers(request), request.body or None
        )
        return _proxied_answer(where, response, held)

    async def _proxy_node(self, target: Target, request: Request, held: ExitStack) -> Answer:
        node = await self._node(_name_of(target.name))
        _check_port(node, target.name)
        endpoint = await self._endpoint(node)
        response = await self._kubelets.request(
            endpoint,
            request.method,
            _proxied(request),
            headers=_headers(request),
            body=request.body or None,
        )
        return _proxied_answer(endpoint, response, held)

    async def _node(self, name: str) -> Node:
        return cast(Node, await self._object(KINDS["Node"], "", name))

    async def _endpoint(self, node: Node, pod: str = "") -> Endpoint:
        """Return where a node's kubelet is. Raises RestError if nothing runs on the node."""
        name = node.metadata.name
        if is_hollow(node):
            said = f"node {name} is a {HOLLOW_TEXT}"
            where = f"pod {pod} is on node {name}, which is a {HOLLOW_TEXT}, so it has no logs and "
            raise bad_request(f"{where}no processes" if pod else f"{said}, so it has no kubelet")
        return await self._kubelets.endpoint(node)


def _failed(error: KubeletError) -> ApiError:
    """Return the answer for a failure at a kubelet."""
    message = str(error)
    if error.status == 400:
        return bad_request(message)
    if error.status == 404:
        return RestError(404, "NotFound", message, code=StatusCode.NOT_FOUND)
    if error.status:
        return RestError(500, "InternalError", message, code=StatusCode.INTERNAL)
    return unavailable(message)


def _invalid(kind: str, name: str, why: str) -> RestError:
    return RestError(422, "Invalid", f'{kind} "{name}" is invalid: {why}')


def _log_options(query: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the query for a kubelet of the options of a log. Raises RestError."""
    found: dict[str, str] = {}
    for option in ("follow", "previous", "timestamps"):
        if flag(query, option):
            found[option] = "true"
    for option, least in (("sinceSeconds", 1), ("tailLines", 0), ("limitBytes", 1)):
        value = number(query, option)
        if value is None:
            continue
        if value < least:
            must = "greater than 0" if least else "greater than or equal to 0"
            why = f"{option}: Invalid value: {value}: must be {must}"
            raise _invalid("PodLogOptions", name, why)
        found[option] = str(value)
    if query.get("sinceTime"):
        if "sinceSeconds" in found:
            why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            raise _invalid("PodLogOptions", name, f"sinceSeconds: Forbidden: {why}")
        found["sinceTime"] = query["sinceTime"]
    if query.get("stream"):
        found["stream"] = query["stream"]
    if flag(query, "insecureSkipTLSVerifyBackend"):
        raise bad_request(
            "insecureSkipTLSVerifyBackend is not served: kubelets are verified if "
            "the API server has --kubelet-certificate-authority"
        )
    return found


def _stream_options(asked: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """Return the query for a kubelet of the options of exec and attach."""
    names = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
    first = {name: values[0] for name, values in asked.items()}
    return [(theirs, "1") for name, theirs in names if flag(first, name)]


def _container(pod: Pod, asked: str) -> str:
    """Return the container that is meant. Raises RestError 400 as in Kubernetes."""
    spec, name = pod.spec, pod.metadata.name
    inits = [c.name for c in spec.init_containers]
    names = [c.name for c in spec.containers]
    ephemeral = [c.name for c in spec.ephemeral_containers]
    if asked:
        if asked not in (*names, *inits, *ephemeral):
            raise bad_request(f"container {asked[:253]} is not valid for pod {name}")
        return asked
    default = pod.metadata.annotations.get(_DEFAULT_CONTAINER)
    if default in names:
        return str(default)
    if len(names) == 1:
        return names[0]
    choice = f"choose one of: [{' '.join(names)}]"
    if inits:
        choice += f" or one of the init containers: [{' '.join(inits)}]"
    raise bad_request(f"a container name must be specified for pod {name}, {choice}")


def _path(action: str, target: Target, container: str) -> str:
    """Return the path of an action at the kubelet."""
    parts = (action, target.namespace, target.name, *([container] if container else []))
    return "".join(f"/{quote(part, safe='')}" for part in parts)


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


def _switching(head: bytes) -> bytes:
    """Return the head of an answer to an upgrade, with the headers of the upgrade only."""
    lines = head.decode("latin-1").split("\r\n")
    kept = [line for line in lines[1:] if _OF_UPGRADES.fullmatch(line.partition(":")[0])]
    return "\r\n".join(["HTTP/1.1 101 Switching Protocols", *kept, "", ""]).encode("latin-1")


def _end(asking: asyncio.Task[aiohttp.ClientResponse]) -> None:
    """Close the answer that a task waits for, or has."""
    if not asking.done():
        asking.cancel()
    elif not asking.cancelled() and asking.exception() is None:
        asking.result().close()


def _proxied(request: Request) -> str:
    """Return path and query of a request below the proxy, unchanged."""
    found = _PROXIED_PATH.fullmatch(request.target)
    rest = found["rest"] if found else None
    return rest if rest and rest[0] == "/" else f"/{rest or ''}"


def _headers(request: Request) -> Headers:
    return [(n, v) for n, v in request.header_lines if n.lower() in _OF_REQUESTS]


def _proxied_answer(
    where: Endpoint | PodPort, response: aiohttp.ClientResponse, held: ExitStack
) -> Answer:
    held.callback(response.close)
    shown = {n: v for n, v in response.headers.items() if n.lower() in _OF_ANSWERS}
    kind = response.headers.get("Content-Type", "application/octet-stream")
    pieces = _pieces(where, response)
    return Answer(pieces, response.status, kind, shown | _SANDBOX, _LOG_SECONDS, patient=True)


def _streamed(pieces: AsyncGenerator[bytes, None]) -> Answer:
    return Answer(pieces, 200, TEXT, {}, _LOG_SECONDS, patient=True)


async def _pieces(
    where: Endpoint | PodPort, response: aiohttp.ClientResponse
) -> AsyncGenerator[bytes, None]:
    """Yield the body of an answer as it comes. Raises ApiError if it breaks off."""
    try:
        # The first, empty piece releases the call's seat before the kubelet has sent anything.
        yield b""
        async for piece in response.content.iter_any():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise unavailable(f"{where}: the answer broke off: {error}") from None


async def _pieces_later(
    endpoint: Endpoint, asking: asyncio.Task[aiohttp.ClientResponse]
) -> AsyncGenerator[bytes, None]:
    """Yield the body of an answer that may still have to begin. Raises ApiError."""
    try:
        # As in ``_pieces``.
        yield b""
        response = await asking
        await check_answer(endpoint, response)
        async with contextlib.aclosing(_pieces(endpoint, response)) as pieces:
            async for piece in pieces:
                yield piece
    except KubeletError as error:
        raise _failed(error) from None
