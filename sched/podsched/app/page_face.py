"""Kubernetes' REST API of an API server for its page: the same handlers, without a port."""

from __future__ import annotations

from podsched.server.errors import ApiError
from podsched.server.pipeline import Call
from podsched.server.rest.failures import failure
from podsched.server.rest.handling import Handler
from podsched.server.rest.messages import Answer, Request
from podsched.web.access import Question, Reply


class RestFace:
    """A ``Face``: who asks is authenticated, authorized and audited as over the API's own port."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def ask(self, question: Question) -> Reply:
        """See ``Face``."""
        replies: list[Answer] = []

        async def body() -> bytes:
            return question.body

        async def keep(answer: Answer, _: Call) -> None:
            replies.append(answer)

        headers = {"content-type": question.content_type, "user-agent": "podsched-page"}
        if question.authorization:
            headers["authorization"] = question.authorization
        request = Request(
            question.method,
            question.path,
            {},
            headers,
            question.path,
            question.peer,
            question.certificate,
            body,
        )
        try:
            await self._handler.handle(request, keep)
            answer = replies[0]
        except ApiError as error:
            answer = failure(error)
        assert isinstance(answer.body, bytes)
        return Reply(answer.status, answer.body)
