"""Extenders that answer as a test says: in memory, or as a web server on the loopback address."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from podsched.decide.extenders.wire import ExtenderError

#: From the arguments of a call to the answer; an exception of ``ExtenderError`` is a failed call.
Answer = Callable[[dict[str, Any]], Any]


class ScriptedExtender:
    """Answers to verbs. Until told otherwise, every node passes and nothing is scored."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.delay = 0.0
        self.answers: dict[str, Answer] = {
            "filter": lambda args: passing(args, lambda name: True),
            "prioritize": lambda args: [],
            "preempt": keep_victims,
            "bind": lambda args: {"Error": ""},
        }

    def verbs(self) -> list[str]:
        """The verbs that were called, in order."""
        return [verb for verb, _ in self.calls]

    def nodes_sent(self, verb: str) -> list[list[str]]:
        """The names of the nodes in each call of a verb."""
        return [names_in(args) for called, args in self.calls if called == verb]

    async def send(self, verb: str, body: bytes) -> bytes:
        """``calls.Transport``, without a network."""
        args = json.loads(body)
        self.calls.append((verb, args))
        if self.delay:
            await asyncio.sleep(self.delay)
        answer = self.answers[verb](args)
        return json.dumps(answer).encode()

    async def close(self) -> None:
        """Nothing is open."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The same as a web server's handler."""
        try:
            body = await self.send(request.match_info["verb"], await request.read())
        except ExtenderError as failure:
            return web.Response(status=500, text=str(failure))
        return web.Response(body=body, content_type="application/json")


@asynccontextmanager
async def serving(
    extender: ScriptedExtender, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serves the extender on a free port of the loopback address; yields its urlPrefix."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/scheduler/{verb}", extender.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{'https' if tls else 'http'}://{host}:{port}/scheduler/"
    finally:
        await runner.cleanup()


def names_in(args: dict[str, Any]) -> list[str]:
    """The nodes that a call is about."""
    if args["NodeNames"] is not None:
        return list(args["NodeNames"])
    return [node["metadata"]["name"] for node in args["Nodes"]["items"]]


def passing(
    args: dict[str, Any], keep: Callable[[str], bool], why: str = "not for you"
) -> dict[str, Any]:
    """An ExtenderFilterResult that keeps some of the nodes sent."""
    failed = {name: why for name in names_in(args) if not keep(name)}
    kept = [name for name in names_in(args) if keep(name)]
    if args["NodeNames"] is not None:
        return {"NodeNames": kept, "FailedNodes": failed}
    nodes = [node for node in args["Nodes"]["items"] if node["metadata"]["name"] in kept]
    return {"Nodes": {"items": nodes}, "FailedNodes": failed}


def keep_victims(args: dict[str, Any]) -> dict[str, Any]:
    """An ExtenderPreemptionResult that agrees with everything."""
    meta = args["NodeNameToMetaVictims"]
    if meta is None:
        meta = {
            node: {
                "Pods": [{"UID": pod["metadata"]["uid"]} for pod in here["Pods"]],
                "NumPDBViolations": here["NumPDBViolations"],
            }
            for node, here in args["NodeNameToVictims"].items()
        }
    return {"NodeNameToMetaVictims": meta}
