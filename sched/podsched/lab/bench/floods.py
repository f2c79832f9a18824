"""Flooding clients in a separate process: ``python -m podsched.lab.bench.floods ADDRESS``.

Each of the ten clients has its own connection, keeps many calls open, and sends the next call as
soon as one is answered, without any backoff.

    creates   batches of 500 pods of the same names, so that the work is done but nothing grows
    lists     all pods, all pages
    watches   streams of all objects, which it does not read
    garbage   bytes that are not a request, some of them 2 MiB, to existing or unknown methods

Watches that end with UNAVAILABLE were refused by HTTP/2 (REFUSED_STREAM): the client cancels a
hundred streams at once, and opens as many before the server has seen the first one end.

The process has the lowest CPU priority, because in reality these clients are on other machines. It
runs until standard input ends, and then prints how many calls there were and how they ended.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc

from podsched.lab.bench.shapes import copies, pod_template
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawListResponse

OBJECTS, PODS = "/podsched.v1.Objects/", "/podsched.v1.Pods/"
#: Clients of each kind, and calls that each keeps open.
CLIENTS = {"creates": 3, "lists": 3, "watches": 2, "garbage": 2}
OPEN_CALLS = {"creates": 8, "lists": 8, "watches": 200, "garbage": 32}
BATCH = 500
#: Seconds after which a watch that was accepted is given up and opened anew.
WATCH_SECONDS = 2.0
_LARGE = 2 << 20

#: Makes one call over a connection; returns how it ended.
Call = Callable[[grpc.aio.Channel], Awaitable[str]]


def namespace_of(client: int) -> str:
    """Return the namespace in which a flooding client creates pods."""
    return f"flood-{client}"


def batch_for(client: int) -> bytes:
    """Return a CreatePods request; no scheduler is responsible for its pods."""
    template = pod_template(namespace=namespace_of(client), schedulerName="nobody")
    return v1.CreatePodsRequest(pods=copies(template, "flood", BATCH)).SerializeToString()


def garbage(chance: random.Random) -> tuple[str, bytes]:
    """Return a known or unknown method, and bytes that are not a request of it."""
    method = chance.choice(("Create", "CreateBatch", "List", "Patch", "Nonsense"))
    size = _LARGE if chance.random() < 0.02 else chance.randrange(1, 4096)
    return f"{OBJECTS}{method}", b"\xff" + chance.randbytes(size)


async def _list_everything(channel: grpc.aio.Channel) -> str:
    token = ""
    while True:
        request = v1.ListRequest(kind="Pod", allow_stale=True)
        setattr(request, "continue", token)
        raw = await channel.unary_unary(f"{OBJECTS}List")(request.SerializeToString(), timeout=60)
        token = getattr(RawListResponse.FromString(raw), "continue")
        if not token:
            return "OK"


async def _watch_unread(channel: grpc.aio.Channel) -> str:
    request = v1.WatchRequest(send_initial_events=True).SerializeToString()
    call = channel.unary_stream(f"{OBJECTS}Watch")(request)
    try:
        async with asyncio.timeout(WATCH_SECONDS):
            code: str = (await call.code()).name
            return code
    except TimeoutError:
        return "OK"
    finally:
        call.cancel()


def _call_of(kind: str, client: int) -> Call:
    chance = random.Random(client)
    batch = batch_for(client) if kind == "creates" else b""

    async def create(channel: grpc.aio.Channel) -> str:
        await channel.unary_unary(f"{PODS}CreatePods")(batch, timeout=60)
        return "OK"

    async def send_garbage(channel: grpc.aio.Channel) -> str:
        method, raw = garbage(chance)
        await channel.unary_unary(method)(raw, timeout=60)
        return "OK"

    calls: dict[str, Call] = {
        "creates": create,
        "lists": _list_everything,
        "watches": _watch_unread,
        "garbage": send_garbage,
    }
    return calls[kind]


async def _flood(kind: str, client: int, address: str, ended: collections.Counter[str]) -> None:
    """Keep one client's calls open until cancelled; count how they end."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
    call = _call_of(kind, client)

    async def repeat(channel: grpc.aio.Channel) -> None:
        while True:
            try:
                ended[f"{kind} {await call(channel)}"] += 1
            except grpc.aio.AioRpcError as error:
                ended[f"{kind} {error.code().name}"] += 1

    async with (
        grpc.aio.insecure_channel(address, options=options) as channel,
        asyncio.TaskGroup() as calls,
    ):
        for _ in range(OPEN_CALLS[kind]):
            calls.create_task(repeat(channel), name=kind)


async def _run(address: str) -> None:
    ended: collections.Counter[str] = collections.Counter()
    kinds = [kind for kind, count in CLIENTS.items() for _ in range(count)]
    clients = [
        asyncio.create_task(_flood(kind, number, address, ended), name=kind)
        for number, kind in enumerate(kinds)
    ]
    print("flooding", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(ended), flush=True)
    # Not waited for: cancelling hundreds of calls takes longer than the figures are worth.
    for client in clients:
        client.cancel()


def _take_the_lowest_priority() -> None:
    os.nice(19)
    # Linux may share the CPU out among sessions first (sched(7), autogroup); then a nice value
    # counts only within the session, and the session has one of its own.
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def main() -> None:
    """Flood the API server at an address until standard input ends."""
    _take_the_lowest_priority()
    with asyncio.Runner() as runner:
        try:
            runner.run(_run(sys.argv[1]))
        finally:
            os._exit(0)


if __name__ == "__main__":
    main()
