"""Answers the verbs get and list of the REST API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.frames import MAX_RESPONSE_BYTES
from podsched.serve.server.listing import Page, inconsistent_token
from podsched.serve.server.rest.failures import RestError, bad_request, expired
from podsched.serve.server.rest.fields import checked_fields
from podsched.serve.server.rest.media import Form, form_of, not_acceptable
from podsched.serve.server.rest.messages import Answer, Request, encode, encode_list
from podsched.serve.server.rest.options import ListOptions, version_of
from podsched.serve.server.rest.routes import Target
from podsched.serve.server.rest.tables import Table
from podsched.serve.server.rest.views import (
    META,
    EncodedObjects,
    Show,
    content_of,
    encoded,
    partial,
    streamed,
)
from podsched.v1 import api_pb2 as v1

#: Seconds to wait for a resourceVersion that is not reached yet.
_WAIT_SECONDS: Final = 3.0
#: Max seconds for which a long list is sent: until then, it keeps objects that were replaced since.
_STREAM_SECONDS: Final = 300.0


class Reading:
    """Answers reads. Methods raise ApiError."""

    def __init__(self, core: ServerCore, encoded: EncodedObjects) -> None:
        self._core = core
        self._encoded = encoded

    async def get(self, target: Target, request: Request) -> Answer:
        """Answer with one object."""
        accept = request.headers.get("accept")
        form = form_of(accept, Form.TABLE, Form.PARTIAL, Form.PARTIAL_LIST)
        if form is Form.PARTIAL_LIST:
            name = target.resource.kind.name
            raise not_acceptable(
                f"you requested {form}, but the requested object is not a list (*core.{name})"
            )
        await self._reach(version_of(request.query))
        entry = await self._core.registry.get(
            target.resource.kind.name, target.namespace, target.name, target.subresource
        )
        return self.shown(target, entry, form, request)

    def shown(
        self, target: Target, entry: Entry, form: Form, request: Request, status: int = 200
    ) -> Answer:
        """Return the answer with one object."""
        resource = target.resource
        if form is Form.TABLE:
            return Answer(encode(Table(resource, request.query).of_one(entry)), status)
        if form is Form.PARTIAL:
            return Answer(encode(partial(content_of(resource, entry))), status)
        return Answer(self._encoded.of(resource, entry), status)

    async def list_(self, target: Target, request: Request) -> Answer:
        """Answer with a page of a list."""
        resource = target.resource
        form = form_of(request.headers.get("accept"), Form.TABLE, Form.PARTIAL_LIST, Form.PARTIAL)
        if form is Form.PARTIAL:
            of = resource.list_kind
            text = f"you requested {form}, but the requested object is a list (*core.{of})"
            raise not_acceptable(text)
        page = await self.page(target, ListOptions.of(request.query))
        return await self.listed(target, page, form, request)

    async def listed(self, target: Target, page: Page, form: Form, request: Request) -> Answer:
        """Return the answer with a list."""
        resource = target.resource
        metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
        if page.token:
            metadata["continue"] = page.token
        if page.remaining:
            metadata["remainingItemCount"] = page.remaining
        if form is Form.TABLE:
            table = Table(resource, request.query)
            return await _list_answer(table.head(metadata), page.entries, table.row, "rows")
        if form is Form.PARTIAL_LIST:
            head = {"kind": str(form), "apiVersion": META, "metadata": metadata}
            if not page.entries:
                return Answer(encode({**head, "items": None}))
            return await _list_answer(
                head, page.entries, lambda entry: partial(content_of(resource, entry))
            )
        head = {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
        }
        # Not ``EncodedObjects``: in a list, objects have neither kind nor apiVersion.
        return await _list_answer(head, page.entries, lambda entry: content_of(resource, entry))

    async def page(self, target: Target, options: ListOptions, verb: str = "list") -> Page:
        """Return the page that the options select. Raises ApiError.

        resourceVersion and resourceVersionMatch as in Kubernetes: Exact shows exactly that version,
        and so does a limit without a match; otherwise the page may be as old as it. 0 permits any
        version and ignores the limit. verb: the one that must be permitted.
        """
        wanted = v1.ListRequest(
            kind=target.resource.kind.name,
            namespace=target.namespace,
            label_selector=options.labels,
            field_selector=checked_fields(target.resource, options.fields),
            limit=min(options.limit, 2**31 - 1),
        )

        def read(version: int = 0) -> Awaitable[Page]:
            # A client that sets no limit may not expect pages.
            return self._core.lister.page(wanted, version, whole=not wanted.limit, verb=verb)

        if options.token:
            if options.version:
                raise bad_request("specifying resource version is not allowed when using continue")
            setattr(wanted, "continue", options.token)
            return await _continued(read(), options.token)
        exact = options.match == "Exact" or (options.limit and not options.match)
        if exact and options.version:
            await self._reach(options.version)
            return await _exact(read(options.version))
        if options.version is not None:
            await self._reach(options.version)
            wanted.allow_stale = True
            if options.version == 0:
                wanted.limit = 0
        return await read()

    async def _reach(self, version: int | None) -> None:
        """Wait until the server reaches a version. Raises RestError 504 on a timeout."""
        cache = self._core.cache
        if version is None or version <= cache.revision:
            return
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await cache.progress.wait_for(version)
        except TimeoutError:
            raise _not_reached(version, cache.revision) from None


async def _continued(page: Awaitable[Page], token: str) -> Page:
    try:
        return await page
    except ApiError as error:
        if error.reason == "COMPACTED":
            raise _expired_page(inconsistent_token(token)) from None
        if error.reason == "BAD_REQUEST":
            raise bad_request(f"invalid continue token: {error.message}: {token[:100]}") from None
        raise


async def _exact(page: Awaitable[Page]) -> Page:
    try:
        return await page
    except ApiError as error:
        if error.reason == "COMPACTED":
            raise expired("The resourceVersion for the provided list is too old.") from None
        raise


async def _list_answer(
    head: Mapping[str, Any], entries: Sequence[Entry], show: Show, name: str = "items"
) -> Answer:
    """Return the answer with a list; a long one is encoded while the client reads it."""
    if sum(len(entry.value) for entry in entries) <= MAX_RESPONSE_BYTES:
        return Answer(encode_list(head, await encoded(entries, show), name))
    pieces = streamed(head, entries, show, name, _STREAM_SECONDS)
    return Answer(pieces, seconds=2 * _STREAM_SECONDS)


def _expired_page(token: str) -> RestError:
    """Make the error for a page of a compacted state; its token continues on the current state."""
    error = expired(
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted between "
        "the time the first chunk was returned and now may show up in the list."
    )
    error.list_metadata = {"continue": token}
    return error


def _not_reached(version: int, current: int) -> RestError:
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    error = RestError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
    error.retry_after = 1
    return error
