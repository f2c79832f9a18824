"""Lists one kind and watches it from there, as client-go's Reflector.

    listing --watch-list: ADDED..., BOOKMARK initial-events-end--> watching
       ^    '--refused, or not whole: list, page by page-----------^   |
       |                                                               |--ended, broke: again from
       |--410 Expired (as an answer, or as an ERROR event)-------------|  the last resourceVersion
       '--other answers of failure, three times without news-----------'--> watching

Guarantees: the sink gets a whole list, then every change after it once and in order. A
resourceVersion is an opaque string. All failures are retried, with growing pauses. An alpha kind
that the cluster does not serve counts as empty, and is requested again every minute.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, Protocol

import orjson

from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject
from podsched.lib.backoff import Backoff
from podsched.lib.list_watch import list_and_watch
from podsched.serve.client.errors import (
    ClientError,
    Compacted,
    Invalid,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreadable,
)
from podsched.serve.client.informer import EventType, Mirror
from podsched.serve.kube.discovery import is_served
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.lists import pages
from podsched.serve.kube.objects import UnreadableObjectError, read_object
from podsched.serve.kube.paths import collection
from podsched.serve.kube.status import error_of_status
from podsched.telemetry.logs import get_logger

_log = get_logger("informer")

#: Seconds before a broken watch is opened again, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
#: Min seconds of a watch, as in client-go; the max is twice as long.
_WATCH_SECONDS = 300
#: Objects decoded before yielding to other tasks: about 5 ms.
_TURN = 50
#: Consecutive refusals of a watch after which the kind is listed again.
_MAX_REFUSALS = 3
#: Seconds until a cluster without a kind is asked for it again: it takes a restart of its server.
_ABSENT_SECONDS = 60.0
_END_OF_LIST: Final = "k8s.io/initial-events-end"
_STREAMED_LIST: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
_TYPES: Final = {type_.name: type_ for type_ in EventType}


class WatchEvent(NamedTuple):
    """A change of an object; for DELETED with the object's last state.

    object: None if it cannot be decoded.
    """

    type: EventType
    key: str
    object: AnyObject | None


class Sink(Protocol):
    """Receives the lists and changes of a reflector; ``KubeInformer`` implements it."""

    async def listed(self, kind: str, objects: Mirror) -> None: ...

    def get(self, kind: str, key: str) -> AnyObject | None: ...

    def changed(self, kind: str, events: Sequence[WatchEvent]) -> None: ...


class Reflector:
    """Follows one kind for a sink; ``run`` it once, as a task."""

    def __init__(self, http: KubeHttp, kind: Kind, sink: Sink, *, field_selector: str = "") -> None:
        self._http = http
        self._kind = kind
        self._sink = sink
        self._path = collection(kind)
        self._selected = {"fieldSelector": field_selector} if field_selector else {}
        #: Whether the server streams lists; set to False after the first refusal.
        self._streams_lists = True
        self._version = ""
        #: Refusals of a watch since the last response.
        self._refusals = 0
        self.relists = 0
        #: Why the kind is not current, "" if it is.
        self.problem = "not listed yet"

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        following = list_and_watch(
            self._stream,
            self._on_error,
            transient=(ClientError,),
            backoff=Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random),
        )
        async with aclosing(following) as responses:
            async for events, version, _ in responses:
                self.problem = ""
                if events:
                    self._sink.changed(self._kind.name, events)
                if version and version != self._version:
                    self._version, self._refusals = version, 0

    def _on_error(self, error: ClientError) -> float:
        if isinstance(error, Compacted):
            _log.info("Listing again", kind=self._kind.name, cause=str(error))
        else:
            self.problem = str(error)
            _log.warning("The watch broke", kind=self._kind.name, error=str(error))
        # Repeated refusals of a watch may be due to its resourceVersion: etcd, restored from a
        # backup, may not have reached it, or the server may be unable to decode an event. Errors of
        # an overloaded or unreachable server do not count.
        answered = bool(error.http_status) and not isinstance(error, TooManyRequests | Unavailable)
        self._refusals = self._refusals + 1 if answered else 0
        if isinstance(error, Compacted) or self._refusals == _MAX_REFUSALS:
            self._version, self._refusals = "", 0
            self.relists += 1
        return min(error.retry_after, _LONGEST_PAUSE)

    async def _stream(self) -> AsyncGenerator[_Response, None]:
        """Yield the changes after ``_version``; list first if there is none."""
        if not self._version and not await is_served(self._http, self._kind):
            await self._sink.listed(self._kind.name, Mirror([self._kind.name]))
            self.problem = ""
            await asyncio.sleep(_ABSENT_SECONDS)
            return
        if not self._version and self._streams_lists:
            async with aclosing(self._watch(_STREAMED_LIST)) as watch:
                if await self._list_is_streamed(watch):
                    async for response in watch:
                        yield response
                    return
        if not self._version:
            await self._list_by_pages()
        async with aclosing(self._watch({"resourceVersion": self._version})) as watch:
            async for response in watch:
                yield response

    # ------------------------------------------------------------------ lists

    async def _list_is_streamed(self, watch: AsyncGenerator[_Response, None]) -> bool:
        """Read a list from the beginning of a watch; return False if it has none."""
        listed = Mirror([self._kind.name], is_list=True)
        try:
            async for response in watch:
                for type_, key, item in response.events:
                    listed.apply(type_, self._kind.name, key, item)
                if response.list_ends:
                    await self._take_list(listed, response.version)
                    return True
            raise Unreadable("the watch ended before the list was whole")
        except Invalid as error:
            _log.info("Lists are not streamed", kind=self._kind.name, cause=str(error))
            self._streams_lists = False
        except (Compacted, Unauthorized, TooManyRequests):
            raise
        except ClientError as error:
            # Fall back to pages, as client-go does: a server that ignores the parameter, such as
            # an old one behind a proxy, would stream without end.
            _log.info("The list was not streamed", kind=self._kind.name, cause=str(error))
        return False

    async def _list_by_pages(self) -> None:
        listed, version = Mirror([self._kind.name], is_list=True), ""
        async for page in pages(self._http, self._path, self._selected):
            for number, item in enumerate(page.get("items") or (), 1):
                type_, key, message = self._read(EventType.ADDED, item)
                listed.apply(type_, self._kind.name, key, message)
                if not number % _TURN:
                    await asyncio.sleep(0)
            version = str((page.get("metadata") or {}).get("resourceVersion", ""))
        await self._take_list(listed, version)

    async def _take_list(self, listed: Mirror, version: str) -> None:
        if not version:
            raise Unreadable("the list has no resourceVersion")
        await self._sink.listed(self._kind.name, listed)
        self._version, self.problem = version, ""

    # ------------------------------------------------------------------ watches

    async def _watch(self, wanted: Mapping[str, str]) -> AsyncGenerator[_Response, None]:
        """Yield events, the resourceVersion after them, and whether the initial ones end here."""
        params = {
            **self._selected,
            "watch": "1",
            "allowWatchBookmarks": "true",
            # Random, as in client-go, so that the watches do not all end at the same time.
            "timeoutSeconds": str(int(_WATCH_SECONDS * (1 + random.random()))),
            **wanted,
        }
        async with aclosing(self._http.lines(self._path, params)) as chunks:
            async for lines in chunks:
                for start in range(0, len(lines), _TURN):
                    if start:
                        await asyncio.sleep(0)
                    for response in self._decoded(lines[start : start + _TURN]):
                        yield response

    def _decoded(self, lines: Sequence[bytes]) -> list[_Response]:
        """Decode lines. Raises ClientError for an ERROR event.

        Events before it in the same lines are sent again, from the same resourceVersion.
        """
        found: list[WatchEvent] = []
        version, responses = "", []
        for line in lines:
            type_, content = _parsed(line)
            if type_ == "ERROR":
                raise error_of_status(content)
            metadata = content.get("metadata") or {}
            version = str(metadata.get("resourceVersion") or version)
            if type_ == "BOOKMARK":
                if (metadata.get("annotations") or {}).get(_END_OF_LIST) == "true":
                    responses.append(_Response(found, version, True))
                    found = []
            elif type_ in _TYPES:
                found.append(self._read(_TYPES[type_], content))
        return [*responses, _Response(found, version, False)]

    def _read(self, type_: EventType, content: dict[str, Any]) -> WatchEvent:
        metadata = content.get("metadata") or {}
        name, namespace = metadata.get("name"), metadata.get("namespace")
        key = f"{namespace}/{name}" if namespace else str(name)
        try:
            known = self._sink.get(self._kind.name, key)
            return WatchEvent(type_, key, read_object(self._kind, content, known))
        except UnreadableObjectError:
            return WatchEvent(type_, key, None)


class _Response(NamedTuple):
    events: list[WatchEvent]
    version: str
    list_ends: bool


def _parsed(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        event = orjson.loads(line)
        type_, content = event["type"], event["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Unreadable("a line of the watch is not an event") from error
    if not isinstance(content, dict) or not isinstance(content.get("metadata") or {}, dict):
        raise Unreadable("a line of the watch has no object")
    return type_, content
