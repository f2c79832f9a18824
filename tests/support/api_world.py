"""API servers without transport on a store in memory, at a time that the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from podsched.api.etcd_keys import term_key
from podsched.api.objects import AnyObject, Pod
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from podsched.v1.api_pb2 import Fence
from support.api_objects import LOCK


@dataclass
class World:
    """A server's core, its store, and the time it sees."""

    store: MemoryStore
    core: ServerCore
    now: float = 1_700_000_000.0
    others: list[ServerCore] = field(default_factory=list)

    async def new_term(self) -> Fence:
        """A leader takes the lock."""
        result = await self.store.txn([], [Put(term_key(LOCK), b"me")])
        return Fence(lock=LOCK, term=result.revision)

    async def another(self, settings: ServerSettings | None = None) -> ServerCore:
        """A second server on the same store."""
        core = ServerCore(settings or ServerSettings(), self.store.session())
        await core.start()
        self.others.append(core)
        return core

    async def responses(
        self, request: v1.WatchRequest, core: ServerCore | None = None
    ) -> AsyncIterator[v1.WatchResponse]:
        """A watch, decoded."""
        async with aclosing((core or self.core).watcher.watch(request)) as stream:
            async for raw in stream:
                yield v1.WatchResponse.FromString(raw)


def message_of(entry: Entry) -> AnyObject:
    message = entry.decode()
    message.metadata.resource_version = str(entry.revision)
    return message


def pod_of(entry: Entry) -> Pod:
    message = message_of(entry)
    assert isinstance(message, Pod)
    return message
