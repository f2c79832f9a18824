"""Passes log, exec, attach and port-forward of pods on to kubelets.

exec, attach and port-forward switch protocols (SPDY, or a WebSocket). The kubelet speaks them; here
all bytes pass unchanged. kubectl first asks for a WebSocket, which a kubelet of v1.36 or later
speaks; if an older one refuses, kubectl asks for SPDY.

Who may: get pods/log; create pods/exec, pods/attach and pods/portforward, for GET beside get, as in
Kubernetes since v1.35.

Source: pkg/registry/core/pod/strategy.go and rest/log.go, v1.36.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp

from podsched.api.kinds import KINDS
from podsched.api.objects import Pod
from podsched.serve.server.access.rights import rights
from podsched.serve.server.kubelets.addresses import Endpoint
from podsched.serve.server.kubelets.client import KubeletClient, KubeletError, check_answer
from podsched.serve.server.rest.failures import RestError, bad_request
from podsched.serve.server.rest.kubelet_lookup import (
    LONGEST_ANSWER,
    KubeletLookup,
    failed,
    pieces_of,
)
from podsched.serve.server.rest.messages import TEXT, Answer, Request, Upgrade
from podsched.serve.server.rest.options import flag, number
from podsched.serve.server.rest.routes import Target

#: Seconds to wait for the head of a log that is followed: a kubelet sends it with the first line.
_FOLLOW_SECONDS: Final = 5.0
#: Headers of an upgrade that are passed on, in both directions.
_OF_UPGRADES: Final = re.compile(
    r"connection|upgrade|x-stream-protocol-version|sec-websocket-\w+", re.IGNORECASE
)
_PORT: Final = re.compile("[0-9]{1,5}")
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


class PodStreams:
    """Answers requests for what runs in a pod. Methods raise ApiError, KubeletError.

    Their ExitStack closes what is open once the answer is sent.
    """

    def __init__(self, lookup: KubeletLookup, kubelets: KubeletClient) -> None:
        self._lookup = lookup
        self._kubelets = kubelets

    async def log(self, target: Target, request: Request, held: ExitStack) -> Answer:
        """Answer with the log of a container."""
        rights().check("get", KINDS["Pod"], target.namespace, target.name, "log")
        options = _log_options(request.query, target.name)
        pod = await self._lookup.pod(target.namespace, target.name)
        container = _container(pod, request.query.get("container", ""))
        # As in Kubernetes, a pod that waits for a node has an empty log: that is no error.
        if not pod.spec.node_name:
            return Answer(b"", 204, TEXT)
        endpoint = await self._lookup.of_pod(pod)
        path = f"{_path('containerLogs', target, container)}?{urlencode(options)}"
        if "follow" not in options:
            response = await self._kubelets.request(endpoint, "GET", path)
            held.callback(response.close)
            await check_answer(endpoint, response)
            return _streamed(pieces_of(endpoint, response))
        asked = self._kubelets.request(endpoint, "GET", path, seconds=LONGEST_ANSWER)
        asking = asyncio.create_task(asked, name="ask for a log")
        held.callback(_end, asking)
        await asyncio.wait([asking], timeout=_FOLLOW_SECONDS)
        if asking.done():
            await check_answer(endpoint, asking.result())
        return _streamed(_pieces_later(endpoint, asking))

    async def exec(self, target: Target, request: Request, held: ExitStack) -> Answer:
        """Run a command in a container."""
        options = _stream_options(request.query)
        commands = request.values.get("command", ())
        if not any(commands):
            raise _invalid("PodExecOptions", target.name, "command: Required value")
        options += [("command", part) for part in commands]
        return await self._upgraded("exec", target, request, options, held)

    async def attach(self, target: Target, request: Request, held: ExitStack) -> Answer:
        """Attach to a container."""
        options = _stream_options(request.query)
        return await self._upgraded("attach", target, request, options, held)

    async def port_forward(self, target: Target, request: Request, held: ExitStack) -> Answer:
        """Forward ports of a pod."""
        # The ports of a WebSocket; SPDY names them in its streams.
        ports = request.values.get("ports", ())
        for text in ports:
            if not all(_PORT.fullmatch(p) and 0 < int(p) < 1 << 16 for p in text.split(",")):
                raise bad_request(f"ports: {text[:100]!r} is not a port from 1 to 65535")
        options = [("port", port) for text in ports for port in text.split(",")]
        return await self._upgraded("portForward", target, request, options, held)

    async def _upgraded(
        self,
        action: str,
        target: Target,
        request: Request,
        options: list[tuple[str, str]],
        held: ExitStack,
    ) -> Answer:
        """Switch protocols with a pod's kubelet."""
        # A WebSocket is asked for by GET: by its verb alone, who may only read could run commands.
        for verb in {target.verb, "create"}:
            kind = target.resource.kind
            rights().check(verb, kind, target.namespace, target.name, target.subresource)
        if "upgrade" not in request.headers:
            raise bad_request("you must specify at least 1 of SPDY and WebSocket: Upgrade required")
        pod = await self._lookup.pod(target.namespace, target.name)
        container = (
            "" if action == "portForward" else _container(pod, request.query.get("container", ""))
        )
        endpoint = await self._lookup.of_pod(pod)
        path = f"{_path(action, target, container)}?{urlencode(options)}"
        headers = [(n, v) for n, v in request.header_lines if _OF_UPGRADES.fullmatch(n)]
        head, stream = await self._kubelets.upgrade(endpoint, request.method, path, headers)
        held.callback(stream.abort)
        return Answer(Upgrade(_switching(head), stream), 101)


def _invalid(kind: str, name: str, why: str) -> RestError:
    return RestError(422, "Invalid", f'{kind} "{name}" is invalid: {why}')


def _log_options(query: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the query for a kubelet of the options of a log. Raises RestError."""
    found: dict[str, str] = {}
    for option in ("follow", "previous", "timestamps"):
        if flag(query, option):
            found[option] = "true"
    for option, least in (("sinceSeconds", 1), ("tailLines", 0), ("limitBytes", 1)):
        value = number(query, option)
        if value is None:
            continue
        if value < least:
            must = "greater than 0" if least else "greater than or equal to 0"
            why = f"{option}: Invalid value: {value}: must be {must}"
            raise _invalid("PodLogOptions", name, why)
        found[option] = str(value)
    if query.get("sinceTime"):
        if "sinceSeconds" in found:
            why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            raise _invalid("PodLogOptions", name, f"sinceSeconds: Forbidden: {why}")
        found["sinceTime"] = query["sinceTime"]
    if query.get("stream"):
        found["stream"] = query["stream"]
    if flag(query, "insecureSkipTLSVerifyBackend"):
        raise bad_request(
            "insecureSkipTLSVerifyBackend is not served: kubelets are verified if "
            "the API server has --kubelet-certificate-authority"
        )
    return found


def _stream_options(query: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the query for a kubelet of the options of exec and attach."""
    names = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
    return [(theirs, "1") for name, theirs in names if flag(query, name)]


def _container(pod: Pod, asked: str) -> str:
    """Return the container that is meant. Raises RestError 400 as in Kubernetes."""
    spec, name = pod.spec, pod.metadata.name
    containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    names = [container.name for container in containers]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked[:253]} is not valid for pod {name}")
        return asked
    default = pod.metadata.annotations.get(_DEFAULT_CONTAINER, "")
    if default in names:
        return default
    if len(spec.containers) == 1:
        return spec.containers[0].name
    choice = f"choose one of: [{' '.join(names)}]"
    raise bad_request(f"a container name must be specified for pod {name}, {choice}")


def _path(action: str, target: Target, container: str) -> str:
    """Return the path of an action at the kubelet."""
    parts = (action, target.namespace, target.name, *([container] if container else []))
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _switching(head: bytes) -> bytes:
    """Return the head of an answer to an upgrade, with the headers of the upgrade only."""
    lines = head.decode("latin-1").split("\r\n")
    kept = [line for line in lines[1:] if _OF_UPGRADES.fullmatch(line.partition(":")[0])]
    return "\r\n".join(["HTTP/1.1 101 Switching Protocols", *kept, "", ""]).encode("latin-1")


def _end(asking: asyncio.Task[aiohttp.ClientResponse]) -> None:
    """Close the answer that a task waits for, or has."""
    if not asking.done():
        asking.cancel()
    elif not asking.cancelled() and asking.exception() is None:
        asking.result().close()


def _streamed(pieces: AsyncGenerator[bytes, None]) -> Answer:
    return Answer(pieces, 200, TEXT, {}, LONGEST_ANSWER, patient=True)


async def _pieces_later(
    endpoint: Endpoint, asking: asyncio.Task[aiohttp.ClientResponse]
) -> AsyncGenerator[bytes, None]:
    """Yield the body of an answer that may still have to begin. Raises ApiError."""
    try:
        # As in ``pieces_of``.
        yield b""
        response = await asking
        await check_answer(endpoint, response)
        async with contextlib.aclosing(pieces_of(endpoint, response)) as pieces:
            async for piece in pieces:
                yield piece
    except KubeletError as error:
        raise failed(error) from None
