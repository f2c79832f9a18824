"""A server that answers from exchanges recorded with kube-apiserver v1.36, and a client of it.

What differs from run to run stands in the recordings as ``<kind:N>`` or ``<kind>``: here it gets a
value of its form, the same for the same placeholder.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from podsched.serve.kube.access import ClusterAccess
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.status import error_of

FOLDER = Path(__file__).parents[1] / "integration" / "kube_api"
TOPICS = tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))
_PLACEHOLDER = re.compile(r"<([a-z]+)(?::(\w+))?>")
_VALUES = {
    "created": "2024-01-02T03:04:05Z",
    "time": "2024-01-02T03:04:05Z",
    "microtime": "2024-01-02T03:04:05.000001Z",
    "number": "7",
    "rand": "abcde",
}


class Sent(NamedTuple):
    """A request as the client made it."""

    method: str
    path: str
    body: Any


def filled(text: str) -> str:
    """A recorded text with values in the place of its placeholders."""

    def value(found: re.Match[str]) -> str:
        kind, number = found[1], found[2]
        if kind == "uid":
            return f"00000000-0000-4000-8000-{int(number):012}"
        if kind in ("rv", "listrv"):
            return str(int(number) + (1000 if kind == "listrv" else 0))
        return _VALUES.get(kind, "x") if number or kind in _VALUES else found[0]

    return _PLACEHOLDER.sub(value, text)


@lru_cache(None)
def exchanges(topic: str) -> Mapping[str, Mapping[str, Any]]:
    """The exchanges of a topic by their names within it."""
    lines = (FOLDER / f"{topic}.jsonl").read_text().splitlines()
    found = [json.loads(filled(line)) for line in lines]
    return {each["id"].partition("/")[2]: each for each in found}


def exchange(id_: str) -> Mapping[str, Any]:
    """An exchange by its id, topic/name."""
    topic, _, name = id_.partition("/")
    return exchanges(topic)[name]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Everything in an answer that is an object, or a member of a list of them."""
    if isinstance(value, list):
        for item in value:
            yield from objects(item)
    elif isinstance(value, dict):
        if kind := str(value.get("kind", "")).removesuffix("List"):
            for item in value.get("items") or ():
                yield {"kind": kind, "apiVersion": value["apiVersion"], **item}
            yield value
        else:
            yield from objects(list(value.values()))


class RecordedHttp(KubeHttp):
    """Gets the answers of these exchanges, one after the other; ``sent`` is what it asked."""

    def __init__(self, *ids: str) -> None:
        super().__init__(ClusterAccess("http://kubernetes"), timeout=1.0)
        self._left = deque(exchange(each)["response"] for each in ids)
        self.sent: list[Sent] = []

    async def _once(self, method: str, path: str, *arguments: Any) -> bytes:
        data = arguments[1]
        self.sent.append(Sent(method, path, json.loads(data) if data else None))
        answer = self._left.popleft()
        if answer["status"] >= 400:
            raw = json.dumps(answer["body"]).encode()
            raise error_of(answer["status"], raw, answer.get("headers"))
        return json.dumps(answer["body"]).encode()

    async def lines(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[list[bytes], None]:
        self.sent.append(Sent("WATCH", path, dict(params)))
        if not self._left:
            await asyncio.Event().wait()
        answer = self._left.popleft()
        if answer["status"] >= 400:
            raise error_of(answer["status"], json.dumps(answer["body"]).encode())
        for event in answer["events"]:
            yield [json.dumps(event).encode()]
