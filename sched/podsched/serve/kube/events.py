"""Writes a scheduler's events to a Kubernetes cluster, in events.k8s.io/v1."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import count
from typing import Final

from podsched.api.objects import Event
from podsched.lib.token_bucket import TokenBucket
from podsched.serve.client.errors import AlreadyExists, Forbidden, NotFound, Unavailable
from podsched.serve.kube import writes
from podsched.serve.kube.fenced import DONE, JSON, each
from podsched.serve.kube.http import MERGE_PATCH, KubeHttp
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2 as v1

_log = get_logger("kubernetes")

_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"
#: Attempts to send an event, each with the timeout of a request; client-go makes twelve.
_EVENT_TRIES: Final = 3
#: The field that is named if nothing may be created in a namespace because it is being deleted.
_TERMINATING: Final = "metadata.namespace"


class EventWrites:
    """Writes events, within a ``limit`` of their own."""

    def __init__(self, http: KubeHttp, limit: TokenBucket | None) -> None:
        self._http = http
        self._limit = limit

    async def record(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """Write new events and repetitions, each independently; failures are logged."""
        results = [*await each(new, self._create), *await each(repeated, self._repeat)]
        if failed := [result for result in results if result.code]:
            _log.warning("Could not write events", events=len(failed), error=failed[0].message)

    async def _create(self, event: Event) -> v1.BatchResult:
        path = _EVENTS.format(event.metadata.namespace or "default")
        # NotFound: the namespace is deleted. AlreadyExists: an earlier attempt has written the
        # event, but its answer was lost; event names are unique.
        with contextlib.suppress(NotFound, AlreadyExists):
            try:
                await self._write("POST", path, writes.event(event))
            except Forbidden as error:
                if all(cause.field != _TERMINATING for cause in error.violations):
                    raise
        return DONE

    async def _repeat(self, event: Event) -> v1.BatchResult:
        path = f"{_EVENTS.format(event.metadata.namespace or 'default')}/{event.metadata.name}"
        series = writes.event_series(event)
        try:
            await self._write("PATCH", path, series, MERGE_PATCH)
        except NotFound:  # it has expired, after an hour by default
            return await self._create(event)
        return DONE

    async def _write(self, method: str, path: str, body: object, form: str = JSON) -> None:
        """Write an event; retry after timeouts, since no other request waits for events."""
        for tried in count(1):
            try:
                await self._http.request_bytes(
                    method, path, body=body, content_type=form, repeatable=True, limit=self._limit
                )
                return
            except Unavailable:
                if tried == _EVENT_TRIES:
                    raise
