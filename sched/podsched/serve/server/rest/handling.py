"""Dispatches each REST request to the method that answers it, within the pipeline of all calls."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from podsched.api.pod_parts import POD_PARTS
from podsched.api.reasons import StatusCode
from podsched.lib.network import is_ip_address, is_loopback
from podsched.serve.server.access.authentication import no_authentication
from podsched.serve.server.access.identity import Authentication, caller
from podsched.serve.server.access.impersonation import impersonated
from podsched.serve.server.core import ServerCore
from podsched.serve.server.kubelets.client import KubeletClient
from podsched.serve.server.kubelets.usage import KubeletUsage
from podsched.serve.server.methods import PASSED_ON
from podsched.serve.server.pipeline import Call, Pipeline
from podsched.serve.server.rest import openapi
from podsched.serve.server.rest.deleting import Deleting
from podsched.serve.server.rest.discovery import ALL_GROUPS, discovery_answer, version
from podsched.serve.server.rest.failures import (
    RestError,
    bad_request,
    check_method,
    no_such_resource,
    page_not_found,
)
from podsched.serve.server.rest.messages import LISTS, Answer, Request
from podsched.serve.server.rest.probes import Probes
from podsched.serve.server.rest.proxying import Proxying
from podsched.serve.server.rest.reading import Reading
from podsched.serve.server.rest.resource_metrics import ResourceMetrics, is_of_metrics
from podsched.serve.server.rest.resources import GROUP_NAMES
from podsched.serve.server.rest.reviews import RestReviews
from podsched.serve.server.rest.routes import Target, group_of, target_of
from podsched.serve.server.rest.subresources import Subresources
from podsched.serve.server.rest.token_requests import TokenRequests
from podsched.serve.server.rest.views import EncodedObjects
from podsched.serve.server.rest.visibility import PendingSource, Visibility
from podsched.serve.server.rest.watches import Watches
from podsched.serve.server.rest.writing import Writing
from podsched.v1 import api_pb2 as v1

if TYPE_CHECKING:
    from podsched.serve.server.access.service_accounts import ServiceAccountTokens

Send = Callable[[Answer, Call], Awaitable[None]]
"""Sends an answer as part of a call."""

Verb = Callable[[Target, Request], Awaitable[Answer]]

#: Headers that only browsers send. Without authentication, any web page opened on this machine
#: could otherwise write objects.
_BROWSERS: Final = frozenset({"origin", "sec-fetch-site"})
_NO_BROWSERS: Final = "requests of web pages are refused where callers are not authenticated"
_ANOTHER_HOST: Final = (
    "the Host header has the name of another machine: where callers are not authenticated, use "
    "localhost or an address"
)
_ANOTHER_SITE: Final = (
    "requests of other sites' web pages are refused: the browser has added the client certificate"
)
_NO_IMPERSONATION: Final = (
    "impersonation is not served where callers are not authenticated: every caller has all rights"
)
#: Subresources that are a part of their object, which is answered.
_OF_PARTS: Final = ("status", "approval", *POD_PARTS)
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Max characters of a path and query in the audit log.
_LONGEST_URI: Final = 2000
#: The method in metrics and the audit log for requests that concern no object.
DISCOVERY: Final = "Discovery"


class Handler:
    """Answers requests, each within a ``Call``."""

    def __init__(
        self,
        core: ServerCore,
        pipeline: Pipeline,
        probes: Probes,
        kubelets: KubeletClient | None = None,
        tokens: ServiceAccountTokens | None = None,
        pending: PendingSource | None = None,
    ) -> None:
        """kubelets: None if nothing is passed on to them; tokens: None if none are issued.

        pending: the source of the workloads that wait in queues; None if that is not served.
        """
        self._pipeline = pipeline
        self._probes = probes
        self._open = pipeline.authenticate is no_authentication
        self._reviews = RestReviews(core, pipeline.authenticate, tokens)
        self._visibility = Visibility(core, pending)
        self._tokens = TokenRequests(core, tokens)
        self._proxying = Proxying(core, kubelets) if kubelets is not None else None
        self._metrics = ResourceMetrics(core, KubeletUsage(kubelets)) if kubelets else None
        # Shared: watches send the same bytes as the answer to the write.
        encoded = EncodedObjects()
        reading = Reading(core, encoded)
        writing, deleting = Writing(core, reading), Deleting(core, reading)
        below = Subresources(core)
        self._verbs: dict[tuple[str, str], Verb] = {
            ("get", ""): reading.get,
            ("list", ""): reading.list_,
            ("watch", ""): Watches(core, encoded).watch,
            ("create", ""): writing.create,
            ("update", ""): writing.update,
            ("patch", ""): writing.patch,
            ("delete", ""): deleting.delete,
            ("deletecollection", ""): deleting.delete_collection,
            **{("get", name): reading.get for name in _OF_PARTS},
            **{("update", name): writing.update for name in _OF_PARTS},
            **{("patch", name): writing.patch for name in _OF_PARTS},
            ("update", "finalize"): writing.update,
            ("create", "binding"): below.bind,
            ("create", "eviction"): below.evict,
            ("create", "token"): self._tokens.create,
            ("get", "scale"): below.get_scale,
            ("update", "scale"): below.set_scale,
            ("patch", "scale"): below.set_scale,
        }

    async def handle(self, request: Request, send: Send) -> None:
        """Answer a request. Raises ApiError for a failure to be answered with a ``Status``."""
        segments = [part for part in request.path.split("/") if part]
        found = self._route(request, segments)
        name = found.call if isinstance(found, Target) else DISCOVERY
        if self._open and not _BROWSERS.isdisjoint(request.headers):
            raise _forbidden(_NO_BROWSERS)
        if self._open and request.over_loopback and _is_of_another(request.headers.get("host", "")):
            raise _forbidden(_ANOTHER_HOST)
        async with Call(name, request, self._pipeline, request.target[:_LONGEST_URI]) as call:
            if isinstance(found, Target):
                call.request = _named(found)
            await call.arrive()
            self._identify(request, call)
            # Before the call takes a seat: a client may take long to send its body.
            read = _nothing if request.method in _WITHOUT_BODY else request.receive
            request.body = await call.usage.receive(read)
            await call.enter(len(request.body))
            call.usage.charge(request.cost())
            if isinstance(found, Target) and found.subresource in PASSED_ON:
                await self._pass_on(found, request, call, send)
                return
            _check_values(request)
            if isinstance(found, Exception):
                # Raised within the call, so that it is authenticated, limited and audited.
                raise found
            if isinstance(found, Target):
                answer = await self._verbs[found.verb, found.subresource](found, request)
            else:
                answer = await self._of_no_object(request, segments, call)
            if isinstance(answer.body, bytes):
                call.usage.begin_answer(len(answer.body))
                await send(answer, call)
                return
            with call.usage.stream():
                await send(answer, call)

    def _identify(self, request: Request, call: Call) -> None:
        """Check that the caller itself asks; go on as the user whom it names. Raises ApiError."""
        by_certificate = caller().how is Authentication.CERTIFICATE
        if by_certificate and _is_of_another_site(request.headers):
            raise _forbidden(_ANOTHER_SITE)
        another = impersonated(request.header_lines, caller())
        if another is not None:
            if self._open:
                raise _forbidden(_NO_IMPERSONATION)
            call.act_as(another)

    async def _pass_on(self, target: Target, request: Request, call: Call, send: Send) -> None:
        """Answer a request with the answer of a kubelet."""
        if self._proxying is None:
            raise no_such_resource()
        # A kubelet may take long to answer.
        call.usage.leave_seat()
        with self._proxying.admitted() as held:
            await send(await self._proxying.answer(target, request, held), call)

    def _route(self, request: Request, segments: Sequence[str]) -> Target | Exception | None:
        """Return a request's target, the error if it has none, or None if it concerns no object."""
        below = group_of(segments) if segments else None
        if below is None:
            return None
        group, served, rest = below
        if group and group not in GROUP_NAMES:
            return None
        try:
            return target_of(request, group, served, rest)
        except Exception as error:
            return error

    async def _of_no_object(self, request: Request, segments: Sequence[str], call: Call) -> Answer:
        """Answer a request that concerns no stored object. Raises ApiError."""
        if self._proxying is not None and self._metrics is not None and is_of_metrics(segments):
            # Kubelets may take long to answer.
            call.usage.leave_seat()
            with self._proxying.admitted():
                return await self._metrics.answer(request, segments)
        return (
            await self._reviews.answer(request, segments)
            or await self._visibility.answer(request, segments)
            or self._other(request, segments)
        )

    def _other(self, request: Request, segments: Sequence[str]) -> Answer:
        """Answer a request that concerns no object: discovery, OpenAPI, probes. Raises ApiError."""
        if not segments:
            return page_not_found()
        if segments == ["version"]:
            check_method(request, "GET", "HEAD")
            return version()
        answer = (
            discovery_answer(request, segments)
            or openapi.answer(segments, request.headers.get("accept", ""))
            or self._probes.answer(request, segments)
            or self._tokens.discovery(request, segments)
        )
        if answer is not None:
            return answer
        if segments[0] == "api" or (segments[0] == "apis" and segments[1] in ALL_GROUPS):
            raise no_such_resource()
        return page_not_found()


def _named(target: Target) -> v1.GetRequest:
    """Return what metrics and the audit log read of a request: the object in its path."""
    kind = target.resource.kind.name
    return v1.GetRequest(kind=kind, namespace=target.namespace, name=target.name)


async def _nothing() -> bytes:
    return b""


def _forbidden(why: str) -> RestError:
    return RestError(403, "Forbidden", why, {}, code=StatusCode.PERMISSION_DENIED)


def _check_values(request: Request) -> None:
    """Raise ApiError for a parameter with several different values.

    Kubernetes uses the first one, but the client may have meant another.
    """
    for name, values in request.values.items():
        if name not in LISTS and len({*values}) > 1:
            raise bad_request(f"{name[:100]}: several different values in the query, give one")


def _is_of_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a browser reports that the web page of another site makes a request.

    With the client certificate of the browser's user, it could write objects and run commands.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    # Only browsers send it: older ones alone, and for WebSockets.
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")


def _is_of_another(host: str) -> bool:
    """Return whether a Host header has a full name that is not this machine's.

    A web page can have its own name point to 127.0.0.1 (DNS rebinding). Then browsers take this
    server for the page's, and add none of the headers above to a GET.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return True
    if "." not in name or is_loopback(name) or name.endswith(".localhost"):
        return False
    return not is_ip_address(name) and name != socket.gethostname().lower()
