"""The page over HTTP: its files, the state, the stream of deltas, details, and actions.

GET  /                      the page
GET  /static/FILE           its scripts, styles and images
GET  /api/state             the whole state as of now
GET  /api/stream?after=ID   server-sent events: deltas after a state or delta
GET  /api/node/NAME, /api/pod/NAMESPACE/NAME, /api/podgroup/NAMESPACE/NAME
GET  /api/pods?find=TEXT&namespace=NAME
GET  /api/explain/NAMESPACE/NAME?changes&kind=PodGroup
GET  /api/queues            cohorts and queues as a tree
GET  /api/rights            what the caller may do
POST /api/do/VERB/NAME      cordon, uncordon, delete
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import orjson
from aiohttp import hdrs, web

from podsched.ask.web.access import (
    HEADERS,
    OWN_HEADER,
    Act,
    Caller,
    Explainer,
    Reply,
    RestApi,
    act,
    foreign_site_reason,
    own_names,
    refusal,
    review,
)
from podsched.ask.web.board import Board
from podsched.ask.web.details import find_pods, node_details, pod_details, pod_group_details
from podsched.ask.web.feed import Feed, TooManyBrowsersError
from podsched.ask.web.sources import Source
from podsched.lib.tls_contexts import TlsFiles
from podsched.telemetry.http_server import (
    HttpServer,
    address_of,
    certificate_of,
    peer_of,
    serve_application,
)
from podsched.telemetry.logs import get_logger
from podsched.v1.scheduling_pb2 import ExplainRequest

_log = get_logger("web")

_SHUTDOWN_SECONDS = 1.0
#: Seconds in which a browser must read a message, otherwise its stream ends.
_UNREAD_SECONDS = 30.0
#: Seconds after which the rights of a stream's caller are checked again.
_ASK_AGAIN = 30.0
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
#: Resources, each with its API group, that the caller must be permitted to list to see the page.
_READ: Final = (("nodes", ""), ("pods", ""), ("events", ""), ("podgroups", "scheduling.k8s.io"))
_MAY: Final = {
    "cordon": ("patch", "nodes", ""),
    "delete": ("delete", "pods", ""),
    "explain": ("get", "pods", "explain"),
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class PageServices:
    """Services of the page. api: None if it is read-only."""

    api: RestApi | None = None
    explainer: Explainer | None = None


class _Access:
    """Asks the API server what a caller may do."""

    def __init__(self, api: RestApi | None, certified: bool) -> None:
        """``certified``: whether to require certificates if there is no ``api``."""
        self.api = api
        self._certified = certified

    async def refused(self, request: web.Request) -> web.Response | None:
        """Return why the caller may not read; None if they may."""
        if self.api is None:
            if self._certified and not certificate_of(request):
                return refusal(401, "this page needs a client certificate")
            return None
        for resource, group in _READ:
            reply = await self.ask(request, review("list", resource, group=group))
            if reply.status >= 400:
                return _json(reply.body, reply.status)
            if not _allowed(reply):
                return refusal(403, f"you may not list {resource} of all namespaces")
        return None

    async def ask(self, request: web.Request, asked: Act) -> Reply:
        """Pass an action on in the caller's name."""
        assert self.api is not None
        return await self.api.ask(_caller(request), asked)

    async def allows(self, request: web.Request, asked: Act) -> bool:
        return _allowed(await self.ask(request, asked))


class Page:
    """The page's handlers."""

    def __init__(self, feed: Feed, source: Source, services: PageServices, certified: bool) -> None:
        self._feed = feed
        self._source = source
        self._access = _Access(services.api, certified)
        self._explainer = services.explainer
        self._files = _read_files()
        #: Held by a search: 300 clients that searched at once held up the event loop for 0.16 s.
        self._searching = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/", self._file),
            web.get("/static/{name}", self._file),
            web.get("/api/state", self._reading(self._state)),
            # aiohttp would send the stream as the answer to HEAD, too.
            web.get("/api/stream", self._reading(self._stream), allow_head=False),
            web.get("/api/node/{name}", self._details(node_details)),
            web.get("/api/pod/{namespace}/{name}", self._details(pod_details)),
            web.get("/api/podgroup/{namespace}/{name}", self._details(pod_group_details)),
            web.get("/api/pods", self._reading(self._pods)),
            web.get("/api/queues", self._reading(self._queues)),
            web.get("/api/rights", self._reading(self._rights)),
            web.get("/api/explain/{namespace}/{name}", self._reading(self._explain)),
            web.post("/api/do/{verb}/{name:.+}", self._do),
        ]

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info.get("name", "index.html"))
        if found is None:
            return refusal(404, "there is no such file")
        body, content_type = found
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    def _reading(self, handler: _Handler) -> _Handler:
        """Return the handler for callers who may read."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._access.refused(request) or await handler(request)

        return handle

    async def _state(self, request: web.Request) -> web.Response:
        state = await self._feed.state()
        if "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
            response = _json(state.compressed)
            response.headers[hdrs.CONTENT_ENCODING] = "gzip"
            response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
            return response
        return _json(state.plain)

    def _one(self, request: web.Request) -> str:
        """Return what all browsers of one caller have in common."""
        caller, api = _caller(request), self._access.api
        # Nobody checks a token where callers are not authenticated.
        token = caller.authorization if api is not None and api.authenticates else ""
        return token or caller.certificate.decode() or address_of(request)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        messages = self._feed.deltas(request.query.get("after", ""), self._one(request))
        try:
            first = await anext(messages)
        except TooManyBrowsersError:
            return refusal(503, "too many browsers look at this page already")
        response = web.StreamResponse(headers={**HEADERS, hdrs.CONTENT_TYPE: "text/event-stream"})
        clock = asyncio.get_running_loop().time
        ask_at = clock() + _ASK_AGAIN
        try:
            await response.prepare(request)
            await response.write(first)
            async for message in messages:
                if clock() >= ask_at:
                    if await self._access.refused(request) is not None:
                        break
                    ask_at = clock() + _ASK_AGAIN
                if message:
                    async with asyncio.timeout(_UNREAD_SECONDS):
                        await response.write(message)
        except (ConnectionError, TimeoutError):
            pass  # the browser has gone, or does not read
        finally:
            await messages.aclose()
        return response

    def _details(self, read: Callable[[Source, Board, str], dict[str, Any] | None]) -> _Handler:
        """Return the handler that answers with the details of one object."""

        async def handle(request: web.Request) -> web.Response:
            key = "/".join(request.match_info.values())
            found = read(self._source, await self._feed.followed(), key)
            if found is None:
                return refusal(404, f"{key} is not there any more")
            return _json(orjson.dumps(found))

        return self._reading(handle)

    async def _pods(self, request: web.Request) -> web.Response:
        board = await self._feed.followed()
        text, namespace = (request.query.get(name, "") for name in ("find", "namespace"))
        async with self._searching:
            found = await find_pods(self._source, board, text.strip(), namespace)
        return _json(orjson.dumps(found))

    async def _queues(self, request: web.Request) -> web.Response:
        """Answer the tree of queues; an empty one to callers who may not list ClusterQueues."""
        asked = review("list", "clusterqueues", group="kueue.x-k8s.io")
        found: dict[str, Any] = {"queues": [], "count": 0}
        if self._access.api is None or await self._access.allows(request, asked):
            found = await (await self._feed.followed()).queues.document()
        return _json(orjson.dumps(found))

    async def _rights(self, request: web.Request) -> web.Response:
        """Answer the caller's rights, so that the page offers only these actions."""
        may = {"explain": self._explainer is not None}
        for verb, (right, resource, sub) in _MAY.items() if self._access.api is not None else ():
            may[verb] = await self._access.allows(request, review(right, resource, sub))
        return web.json_response(may)

    async def _explain(self, request: web.Request) -> web.Response:
        if self._explainer is None:
            return refusal(404, "nothing here can explain a pod")
        asked = ExplainRequest(
            kind=request.query.get("kind", "Pod"),
            changes="changes" in request.query,
            **request.match_info,
        )
        reply = await self._explainer.explain(_caller(request), asked)
        return _json(reply.body, reply.status)

    async def _do(self, request: web.Request) -> web.Response:
        if self._access.api is None:
            return refusal(404, "a scheduler's page changes nothing: open an API server's")
        if OWN_HEADER not in request.headers:
            return refusal(403, f"the header {OWN_HEADER} is missing")
        asked = act(request.match_info["verb"], request.match_info["name"])
        if asked is None:
            return refusal(404, "there is no such action")
        reply = await self._access.ask(request, asked)
        return _json(reply.body, reply.status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _caller(request: web.Request) -> Caller:
    authorization = request.headers.get(hdrs.AUTHORIZATION, "")
    return Caller(authorization, certificate_of(request), peer_of(request))


def _allowed(reply: Reply) -> bool:
    return reply.status < 400 and bool(orjson.loads(reply.body)["status"]["allowed"])


def _read_files() -> dict[str, tuple[bytes, str]]:
    """Return the page's files by name with their content types."""
    folder = files("podsched.ask.web") / "static"
    found = {}
    for file in folder.iterdir():
        kind = _TYPES.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            found[file.name] = file.read_bytes(), kind
    return found


async def serve_page(
    feed: Feed,
    source: Source,
    host: str,
    port: int,
    *,
    services: PageServices | None = None,
    tls: TlsFiles | None = None,
    demanding: bool = False,
) -> HttpServer:
    """Serve the page; port 0 picks a free one.

    Raises ``HttpServerError`` if the address cannot be used, ``CertificateError`` for the files.
    """
    certified = tls is not None and (demanding or bool(tls.authorities))
    app = web.Application(middlewares=[_guard(own_names(host))], client_max_size=1 << 16)
    app.add_routes(Page(feed, source, services or PageServices(), certified).routes())
    return await serve_application(
        app,
        host,
        port,
        tls,
        _log,
        what="the page",
        shutdown_seconds=_SHUTDOWN_SECONDS,
        cancel_handlers=True,
    )


def _guard(hosts: frozenset[str]) -> Any:
    """Return the middleware that refuses requests of other sites, and adds headers to responses."""

    @web.middleware
    async def answer(request: web.Request, handler: _Handler) -> web.StreamResponse:
        reason = foreign_site_reason(request, hosts)
        if reason:
            response: web.StreamResponse = refusal(403, reason)
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = refusal(error.status, error.reason)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    return answer
