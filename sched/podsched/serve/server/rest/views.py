"""Encodes stored objects as JSON, whole or only their metadata."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final

from podsched.api import codec
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import expired
from podsched.serve.server.fairness.turns import Work, large_response
from podsched.serve.server.rest.messages import encode, encode_list
from podsched.serve.server.rest.resources import Resource
from podsched.serve.server.rest.shapes import shaped, with_micro_times

META: Final = "meta.k8s.io/v1"
Show = Callable[[Entry], Mapping[str, Any]]
"""Returns what is shown of an object."""
#: Bytes of a list that is streamed, encoded at a time.
_PIECE: Final = 256 << 10
#: Objects whose JSON is cached, and bytes of all of it. One of 1 MB takes 50 ms to encode, and each
#: of many watches that begin at once shows it.
_KEPT: Final = 4096
_KEPT_BYTES: Final = 64 << 20


def typed(resource: Resource, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its kind and apiVersion."""
    return {"kind": resource.kind.name, "apiVersion": resource.api_version, **content}


def content_of(resource: Resource, entry: Entry, revision: int = 0) -> dict[str, Any]:
    """Return an object without kind and apiVersion, with its own or the given resourceVersion."""
    content = resource.show(shaped(resource.kind, codec.write(entry.message)))
    version = revision or entry.revision
    metadata = content.setdefault("metadata", {})
    if version:
        metadata["resourceVersion"] = str(version)
    return content


def patchable(resource: Resource, entry: Entry) -> dict[str, Any]:
    """Return an object as input of a patch, without members that exist only in views."""
    content = resource.show(with_micro_times(resource.kind, codec.write(entry.message)))
    content.setdefault("metadata", {})["resourceVersion"] = str(entry.revision)
    return content


def partial(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an object as ``PartialObjectMetadata``."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": content["metadata"]}


async def encoded(
    entries: Iterable[Entry], show: Callable[[Entry], Mapping[str, Any] | None]
) -> list[bytes]:
    """Encode what is shown of objects, yielding to other calls in between; None: nothing."""
    items: list[bytes] = []
    async with large_response():
        work = Work()
        for entry in entries:
            content = show(entry)
            if content is not None:
                items.append(encode(content))
            if work.turn_is_over:
                await work.give_way()
        work.end()
    return items


async def streamed(
    head: Mapping[str, Any], entries: Iterable[Entry], show: Show, name: str, seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield a list in pieces, as JSON; name: of the member that has the items.

    Raises ApiError if the client takes longer than ``seconds``.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    pending: list[bytes] = []
    size, before = 0, b""
    yield encode_list(head, (), name)[: -len(b"]}")]
    work = Work()
    for entry in entries:
        pending.append(encode(show(entry)))
        size += len(pending[-1])
        if size >= _PIECE:
            work.end()
            yield before + b",".join(pending)
            if clock() > end:
                raise expired(f"the client has not read the list within {seconds:g} s")
            pending, size, before = [], 0, b","
            work = Work()
        elif work.turn_is_over:
            await work.give_way()
    work.end()
    yield (before if pending else b"") + b",".join(pending) + b"]}"


class EncodedObjects:
    """Cache of the JSON of the objects encoded last: each is encoded once for all its readers."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, int, int], bytes] = OrderedDict()
        self._bytes = 0

    def of(self, resource: Resource, entry: Entry, revision: int = 0) -> bytes:
        """Return an object with its kind and apiVersion.

        revision: the resourceVersion to show; 0: the object's own.
        """
        revision = revision or entry.revision
        # Not by the revision of the content: a dry run has none, and after a restore of etcd from a
        # backup a revision may be that of other content.
        content = hash(entry.value)
        key = (resource.api_version + resource.plural, entry.key, content, revision)
        known = self._known.get(key)
        if known is None:
            known = encode(typed(resource, content_of(resource, entry, revision)))
            self._known[key] = known
            self._bytes += len(known)
            while len(self._known) > _KEPT or self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._known.popitem(last=False)[1])
        return known
