"""Reads what nodes and containers use from the ``/metrics/resource`` of kubelets.

CPU is the difference of two readings. One of the last two minutes is kept for each node; without
one a second reading is awaited, which a kubelet takes every ten seconds or so.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import aiohttp

from podsched.api.objects import Node
from podsched.lib.event_loop import Turn
from podsched.serve.server.kubelets.client import KubeletClient, KubeletError, check_answer
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")

Key = tuple[str, str, str]
"""Namespace, pod and container; empty for the node."""
NODE: Final[Key] = ("", "", "")

_PATH: Final = "/metrics/resource"
#: Seconds for which a reading is answered again, and in which it is the beginning of the next.
_FRESH, _KEPT = 10.0, 120.0
#: Seconds between attempts to get a second reading, and in which there are any.
_PAUSE, _TRYING = 2.0, 16.0
_ANSWER_SECONDS: Final = 10.0
#: Kubelets that are asked at once, bytes of an answer, nodes whose readings are kept.
_AT_ONCE, _MAX_BYTES, _MAX_NODES = 32, 4 << 20, 5_000

_LINE: Final = re.compile(r"(\w+)(?:\{([^}]*)\})? (\S+)(?: (\d{1,15}))?")
_LABEL: Final = re.compile(r'(\w+)="([^"\\]*)"')
_FIELDS: Final = {
    "cpu_usage_seconds_total": "cpu",
    "memory_working_set_bytes": "memory",
    "start_time_seconds": "started",
}


@dataclass(slots=True)
class Reading:
    """What one container or node has used. at: Unix time of ``cpu``, in seconds."""

    cpu: float = -1.0
    at: float = 0.0
    memory: float = -1.0
    started: float = 0.0


class Usage(NamedTuple):
    """What is used: cores, bytes; the Unix time in seconds, and of how many seconds CPU is."""

    cpu: float
    memory: int
    at: float
    window: float


async def readings_of(text: str) -> dict[Key, Reading]:
    """Return the readings in an answer of a kubelet; lines that cannot be read are left out."""
    found: dict[Key, Reading] = {}
    turn = Turn()
    for line in text.splitlines():
        if turn.is_over:
            await turn.give_way()
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, labels, value, milliseconds = match.groups()
        what, _, field = name.partition("_")
        if field not in _FIELDS or what not in ("node", "container"):
            continue
        named = dict(_LABEL.findall(labels or ""))
        pod = (named.get("namespace", ""), named.get("pod", ""), named.get("container", ""))
        reading = found.setdefault(NODE if what == "node" else pod, Reading())
        setattr(reading, _FIELDS[field], _number(value))
        if _FIELDS[field] == "cpu":
            reading.at = int(milliseconds or 0) / 1000
    return found


def _number(text: str) -> float:
    """Return an amount; -1 for text that is none."""
    try:
        value = float(text)
    except ValueError:
        return -1.0
    return value if math.isfinite(value) and 0 <= value < 2**60 else -1.0


def usage_between(
    before: Mapping[Key, Reading],
    after: Mapping[Key, Reading],
    earlier: Mapping[Key, Usage] = MappingProxyType({}),
) -> dict[Key, Usage]:
    """Return what was used between two readings; of a new container, since its start.

    A kubelet reads its containers at different times, so some have the same reading twice. Their
    usage is the one of ``earlier``.
    """
    found: dict[Key, Usage] = {}
    for key, now in after.items():
        was = before.get(key)
        same = was is not None and was.started == now.started and now.cpu >= was.cpu >= 0
        if same and was and was.at == now.at:
            if key in earlier:
                found[key] = earlier[key]
                continue
            was = None
        begun, used = (was.at, now.cpu - was.cpu) if same and was else (now.started, now.cpu)
        if begun > 0 and now.at > begun and now.cpu >= 0 and now.memory >= 0:
            window = now.at - begun
            found[key] = Usage(used / window, int(now.memory), now.at, window)
    return found


@dataclass(slots=True)
class _Known:
    """The last reading of a node, when it was asked for, and what was used before it."""

    asked: float
    readings: dict[Key, Reading]
    usage: dict[Key, Usage]


class _Asking(asyncio.Lock):
    """Held while a kubelet is asked."""

    failed = -math.inf
    """When it last did not answer."""


class KubeletUsage:
    """What nodes use, read from their kubelets when it is asked for."""

    def __init__(
        self,
        kubelets: KubeletClient,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kubelets = kubelets
        self._clock = clock
        self._sleep = sleep
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._asking: WeakValueDictionary[str, _Asking] = WeakValueDictionary()
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def of(self, nodes: Iterable[Node]) -> dict[str, dict[Key, Usage]]:
        """Return the usage by node; nothing of nodes whose kubelets do not answer."""
        wanted = {node.metadata.name: node for node in nodes}
        found = await asyncio.gather(*map(self._of_node, wanted.values()))
        return dict(zip(wanted, found, strict=True))

    async def _of_node(self, node: Node) -> dict[Key, Usage]:
        # Another machine may have the name of one that is gone.
        name, uid = node.metadata.name, node.metadata.uid
        asking, came = self._asking.setdefault(uid, _Asking()), self._clock()
        async with asking:
            known, now = self._known.get(uid), self._clock()
            if known is not None and now - known.asked < _FRESH:
                return known.usage
            if asking.failed >= came:
                return {}  # Those who wait need not find out one after another.
            try:
                readings = await self._read(node)
                if known is None or now - known.asked >= _KEPT:
                    known = _Known(now, readings, {})
                    readings = await self._read_later(node, readings)
            except KubeletError as error:
                _log.debug("No usage of a node", node=name, error=str(error))
                asking.failed = self._clock()
                return {}
            usage = usage_between(known.readings, readings, known.usage)
            found = _Known(self._clock(), readings, usage)
            self._known[uid] = found
            self._known.move_to_end(uid)
            if len(self._known) > _MAX_NODES:
                self._known.popitem(last=False)
            return found.usage

    async def _read_later(self, node: Node, first: dict[Key, Reading]) -> dict[Key, Reading]:
        """Return the next reading that the kubelet has. Raises KubeletError."""
        readings, begun = first, first.get(NODE, Reading()).at
        until = self._clock() + _TRYING
        while self._clock() < until:
            await self._sleep(_PAUSE)
            readings = await self._read(node)
            if readings.get(NODE, Reading()).at > begun:
                break
        return readings

    async def _read(self, node: Node) -> dict[Key, Reading]:
        """Ask a kubelet. Raises KubeletError."""
        async with self._at_once:
            endpoint = await self._kubelets.endpoint(node)
            response = await self._kubelets.request(endpoint, "GET", _PATH, seconds=_ANSWER_SECONDS)
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await check_answer(endpoint, response)
                    body = bytearray()
                    async for piece in response.content.iter_any():
                        body += piece
                        if len(body) > _MAX_BYTES:
                            raise KubeletError(f"{endpoint}: {_PATH} exceeds {_MAX_BYTES} bytes")
            except (aiohttp.ClientError, OSError) as error:
                raise KubeletError(f"{endpoint}: the answer broke off: {error}") from None
            finally:
                response.close()
        return await readings_of(body.decode("utf-8", "replace"))
