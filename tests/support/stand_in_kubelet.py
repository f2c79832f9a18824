"""A kubelet's port without a kubelet: logs, exec, attach, port-forward and metrics, with TLS.

It speaks WebSockets as a kubelet of v1.36 (``v5.channel.k8s.io``), runs commands as processes of
this machine, and listens on an address of this machine that is not loopback, because the API server
sends nothing to loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from support.certificates import Certificates

PROTOCOL, FORWARDING = "v5.channel.k8s.io", "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255


def address_of_this_machine() -> str:
    """An address of this machine that others could use, "" if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        found = str(probe.getsockname()[0])
    return "" if found.startswith("127.") else found


@dataclass
class StandInKubelet:
    """What it was asked, and what it says."""

    address: str
    port: int = 0
    log: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Method, path and query of each request."""
    headers: list[dict[str, str]] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    """The common names of callers' certificates."""
    metrics: str = ""
    open_streams: int = 0
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, line: str) -> None:
        """A container writes a line."""
        self.log.append(line)
        self.more.set()
        self.more = asyncio.Event()

    def node(self, name: str) -> dict[str, Any]:
        """The node as this kubelet registers it."""
        endpoint = {"kubeletEndpoint": {"Port": self.port}}
        addresses = [{"type": "InternalIP", "address": self.address}]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"addresses": addresses, "daemonEndpoints": endpoint},
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        assert request.transport is not None
        subject = (request.transport.get_extra_info("peercert") or {}).get("subject", ())
        self.users.append(dict(pair for part in subject for pair in part).get("commonName", ""))
        action = request.path.split("/")[1]
        self.open_streams += 1
        try:
            if action == "containerLogs":
                return await self._logs(request)
            if action in ("exec", "attach"):
                return await self._stream(request, action)
            if action == "portForward":
                return await self._forward(request)
            if request.path == "/metrics/resource":
                return web.Response(text=self.metrics)
            if action == "redirect":
                raise web.HTTPFound("https://192.0.2.9/")
            if action == "healthz":
                return web.Response(text="ok")
            return web.Response(status=404, text="404 page not found")
        finally:
            self.open_streams -= 1

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        container = request.path.split("/")[4]
        if container == "waiting":
            text = f'container "{container}" in pod is waiting to start: ContainerCreating'
            return web.Response(status=400, text=text)
        answer = web.StreamResponse()
        tail = request.query.get("tailLines")
        sent = len(self.log) - int(tail) if tail is not None else 0
        while True:
            for line in self.log[sent:]:
                if not answer.prepared:
                    await answer.prepare(request)
                await answer.write(line.encode() + b"\n")
            sent = len(self.log)
            if "follow" not in request.query:
                break
            await self.more.wait()
        if not answer.prepared:
            await answer.prepare(request)
        return answer

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """Connect to a port of this machine, as to one of the pod's."""
        if "moved" in request.path:
            raise web.HTTPFound(f"https://{self.address}:{self.port}/healthz")
        answer = web.WebSocketResponse(protocols=[FORWARDING])
        await answer.prepare(request)
        port = int(request.query["port"])
        for channel in (0, 1):
            await answer.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            await answer.send_bytes(b"\1" + f"connect to port {port}: {error}".encode())
            await answer.close()
            return answer

        async def from_pod() -> None:
            while data := await reader.read(1 << 15):
                await answer.send_bytes(b"\0" + data)
            await answer.close()

        reading = asyncio.create_task(from_pod())
        async for message in answer:
            writer.write(message.data[1:])
        reading.cancel()
        writer.close()
        return answer

    async def _stream(self, request: web.Request, action: str) -> web.StreamResponse:
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        if PROTOCOL not in offered:
            return web.Response(status=403, text="unable to upgrade: websocket protocol")
        answer = web.WebSocketResponse(protocols=[PROTOCOL])
        await answer.prepare(request)
        command = request.query.getall("command", ["cat"] if action == "attach" else [])
        with contextlib.suppress(ConnectionError):
            await _run(answer, command)
        return answer


async def _run(answer: web.WebSocketResponse, command: list[str]) -> None:
    """Run a command with its input and output in the channels of a WebSocket."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin and process.stdout and process.stderr

    async def output(channel: int, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 15):
            await answer.send_bytes(bytes([channel]) + data)

    async def read_input() -> None:
        assert process.stdin
        async for message in answer:
            if message.type is not WSMsgType.BINARY:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == _STDIN:
                process.stdin.write(data)
                with contextlib.suppress(ConnectionError):
                    await process.stdin.drain()
            elif channel == _CLOSE and data[0] == _STDIN:
                process.stdin.close()
        with contextlib.suppress(ProcessLookupError):  # the client has gone
            process.kill()

    reading = asyncio.create_task(read_input())
    try:
        await asyncio.gather(output(_STDOUT, process.stdout), output(_STDERR, process.stderr))
        code = await process.wait()
        await answer.send_bytes(bytes([_ERROR]) + json.dumps(_status(code)).encode())
        await answer.close()
    finally:
        reading.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()  # what it has left in its pipes, which closes them


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: {code}"
    head = {"metadata": {}, "status": "Failure", "message": message}
    return {**head, "reason": "NonZeroExitCode", "details": {"causes": causes}}


@asynccontextmanager
async def stand_in_kubelet(files: Certificates, address: str) -> AsyncIterator[StandInKubelet]:
    """A running one. files: its certificate, and the authority of its callers."""
    kubelet = StandInKubelet(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    context.load_verify_locations(files.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", kubelet.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    # Its port is held on loopback, too: no API server there may get the same one, for an API server
    # refuses to connect to a port of its own at any address of this machine.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        kubelet.port = held.getsockname()[1]
        site = web.TCPSite(runner, address, kubelet.port, ssl_context=context)
        try:
            await site.start()
            yield kubelet
        finally:
            await runner.cleanup()
