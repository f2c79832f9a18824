"""The data of a replica's web page: its informer's objects, and its own explanations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import aclosing

from podsched.api.objects import AnyObject
from podsched.api.reasons import StatusCode
from podsched.app.answering import Answerer, Unanswerable
from podsched.ask.web import sources
from podsched.ask.web.access import Caller, Reply
from podsched.ask.web.sources import Change
from podsched.serve.client.cluster import InformerPort
from podsched.serve.client.informer import Batch
from podsched.v1.scheduling_pb2 import ExplainRequest, Question

#: Max changes between two reads; beyond them, the page reads everything again.
_MOST_CHANGES = 200_000
#: Seconds for an explanation.
_EXPLAIN_SECONDS = 10.0
_STATUSES = {StatusCode.NOT_FOUND: 404, StatusCode.RESOURCE_EXHAUSTED: 429}


class InformerSource:
    """A ``Source`` of an informer's objects. Without a browser, ``handle`` keeps nothing."""

    def __init__(self, informer: InformerPort) -> None:
        self._informer = informer
        self._changed: set[Change] | None = None

    def handle(self, batch: Batch) -> None:
        """Note which objects a batch changes."""
        noted = self._changed
        if noted is not None and len(noted) <= _MOST_CHANGES:
            noted.update((event.kind, event.key) for event in batch.events)

    def follow(self) -> None:
        self._changed = set()

    def unfollow(self) -> None:
        self._changed = None

    def keys(self, kind: str) -> list[str]:
        """See ``Source``. A scheduler does not watch Events."""
        return [] if kind == "Event" else list(self._informer.objects(kind))

    def get(self, kind: str, key: str) -> AnyObject | None:
        return None if kind == "Event" else self._informer.get(kind, key)

    def changed(self) -> Collection[Change] | None:
        found = self._changed
        self._changed = set()
        if found is None or len(found) > _MOST_CHANGES:
            return None
        return [change for change in found if change[0] in sources.KINDS]


class ReplicaExplainer:
    """An ``Explainer`` that asks this replica itself, for everyone who may see its page."""

    def __init__(self, answer: Answerer) -> None:
        self._answer = answer

    async def explain(self, _: Caller, asked: ExplainRequest) -> Reply:
        question = Question(timeout_seconds=_EXPLAIN_SECONDS, explain=asked)
        try:
            async with (
                asyncio.timeout(_EXPLAIN_SECONDS),
                aclosing(self._answer(question)) as answers,
            ):
                answer = await anext(answers)
        except Unanswerable as error:
            return _refused(_STATUSES.get(error.code, 503), str(error))
        except TimeoutError:
            return _refused(503, f"no answer within {_EXPLAIN_SECONDS:g} s")
        return Reply.explained(answer.explanation)


def _refused(status: int, message: str) -> Reply:
    return Reply(status, json.dumps({"message": message}).encode())
