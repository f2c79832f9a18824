"""The blocking client, used by several threads at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from podsched.serve.client import api_client
from podsched.serve.client.calls import Calls
from podsched.serve.client.sync import Client
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse
from support.api_objects import pod

#: Seconds in which a thread that is not stuck has ended, also on a busy machine.
LONG = 20.0


under_way = threading.Semaphore(0)


async def wait_for_ever() -> Any:
    under_way.release()
    await asyncio.Event().wait()


class Silent(Calls):
    """Calls of a server that never answers."""

    async def unary(self, *_: Any, **__: Any) -> bytes:
        raise await wait_for_ever()

    async def stream(self, *_: Any) -> AsyncGenerator[Any, None]:
        yield await wait_for_ever()


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "Calls", Silent)
    while under_way.acquire(blocking=False):
        pass


def outcome_in_a_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[str]]:
    outcome: list[str] = []

    def run() -> None:
        try:
            call()
        except Exception as error:
            outcome.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("how", ["get", "watch"])
def test_a_call_that_is_under_way_in_another_thread_fails_when_the_client_is_closed(
    how: str,
) -> None:
    client = Client("nowhere:1")
    call = {
        "get": lambda: client.get("Pod", "web", "default"),
        "watch": lambda: next(client.watch(["pods"])),
    }[how]
    calling, outcome = outcome_in_a_thread(call)
    assert under_way.acquire(timeout=LONG)
    client.close()
    calling.join(LONG)
    assert not calling.is_alive()
    assert outcome == ["RuntimeError: the client is closed"]


def test_calls_that_begin_while_the_client_is_closed_fail_or_are_made() -> None:
    """Whichever comes first; no call waits for a loop that has ended."""
    for _ in range(20):
        client = Client("nowhere:1")
        calling = [outcome_in_a_thread(partial(client.get, "Pod", "web")) for _ in range(4)]
        closing = [threading.Thread(target=client.close, daemon=True) for _ in range(2)]
        for thread in closing:
            thread.start()
        for thread in [*closing, *(thread for thread, _ in calling)]:
            thread.join(LONG)
            assert not thread.is_alive()
        assert {text for _, outcome in calling for text in outcome} == {
            "RuntimeError: the client is closed"
        }


def test_what_was_closed_may_be_closed_again() -> None:
    with Client("nowhere:1") as client:
        client.close()


def test_ctrl_c_ends_a_watch_that_waits_for_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Future.result

    def interrupted(*_: Any) -> Any:
        monkeypatch.setattr(Future, "result", result)
        assert under_way.acquire(timeout=LONG)
        raise KeyboardInterrupt

    with Client("nowhere:1") as client:
        changes = client.watch(["pods"])
        monkeypatch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(changes)


class OneChange(Silent):
    """Calls of a server that sends one change, then nothing."""

    async def stream(self, *_: Any) -> AsyncGenerator[Any, None]:
        added = v1.Object(pod=pod("web")).SerializeToString()
        yield RawWatchResponse(events=[RawWatchEvent(type=v1.ADDED, object=added)])
        yield await wait_for_ever()


def test_a_watch_that_ends_in_the_clients_own_thread_does_not_block_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Garbage collection ends forgotten watches, in whichever thread it runs."""
    monkeypatch.setattr(api_client, "Calls", OneChange)
    client = Client("nowhere:1")
    changes: Any = client.watch(["pods"])
    next(changes)

    async def collect() -> None:
        changes.close()

    asyncio.run_coroutine_threadsafe(collect(), client._loop).result(LONG)
    client.close()
