"""The client for programs without an event loop: each call blocks until it is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast

from podsched.api.objects import AnyObject, Pod
from podsched.client.api_client import ApiClient, ClientOptions, Listing
from podsched.client.object_watch import Change, watch_objects
from podsched.v1 import api_pb2 as v1

_T = TypeVar("_T")
_Object = TypeVar("_Object", bound=AnyObject)


class Client:
    """Talks to one of several API servers; its methods are those of ``ApiClient``.

    Calls may come from any thread; they share connections, which a thread of its own serves.
    Every method raises ``ClientError``s. Close it, or use it in a ``with`` statement.
    """

    def __init__(
        self, endpoints: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="podsched-client", daemon=True
        )
        self._thread.start()
        try:
            self._client = self._run(_open(endpoints, options))
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Close the connections. Calls that are under way fail."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._end()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, item: _Object, *, dry_run: bool = False) -> _Object:
        """Store a new object; what was stored. AlreadyExists, Invalid, Forbidden, TooLarge."""
        return self._run(self._client.create(item, dry_run=dry_run))

    def create_many(self, items: Sequence[AnyObject]) -> Sequence[v1.BatchResult]:
        """Store new objects, each by itself; ``errors.of_result`` makes an error of a result."""
        return self._run(self._client.create_many(items))

    def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        """One object as it is now. NotFound."""
        return self._run(self._client.get(kind, name, namespace))

    def list(
        self, kind: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """All that matches, at one revision."""
        return self._run(
            self._client.list(
                kind, namespace, label_selector=label_selector, field_selector=field_selector
            )
        )

    def update(self, item: _Object) -> _Object:
        """Replace an object except its status. Conflict if its resourceVersion is not current."""
        return self._run(self._client.update(item))

    def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        strategic: bool = False,
    ) -> AnyObject:
        """Apply a JSON merge patch, or a strategic one."""
        return self._run(self._client.patch(kind, name, patch, namespace, strategic=strategic))

    def delete(
        self, kind: str, name: str, namespace: str = "", *, grace_period_seconds: int | None = None
    ) -> None:
        """Delete one object. NotFound."""
        self._run(
            self._client.delete(kind, name, namespace, grace_period_seconds=grace_period_seconds)
        )

    def evict(self, request: v1.EvictRequest) -> Pod:
        """Evict a pod. DisruptionBudget when a budget does not permit it now."""
        return self._run(self._client.evict(request))

    def watch(
        self,
        kinds: Sequence[str],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        from_revision: int = 0,
    ) -> Iterator[Change]:
        """Yield changes for ever; see ``watch_objects``. Close the iterator to end the watch."""
        changes = watch_objects(
            self._client,
            kinds,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            from_revision=from_revision,
        )
        try:
            while True:
                yield self._run(_next(changes))
        finally:
            if not self._loop.is_closed():
                self._run(_closed(changes))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _open(endpoints: str | Sequence[str], options: ClientOptions | None) -> ApiClient:
    """Return a client that belongs to the running loop."""
    return ApiClient(endpoints, options)


async def _next(changes: AsyncIterator[Change]) -> Change:
    return await anext(changes)


async def _closed(changes: AsyncIterator[Change]) -> None:
    async with aclosing(cast(Any, changes)):
        pass
