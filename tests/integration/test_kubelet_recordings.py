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
from support.eventually import PATIENCE

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
#: What others have changed in the recorded cluster, but not here.
OF_OTHERS: Final = frozenset({"taints", "generation"})
END_OF_OBJECTS: Final = "k8s.io/initial-events-end"
#: Workloads that users make and change, by kind.
WORKLOADS: Final = {
    "Deployment": "deployments",
    "DaemonSet": "daemonsets",
    "StatefulSet": "statefulsets",
    "Job": "jobs",
}
#: Of how many seconds a watch is told to last that does not end with a bookmark.
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
            if key in CHOSEN | OF_OTHERS | bound or not (ours.get(key) or theirs.get(key)):
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

    def __init__(self, session: aiohttp.ClientSession, root: str, recording: str) -> None:
        self._recording = recording
        self._session = session
        self._root = root
        #: Our ids and versions by the recorded ones.
        self._ours: dict[str, str] = {}
        #: The recorded ids of pods that are bound, and of those whose deletion was asked for.
        self._bound: set[str] = set()
        self._deleted: set[str] = set()
        #: The recorded generations of workloads, by their recorded ids.
        self._generations: dict[str, int] = {}
        self.differing: list[str] = []
        self.said = 0

    async def all(self) -> None:
        """Replay the recording."""
        for line in lines_of(self._recording):
            if "method" in line:
                if line["status"] == 404 and "/pods/" in line["path"]:
                    await self.no_pod(line["path"])
                await self.say(line)
            elif "event" in line and line["event"]["type"] in ("ADDED", "MODIFIED"):
                await self.be(line["event"]["object"])
            elif (
                "event" in line
                and line["event"]["type"] == "DELETED"
                and self._recording != "kubelet"
            ):
                await self._be_gone(line["event"]["object"])

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
                return answer.status, json.loads(text), answer.headers["Content-Type"]
            except ValueError:
                return answer.status, text, answer.headers["Content-Type"]

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
        if exchange["status"] == 201 and "generateName" in body["metadata"]:
            body["metadata"]["name"] = recorded["metadata"]["name"]
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
        if "/pods" in path and self._recording != "kubelet":
            for pod in (content, recorded):
                del pod["status"]  # which the kubelet has written
                del pod["spec"]["volumes"], pod["spec"]["containers"][0]["volumeMounts"]  # tokens
        self.differing += (f"{where}{d}" for d in differences(content, self._translated(recorded)))

    async def _watch(self, exchange: Exchange) -> None:
        """Watch until the bookmark that ends the objects that exist."""
        path, _, query = exchange["path"].partition("?")
        asked = dict(parse_qsl(query))
        seconds = PATIENCE if "sendInitialEvents" in asked else WATCH_SECONDS
        asked["timeoutSeconds"] = f"{seconds:.0f}"
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

    async def be(self, found: Mapping[str, Any]) -> None:
        """Do what others have done to an object, as its recorded state tells."""
        if found["kind"] == "Pod":
            await self._be_pod(found)
        elif plural := WORKLOADS.get(found["kind"]):
            await self._be_workload(found, plural)

    async def _be_pod(self, pod: Mapping[str, Any]) -> None:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        pods = f"/api/v1/namespaces/{metadata['namespace']}/pods"
        path, uid = f"{pods}/{metadata['name']}", metadata["uid"]
        if uid not in self._ours:
            if self._recording != "kubelet" and "ownerReferences" in metadata:
                return  # The controller manager makes it.
            await self.no_pod(path)
            spec = {k: v for k, v in pod["spec"].items() if k != "nodeName"}
            await self._make("POST", pods, pod, spec)
        elif "finalizers" not in metadata:
            removal = {"metadata": {"finalizers": None}}
            await self.ask("admin", "PATCH", path, removal, "application/merge-patch+json")
        if node and uid not in self._bound:
            self._bound.add(uid)
            binding = {
                "metadata": {"name": metadata["name"]},
                "target": {"kind": "Node", "name": node},
            }
            await self.admin("POST", f"{path}/binding", binding)
        grace = metadata.get("deletionGracePeriodSeconds")
        # A pod without finalizers is deleted with 0 by its kubelet alone.
        wanted = bool(grace) or (grace == 0 and "finalizers" in metadata)
        if wanted and uid not in self._deleted:
            self._deleted.add(uid)
            await self.admin("DELETE", f"{path}?gracePeriodSeconds={grace}")

    async def _be_gone(self, found: Mapping[str, Any]) -> None:
        """Remove a pod as its kubelet does."""
        metadata = found["metadata"]
        if found["kind"] == "Pod" and metadata["uid"] in self._ours:
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            uid = self._ours[metadata["uid"]]
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            await self.ask("admin", "DELETE", path, options)

    async def _be_workload(self, found: Mapping[str, Any], plural: str) -> None:
        """Create it, or change its spec as a user did: both give it a new generation."""
        metadata, group = found["metadata"], found["apiVersion"]
        uid, path = metadata["uid"], f"/apis/{group}/namespaces/{metadata['namespace']}/{plural}"
        if metadata["generation"] <= self._generations.get(uid, 0):
            return
        self._generations[uid] = metadata["generation"]
        if uid in self._ours:
            await self._make("PUT", f"{path}/{metadata['name']}", found, found["spec"])
        else:
            spec = found["spec"]
            if found["kind"] == "Job":
                # Made by the server, of the uid.
                spec = {**spec, "selector": None, "template": {"spec": spec["template"]["spec"]}}
            await self._make("POST", path, found, spec)

    async def _make(self, method: str, path: str, found: Mapping[str, Any], spec: Any) -> None:
        kept = {k: v for k, v in found["metadata"].items() if k not in CHOSEN | OF_OTHERS}
        made = {"metadata": kept, "spec": spec}
        self._learn(await self.admin(method, path, self._translated(made)), found)

    async def no_pod(self, path: str) -> None:
        """Remove a pod if it exists."""
        await self.admin("DELETE", f"{path}?gracePeriodSeconds=0")


@asynccontextmanager
async def replay(tmp_path: Path, recording: str) -> AsyncIterator[Replay]:
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
            yield Replay(session, f"http://127.0.0.1:{server.kube_port}", recording)
    finally:
        await server.stop(0.5)
        await store.close()


async def test_what_a_kubelet_says_is_answered_as_recorded(tmp_path: Path) -> None:
    async with replay(tmp_path, "kubelet") as replaying:
        namespaces = "/api/v1/namespaces"
        account = {"metadata": {"name": "default"}}
        await replaying.admin("POST", f"{namespaces}/default/serviceaccounts", account)
        await replaying.all()
        assert replaying.said > 700
        assert replaying.differing == []


async def test_what_a_controller_manager_says_is_answered_as_recorded(tmp_path: Path) -> None:
    async with replay(tmp_path, "controller-manager") as replaying:
        await replaying.admin("POST", "/api/v1/nodes", {"metadata": {"name": "node-a"}})
        await replaying.all()
        assert replaying.said > 400
        assert replaying.differing == []
