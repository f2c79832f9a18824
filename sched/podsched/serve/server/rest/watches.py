"""Answers watches in the REST API: streams of JSON lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from podsched.api.reasons import StatusReason
from podsched.serve.server.change_ring import Change
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest.failures import expired, status_of
from podsched.serve.server.rest.fields import checked_fields
from podsched.serve.server.rest.media import Form, form_of
from podsched.serve.server.rest.messages import Answer, Request, encode
from podsched.serve.server.rest.options import ListOptions
from podsched.serve.server.rest.resources import Resource
from podsched.serve.server.rest.routes import Target
from podsched.serve.server.rest.tables import Table, WatchedTables
from podsched.serve.server.rest.views import EncodedObjects, content_of, partial, typed
from podsched.serve.server.scope import Scope
from podsched.v1 import api_pb2 as v1

#: Seconds after which a watch without timeoutSeconds ends: kube-apiserver's default minimum.
LONGEST: Final = 1800
#: Seconds between bookmarks of a quiet watch.
_BOOKMARK_SECONDS: Final = 10.0
_NAMES: Final[dict[int, bytes]] = {
    v1.ADDED: b"ADDED",
    v1.MODIFIED: b"MODIFIED",
    v1.DELETED: b"DELETED",
}
_INITIAL_END: Final = {"annotations": {"k8s.io/initial-events-end": "true"}}


class _Form(NamedTuple):
    """The form of a watch's objects.

    show: encodes an object with the given resourceVersion, with its own for 0. mark: returns what a
    bookmark shows, from an object that has only its metadata.
    """

    show: Callable[[Entry, int], bytes]
    mark: Callable[[Mapping[str, Any]], Mapping[str, Any]]


class JsonEncoding:
    """Lines of JSON; see ``serve.server.watching.Encoding``."""

    idle = _BOOKMARK_SECONDS
    divisible = True

    def __init__(self, form: _Form, *, bookmarks: bool, initial_end: bool) -> None:
        self._show = form.show
        self._mark = form.mark
        self._bookmarks = bookmarks
        self._initial_end = initial_end

    def added(self, entry: Entry) -> bytes:
        return _line(b"ADDED", self._show(entry, 0))

    def event(self, scope: Scope, change: Change) -> bytes | None:
        found = scope.event_type(change)
        if found is None:
            return None
        return _line(_NAMES[found], self._show(change.shown_as(found), change.revision))

    def response(self, events: Sequence[bytes], revision: int) -> bytes:
        return b"".join(events)

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes:
        if not self._bookmarks or (initial_events_end and not self._initial_end):
            return b""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata |= _INITIAL_END
        content = {"metadata": {**metadata, "creationTimestamp": None}}
        return _line(b"BOOKMARK", encode(self._mark(content)))


def _line(event_type: bytes, shown: bytes) -> bytes:
    return b'{"type":"' + event_type + b'","object":' + shown + b"}\n"


async def _with_errors(stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield a watch, then the error that ends it as an event; a server's stop adds no event."""
    async with aclosing(stream):
        try:
            async for piece in stream:
                yield piece
        except ApiError as error:
            if error.reason is not StatusReason.SHUTTING_DOWN:
                yield _line(b"ERROR", encode(status_of(_as_watched(error))))


def _as_watched(error: ApiError) -> ApiError:
    """Return an error as Kubernetes words it in a watch."""
    if error.reason is StatusReason.COMPACTED:
        asked, oldest = error.metadata["asked"], error.metadata["oldest"]
        return expired(f"too old resource version: {asked} ({oldest})")
    return error


class Watches:
    """Answers watch requests."""

    def __init__(self, core: ServerCore, encoded: EncodedObjects) -> None:
        self._core = core
        self._encoded = encoded

    async def watch(self, target: Target, request: Request) -> Answer:
        """Answer with a stream of events. Raises ApiError."""
        resource = target.resource
        form = form_of(request.headers.get("accept"), Form.TABLE, Form.PARTIAL, Form.PARTIAL_LIST)
        options = ListOptions.of(request.query, watch=True)
        initial = options.initial_events or (options.initial_events is None and not options.version)
        wanted = v1.WatchRequest(
            kinds=[resource.kind.name],
            namespace=target.namespace,
            label_selector=options.labels,
            field_selector=checked_fields(resource, options.fields),
            from_revision=0 if initial else options.version or 0,
            send_initial_events=initial,
        )
        encoding = JsonEncoding(
            self._form(resource, form, request),
            bookmarks=options.bookmarks,
            initial_end=bool(options.initial_events),
        )
        stream = self._core.watcher.watch(wanted, encoding)
        return Answer(_with_errors(stream), seconds=float(options.timeout or LONGEST))

    def _form(self, resource: Resource, form: Form, request: Request) -> _Form:
        if form is Form.TABLE:
            tables = WatchedTables(Table(resource, request.query))
            return _Form(lambda entry, revision: encode(tables.of(entry, revision)), tables.mark)
        if form in (Form.PARTIAL, Form.PARTIAL_LIST):
            return _Form(
                lambda entry, revision: encode(partial(content_of(resource, entry, revision))),
                partial,
            )
        return _Form(
            lambda entry, revision: self._encoded.of(resource, entry, revision),
            lambda content: typed(resource, content),
        )
