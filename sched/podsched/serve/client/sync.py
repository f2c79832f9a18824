"""A blocking client for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from podsched.serve.client.api_client import ApiClient, ClientOptions

#: Seconds to wait for cancelled calls to end.
_ENDING = 1.0

_T = TypeVar("_T")
_P = ParamSpec("_P")


def _blocking(
    method: Callable[Concatenate[ApiClient, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Client, _P], _T]:
    """Return a method of ``Client`` that runs a coroutine of ``ApiClient`` and waits for it."""

    @wraps(method)
    def call(client: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return client._run(method(client._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[ApiClient, _P], AsyncGenerator[_T, None]],
) -> Callable[Concatenate[Client, _P], Iterator[_T]]:
    """Return a method of ``Client`` that iterates over an async generator of ``ApiClient``."""

    @wraps(method)
    def iterate(client: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        items = _Items(method(client._client, *args, **kwargs))
        try:
            while True:
                yield client._run(items.next())
        finally:
            if not client._closed:
                # Without waiting: garbage collection may end this in any thread, also the loop's.
                asyncio.run_coroutine_threadsafe(items.close(), client._loop)

    return iterate


class Client:
    """Talks to one of several API servers; its methods are those of ``ApiClient``.

    Calls may come from any thread; they share connections, which a background thread serves.
    Every method raises ``ClientError``s, and RuntimeError once the client is closed. Close it, or
    use it in a ``with`` statement.
    """

    def __init__(
        self, endpoints: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        #: Guards the attributes below.
        self._lock = threading.Lock()
        self._closed = False
        self._under_way: set[Future[Any]] = set()
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
        """Close the connections. Calls in progress in other threads fail."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            under_way = list(self._under_way)
        for call in under_way:
            call.cancel()
        asyncio.run_coroutine_threadsafe(_close(self._client), self._loop).result()
        self._end()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    create = _blocking(ApiClient.create)
    create_many = _blocking(ApiClient.create_many)
    create_pods = _blocking(ApiClient.create_pods)
    get = _blocking(ApiClient.get)
    list = _blocking(ApiClient.list)
    update = _blocking(ApiClient.update)
    update_status = _blocking(ApiClient.update_status)
    patch = _blocking(ApiClient.patch)
    patch_many = _blocking(ApiClient.patch_many)
    delete = _blocking(ApiClient.delete)
    delete_many = _blocking(ApiClient.delete_many)
    delete_collection = _blocking(ApiClient.delete_collection)
    evict = _blocking(ApiClient.evict)
    evict_pods = _blocking(ApiClient.evict_pods)
    bind = _blocking(ApiClient.bind)
    bind_pods = _blocking(ApiClient.bind_pods)
    explain = _blocking(ApiClient.explain)
    decisions = _blocking(ApiClient.decisions)

    watch = _iterating(ApiClient.watch)

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the background loop and wait for its result."""
        # Submit under the lock, so that ``close`` knows of every submitted call.
        with self._lock:
            if self._closed:
                work.close()
                raise RuntimeError("the client is closed")
            call = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._under_way.add(call)
        try:
            return call.result()
        except CancelledError:
            raise RuntimeError("the client is closed") from None
        finally:
            with self._lock:
                self._under_way.discard(call)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _open(endpoints: str | Sequence[str], options: ClientOptions | None) -> ApiClient:
    """Return a client that belongs to the running loop."""
    return ApiClient(endpoints, options)


async def _close(client: ApiClient) -> None:
    """Close the connections, and wait until the cancelled calls have ended."""
    await client.close()
    loop = asyncio.get_running_loop()
    calls = asyncio.all_tasks() - {asyncio.current_task()}
    if calls:
        await asyncio.wait(calls, timeout=_ENDING)
    await loop.shutdown_asyncgens()


class _Items(Generic[_T]):
    """The items of an async generator."""

    def __init__(self, items: AsyncGenerator[_T, None]) -> None:
        self._items = items
        self._waiting: asyncio.Task[Any] | None = None

    async def next(self) -> _T:
        self._waiting = asyncio.current_task()
        return await anext(self._items)

    async def close(self) -> None:
        # Ctrl-C ends the caller of ``next``, but not ``next`` itself.
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self._items.aclose()
