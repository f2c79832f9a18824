"""Writes Events to a Kubernetes cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import count
from typing import Final

from podsched.api.objects import Event
from podsched.serve.client import errors
from podsched.serve.client.errors import AlreadyExists, NotFound, Unavailable
from podsched.serve.kube import writes
from podsched.serve.kube.http import MERGE_PATCH, KubeHttp, RateLimit
from podsched.serve.kube.requests import DONE, each
from podsched.v1 import api_pb2 as v1

_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"
#: Attempts to send an event, each with the timeout of a request; client-go makes twelve.
_EVENT_TRIES: Final = 3


class EventWriter:
    """Writes Events within a limit of their own, as in kube-scheduler: they delay no bindings."""

    def __init__(self, http: KubeHttp, limit: RateLimit) -> None:
        self._http = http
        self._limit = limit

    async def record(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """Write new and repeated events. Raises ClientError when none of them could be written."""
        results = [*await each(new, self._record), *await each(repeated, self._record_again)]
        failed = [found for result in results if (found := errors.of_result(result)) is not None]
        if failed and len(failed) == len(results):
            raise failed[0]

    async def _record(self, event: Event) -> v1.BatchResult:
        path = _EVENTS.format(event.metadata.namespace or "default")
        # NotFound: the namespace is deleted. AlreadyExists: an earlier attempt has written the
        # event, but its answer was lost; event names are unique.
        with contextlib.suppress(NotFound, AlreadyExists):
            await self._write_event("POST", path, writes.event(event))
        return DONE

    async def _record_again(self, event: Event) -> v1.BatchResult:
        path = f"{_EVENTS.format(event.metadata.namespace or 'default')}/{event.metadata.name}"
        series = writes.event_series(event)
        try:
            await self._write_event("PATCH", path, series, MERGE_PATCH)
        except NotFound:  # it has expired, after an hour by default
            return await self._record(event)
        return DONE

    async def _write_event(
        self, method: str, path: str, body: object, content_type: str = "application/json"
    ) -> None:
        """Write an event; retry after timeouts, since no other request waits for events."""
        for tried in count(1):
            try:
                await self._http.request_bytes(
                    method,
                    path,
                    body=body,
                    content_type=content_type,
                    repeatable=True,
                    limit=self._limit,
                )
                return
            except Unavailable:
                if tried == _EVENT_TRIES:
                    raise
