"""Watches objects and yields their decoded changes, for programs that keep no cache."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from podsched.api.kinds import find_kind, kind_of, unwrap
from podsched.api.objects import AnyObject, object_key
from podsched.lib.backoff import Backoff
from podsched.lib.list_watch import list_and_watch
from podsched.serve.client.errors import Unavailable
from podsched.serve.client.undecodable import identify, log_undecodable
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchResponse

if TYPE_CHECKING:
    from podsched.serve.client.informer import WatchSource

#: Seconds before a broken watch is restarted.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class ChangeType(StrEnum):
    """The type of a change."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(NamedTuple):
    """One change of one object."""

    type: ChangeType
    object: AnyObject
    """The current object; its last version if it was deleted."""
    revision: int
    """Revision from which a watch continues after this change; 0 for initial objects."""


def watch_objects(
    client: WatchSource,
    kinds: Sequence[str],
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    from_revision: int = 0,
    on_reached: Callable[[bool], object] = lambda reached: None,
) -> AsyncGenerator[Change, None]:
    """Yield the changes of kinds forever; reconnect and resume after a broken connection.

    kinds: "Pod", "pods", "po". from_revision: changes after this revision, that of a ``Listing``;
    0: first the existing objects, then changes. If the connection breaks in between, existing
    objects come again, and those that are gone as DELETED. Close the iterator to end the watch.
    on_reached: called with False when the connection breaks or cannot be made, with True when a
    server sends something.

    Raises UnknownKindError, and ClientErrors: Compacted when the server no longer has the changes,
    so that everything must be listed again.
    """
    request = v1.WatchRequest(
        kinds=[find_kind(kind).name for kind in kinds],
        namespace=namespace,
        label_selector=label_selector,
        field_selector=field_selector,
        from_revision=from_revision,
        send_initial_events=not from_revision,
    )

    #: The existing objects that have come, until all have.
    existing: dict[tuple[str, str], AnyObject] = {}

    async def stream() -> AsyncGenerator[Change | None, None]:
        missing = dict(existing)
        async with aclosing(client.watch_stream(request)) as responses:
            async for response in responses:
                on_reached(True)
                yield None
                if response.revision:  # 0 while existing objects come
                    for gone in missing.values():
                        yield Change(ChangeType.DELETED, gone, request.from_revision)
                    missing.clear()
                    existing.clear()
                for change in _changes(response, request.from_revision):
                    if not response.revision:
                        key = (kind_of(change.object).name, object_key(change.object))
                        existing[key] = change.object
                        missing.pop(key, None)
                    yield change
                if response.revision:
                    request.from_revision = response.revision
                    request.send_initial_events = False

    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)

    def broke(_: Unavailable) -> None:
        on_reached(False)

    return list_and_watch(stream, broke, transient=(Unavailable,), backoff=backoff)


def _changes(response: RawWatchResponse, before: int) -> list[Change]:
    """Return the changes of a response; ``before``: the revision of the one before.

    A watch that continues after a change which is not the last one has to get the rest.
    """
    found = []
    for event in response.events:
        try:
            message = unwrap(v1.Object.FromString(event.object))
        except (DecodeError, ValueError):
            log_undecodable(identify(event.object))
            continue
        kind = ChangeType(v1.EventType.Name(event.type))
        found.append(Change(kind, message, before))
    if found:
        found[-1] = found[-1]._replace(revision=response.revision)
    return found
