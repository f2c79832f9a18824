"""What a stock kubelet v1.36 and controller manager said to a kube-apiserver, said to podsched.

The recordings lie in ../shared/stock-parts, beside the checkout. They hold what the two clients
asked and were answered; what others did meanwhile (users, a scheduler) is derived from the answers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from podsched.serve.server.access.settings import ServiceAccountSettings
from podsched.serve.server.access.tokens import hash_of
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from support.api_servers import start_api_server

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = next(
    (found for folder in ROOT.parents if (found := folder / "shared" / "stock-parts").is_dir()),
    None,
)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(RECORDINGS is None, reason="no ../shared/stock-parts beside the checkout"),
]

#: Users of the recorded clients, and their groups.
USERS: Final = {
    "admin": ("admin", "system:masters"),
    "kubelet": ("system:node:node-a", "system:nodes"),
    "kube-controller-manager": ("system:kube-controller-manager", "system:masters"),
}
#: What a server chooses itself, and what is not kept here (docs/kubernetes.md).
CHOSEN: Final = frozenset(
    {"managedFields", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"}
    | {"token", "expirationTimestamp", "audiences"}
)
#: What others have changed in the recorded cluster and nobody changes here.
OF_OTHERS: Final = frozenset({"taints", "generation"})
END_OF_OBJECTS: Final = "k8s.io/initial-events-end"
#: Of how many seconds a watch is told to last.
WATCH_SECONDS: Final = 1

Exchange = dict[str, Any]


def lines_of(name: str) -> Iterator[Exchange]:
    """A recording's requests with their answers, and the events of watches, in order of time."""
    assert RECORDINGS is not None
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line.replace("<node-ip>", "192.0.2.1"))


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where an answer differs from the recorded one."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        # The server sets this condition when it binds.
        bound = {"lastTransitionTime"} if ours.get("type") == "PodScheduled" else set()
        for key in sorted(ours.keys() | theirs.keys()):
            if key in CHOSEN | OF_OTHERS | bound or ours.get(key) is None is theirs.get(key):
                continue
            if key not in ours or key not in theirs:
                lacking = "lacks" if key not in ours else "has also"
                yield f"{path}: {lacking} {key}: {str(theirs.get(key, ours.get(key)))[:100]}"
            else:
                yield from differences(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {str(ours)[:100]!r}, not {str(theirs)[:100]!r}"


class Replay:
    """A client that says what was recorded, and a user that does what others did meanwhile."""

    def __init__(self, session: aiohttp.ClientSession, root: str) -> None:
        self._session = session
        self._root = root
        #: Our ids and versions by the recorded ones.
        self._ours: dict[str, str] = {}
        self._deleted: set[str] = set()
        self.differing: list[str] = []
        self.said = 0

    async def ask(
        self, user: str, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any, str]:
        """Status, content and content type of an answer."""
        headers = {"Authorization": f"Bearer {user}", "Content-Type": kind}
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._root + path, data=data, headers=headers
        ) as answer:
            text = await answer.text()
            try:
                return answer.status, json.loads(text), answer.content_type
            except ValueError:
                return answer.status, text, answer.content_type

    async def admin(self, method: str, path: str, body: Any = None) -> Any:
        status, content, _ = await self.ask("admin", method, path, body)
        assert status in (200, 201, 202, 404), (path, content)
        return content

    async def say(self, exchange: Exchange) -> None:
        """Send a recorded request, and note how its answer differs."""
        self.said += 1
        if exchange.get("watch"):
            await self._watch(exchange)
            return
        recorded = exchange.get("answer")
        path = exchange["path"]
        kind = exchange["headers"].get("Content-Type", "application/json")
        body = self._translated(exchange["body"])
        status, content, content_type = await self.ask(
            exchange["client"], exchange["method"], path, body, kind
        )
        where = f"{exchange['n']} {exchange['method']} {path.partition('?')[0]}"
        if status != exchange["status"]:
            self.differing.append(f"{where}: {status}, not {exchange['status']}: {content}")
            return
        if content_type != exchange["content_type"]:
            self.differing.append(f"{where}: {content_type}, not {exchange['content_type']}")
        self._learn(content, recorded)
        self.differing += (f"{where}{d}" for d in differences(content, self._translated(recorded)))

    async def _watch(self, exchange: Exchange) -> None:
        """Watch until the bookmark that ends the objects that exist."""
        path, _, query = exchange["path"].partition("?")
        asked = dict(parse_qsl(query))
        asked["timeoutSeconds"] = str(WATCH_SECONDS)
        for name in ("timeout", "resourceVersion"):
            asked.pop(name, None)
        headers = {"Authorization": f"Bearer {exchange['client']}"}
        where = f"{exchange['n']} WATCH {exchange['path']}"
        async with self._session.get(
            f"{self._root}{path}?{urlencode(asked)}", headers=headers
        ) as answer:
            if answer.status != 200 or answer.content_type != exchange["content_type"]:
                self.differing.append(f"{where}: {answer.status}: {await answer.text()}")
                return
            async for line in answer.content:
                event = json.loads(line)
                annotations = event["object"]["metadata"].get("annotations", {})
                if event["type"] == "BOOKMARK" and annotations.get(END_OF_OBJECTS) == "true":
                    return
            if "sendInitialEvents" in asked:
                self.differing.append(f"{where}: no bookmark ends the objects")

    def _learn(self, ours: Any, theirs: Any) -> None:
        """Remember what the server chose in place of the recorded one."""
        if isinstance(ours, dict) and isinstance(theirs, dict):
            for key in ours.keys() & theirs.keys():
                if key in ("uid", "resourceVersion"):
                    self._ours[theirs[key]] = ours[key]
                else:
                    self._learn(ours[key], theirs[key])
        elif isinstance(ours, list) and isinstance(theirs, list):
            for one, other in zip(ours, theirs, strict=False):
                self._learn(one, other)

    def _translated(self, content: Any, key: str = "") -> Any:
        """Recorded content with our ids and versions."""
        if isinstance(content, dict):
            return {name: self._translated(value, name) for name, value in content.items()}
        if isinstance(content, list):
            return [self._translated(value) for value in content]
        if isinstance(content, str) and (key == "resourceVersion" or len(content) == 36):
            return self._ours.get(content, content)
        return content

    # ------------------------------------------------------------------ others

    async def be_pod(self, pod: Mapping[str, Any]) -> None:
        """Do to a pod what others have done to it, as its recorded state tells."""
        metadata = pod["metadata"]
        pods = f"/api/v1/namespaces/{metadata['namespace']}/pods"
        path = f"{pods}/{metadata['name']}"
        if metadata["uid"] not in self._ours:
            await self.no_pod(path)
            kept = {k: v for k, v in metadata.items() if k not in CHOSEN | OF_OTHERS}
            spec = {k: v for k, v in pod["spec"].items() if k != "nodeName"}
            made = await self.admin("POST", pods, {"metadata": kept, "spec": spec})
            node = {"kind": "Node", "name": pod["spec"]["nodeName"]}
            binding = {"metadata": {"name": metadata["name"]}, "target": node}
            await self.admin("POST", f"{path}/binding", binding)
            self._learn(made, pod)
        elif "finalizers" not in metadata:
            removal = {"metadata": {"finalizers": None}}
            await self.ask("admin", "PATCH", path, removal, "application/merge-patch+json")
        grace = metadata.get("deletionGracePeriodSeconds")
        # A pod without finalizers is deleted with 0 by its kubelet alone.
        wanted = bool(grace) or (grace == 0 and "finalizers" in metadata)
        if wanted and metadata["uid"] not in self._deleted:
            self._deleted.add(metadata["uid"])
            await self.admin("DELETE", f"{path}?gracePeriodSeconds={grace}")

    async def no_pod(self, path: str) -> None:
        """Remove a pod if it exists."""
        await self.admin("DELETE", f"{path}?gracePeriodSeconds=0")


@asynccontextmanager
async def replay(tmp_path: Path) -> AsyncIterator[Replay]:
    """A replay against a server of its own."""
    tokens, key = tmp_path / "tokens", tmp_path / "sa.key"
    tokens.write_text(
        "".join(f"{hash_of(token)},{user},{group},\n" for token, (user, group) in USERS.items())
    )
    made = ec.generate_private_key(ec.SECP256R1())
    key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    accounts = ServiceAccountSettings(token_key=str(key))
    settings = ServerSettings(
        kube_listen="127.0.0.1:0", token_file=str(tokens), service_accounts=accounts
    )
    store = MemoryStore()
    server = await start_api_server(settings, store)
    try:
        async with aiohttp.ClientSession() as session:
            yield Replay(session, f"http://127.0.0.1:{server.kube_port}")
    finally:
        await server.stop(0.5)
        await store.close()


async def test_what_a_kubelet_says_is_answered_as_recorded(tmp_path: Path) -> None:
    async with replay(tmp_path) as replaying:
        namespaces = "/api/v1/namespaces"
        account = {"metadata": {"name": "default"}}
        await replaying.admin("POST", f"{namespaces}/default/serviceaccounts", account)
        for line in lines_of("kubelet"):
            if "method" in line:
                if line["status"] == 404 and "/pods/" in line["path"]:
                    await replaying.no_pod(line["path"])
                await replaying.say(line)
                continue
            event = line.get("event", {})
            if event.get("type") in ("ADDED", "MODIFIED") and event["object"]["kind"] == "Pod":
                await replaying.be_pod(event["object"])
        assert replaying.said > 700
        assert replaying.differing == []
