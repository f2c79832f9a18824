"""The data of an API server's web page, and actions on behalf of the browser's user.

Actions pass the pipeline of all calls, so that authentication, authorization, fairness and
audit apply to them.
"""

from __future__ import annotations

from collections.abc import Collection

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject
from podsched.ask.web import sources
from podsched.ask.web.access import Act, Caller, Reply
from podsched.ask.web.sources import Change
from podsched.serve.server.access.authentication import no_authentication
from podsched.serve.server.change_ring import ExpiredError
from podsched.serve.server.errors import ApiError
from podsched.serve.server.pipeline import Call, Pipeline
from podsched.serve.server.rest.failures import failure
from podsched.serve.server.rest.handling import Handler
from podsched.serve.server.rest.messages import Answer, Request
from podsched.serve.server.scheduling import SchedulingService
from podsched.serve.server.watchcache import WatchCache
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation

#: Max changes that are read from the ring at once.
_MOST_CHANGES = 10_000


class WatchCacheSource:
    """A ``Source`` that reads the ring of an API server's watch cache."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._position = 0

    def follow(self) -> None:
        self._position = self._cache.ring.end

    def unfollow(self) -> None:
        """See ``Source``."""

    def keys(self, kind: str) -> list[str]:
        return list(self._cache.objects(KINDS[kind]))

    def get(self, kind: str, key: str) -> AnyObject | None:
        """See ``Source``. Objects are decoded each time; keeping them would double the memory."""
        entry = self._cache.get(KINDS[kind], key)
        try:
            return entry.decode() if entry is not None else None
        except ApiError:
            return None

    def changed(self) -> Collection[Change] | None:
        found: set[Change] = set()
        try:
            while changes := self._cache.ring.changes_from(self._position, _MOST_CHANGES):
                self._position += len(changes)
                for change in changes:
                    if change.kind.name in sources.KINDS:
                        found.add((change.kind.name, change.key))
        except ExpiredError:
            return None
        return found


class CallerApi:
    """A ``RestApi`` and an ``Explainer`` that call the API with the caller's credentials."""

    def __init__(self, handler: Handler, scheduling: SchedulingService, pipeline: Pipeline) -> None:
        self._handler = handler
        self._scheduling = scheduling
        self._pipeline = pipeline
        self.authenticates = pipeline.authenticate is not no_authentication

    async def ask(self, caller: Caller, asked: Act) -> Reply:
        replies: list[Answer] = []

        async def keep(answer: Answer, _: Call) -> None:
            replies.append(answer)

        try:
            await self._handler.handle(_request(caller, asked), keep)
            answer = replies[0]
        except ApiError as error:
            answer = failure(error)
        return _reply(answer)

    async def explain(self, caller: Caller, asked: ExplainRequest) -> Reply:
        path = f"/api/explain/{asked.namespace}/{asked.name}"
        request = _request(caller, Act("GET", path))
        try:
            async with Call("Explain", request, self._pipeline) as call:
                await call.arrive()
                await call.enter(0)
                call.request = asked
                found = Explanation.FromString(await self._scheduling.explain(asked))
        except ApiError as error:
            return _reply(failure(error))
        return Reply.explained(found)


def _reply(answer: Answer) -> Reply:
    assert isinstance(answer.body, bytes)
    return Reply(answer.status, answer.body)


def _request(caller: Caller, asked: Act) -> Request:
    """Return an action as a request of the caller."""

    async def body() -> bytes:
        return asked.body

    headers = {"content-type": asked.content_type, "user-agent": "podsched-page"}
    if caller.authorization:
        headers["authorization"] = caller.authorization
    return Request(
        asked.method, asked.path, {}, headers, asked.path, caller.peer, caller.certificate, body
    )
