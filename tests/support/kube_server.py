"""A small kube-apiserver: what a scheduler asks of one, by the rules of recorded exchanges.

``KubeStore`` has the rules and no sockets; ``MemoryHttp`` is a client of it within the process,
``serve`` puts it behind a port. Faults are asked for by tests: answers that come instead, history
that is forgotten, watches that break, a server that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from podsched.api.kinds import KINDS
from podsched.serve.client.errors import Unavailable
from podsched.serve.kube.access import ClusterAccess
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.status import error_of

Json = dict[str, Any]
_KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "leases": "Lease",
    "leasecandidates": "LeaseCandidate",
    "events": "Event",
    "namespaces": "Namespace",
    "persistentvolumes": "PersistentVolume",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "storageclasses": "StorageClass",
    "priorityclasses": "PriorityClass",
}


class Answer(NamedTuple):
    status: int
    body: Json
    headers: Mapping[str, str] = {}


class Target(NamedTuple):
    """What a path names."""

    plural: str
    namespace: str
    name: str
    subresource: str
    api_version: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def refusal(
    code: int, reason: str, message: str, *, retry_after: int = 0, **details: Any
) -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body = {**status, "message": message, "reason": reason, "details": details, "code": code}
    return Answer(code, body, {"Retry-After": str(retry_after)} if retry_after else {})


@dataclass
class _Change:
    version: int
    plural: str
    type: str
    object: Json
    before: Json | None


@dataclass
class _Fault:
    matches: Callable[[str, str], bool]
    answer: Answer
    times: int


@dataclass
class KubeStore:
    """Objects, their history, and the requests that were made."""

    streams_lists: bool = True
    ends_lists: bool = True
    """Whether the end of a streamed list is told; old servers ignore that one was asked for."""
    version: int = 100
    objects: dict[str, dict[str, Json]] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    """Writes: method, path, body."""
    bound: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._history: list[_Change] = []
        self._forgotten = 0
        self._faults: list[_Fault] = []
        self._changed = asyncio.Event()
        self._epoch = 0
        self.watch_errors: list[Answer] = []
        self.down = False
        self.may_watch = True
        #: API versions that are not served.
        self.absent: set[str] = set()

    # ------------------------------------------------------------------ the hand of the test

    def put(self, plural: str, content: Json) -> Json:
        """Store an object as a client would see it."""
        metadata = content.setdefault("metadata", {})
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", "2024-01-02T03:04:05Z")
        namespace = metadata.get("namespace")
        key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
        before = self.objects.setdefault(plural, {}).get(key)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self.objects[plural][key] = content
        self._note(
            _Change(self.version, plural, "MODIFIED" if before else "ADDED", content, before)
        )
        return content

    def pod(self, name: str, **spec: Any) -> Json:
        """Store a pending pod."""
        container = {"name": "c", "resources": {"requests": {"cpu": spec.pop("cpu", "100m")}}}
        wanted = {"schedulerName": "default-scheduler", "containers": [container], **spec}
        metadata = {"name": name, "namespace": "default", "generation": 1}
        return self.put(
            "pods", {"metadata": metadata, "spec": wanted, "status": {"phase": "Pending"}}
        )

    def node(self, name: str, cpu: str = "4") -> Json:
        """Store a node."""
        allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name}
        status = {"allocatable": allocatable, "capacity": allocatable}
        return self.put(
            "nodes", {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}
        )

    def remove(self, plural: str, key: str) -> Json:
        """Take an object away."""
        gone = deepcopy(self.objects[plural].pop(key))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._note(_Change(self.version, plural, "DELETED", gone, gone))
        return gone

    def forget(self) -> None:
        """Compact the history up to now, which breaks the watches."""
        self._forgotten = self.version
        self.break_watches()

    def break_watches(self) -> None:
        """End all watches."""
        self._epoch += 1
        self._wake()

    def fail(self, answer: Answer, *, method: str = "", path: str = "", times: int = 1) -> None:
        """Answer the next requests that match in this way."""

        def matches(asked: str, at: str) -> bool:
            return method in ("", asked) and path in at

        self._faults.append(_Fault(matches, answer, times))

    def replay(self, type_: str, plural: str, content: Json) -> None:
        """Send a change to watches once more, late."""
        self._history.append(_Change(self.version + 1, plural, type_, deepcopy(content), content))
        self.version += 1
        self._wake()

    def allow(self) -> None:
        """Answer as usual from now on."""
        self._faults.clear()

    def writes(self, method: str, path: str = "") -> list[Any]:
        """Return the bodies of the writes that were made."""
        return [body for m, p, body in self.requests if m == method and path in p]

    def _note(self, change: _Change) -> None:
        self._history.append(
            _Change(
                change.version, change.plural, change.type, deepcopy(change.object), change.before
            )
        )
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # ------------------------------------------------------------------ requests

    def handle(
        self, method: str, path: str, params: Mapping[str, str], body: Any, form: str
    ) -> Answer:
        """Answer a request."""
        for fault in self._faults:
            if fault.times and fault.matches(method, path):
                fault.times -= 1
                return fault.answer
        if method != "GET":
            self.requests.append((method, path, body))
        root, _, version = path.strip("/").partition("/")
        if root == "apis" and version.count("/") == 1:
            return self._discovered(version)
        target = _target(path)
        if method == "GET" and not target.name:
            return self._list(target, params)
        if method == "POST":
            return self._post(target, body)
        known = self.objects.get(target.plural, {}).get(target.key)
        if known is None:
            return _not_found(target)
        if method == "GET":
            return Answer(200, deepcopy(known))
        if method == "DELETE":
            return self._delete(target, known, body or {})
        return self._replace(method, target, known, body, form)

    def _discovered(self, version: str) -> Answer:
        if version in self.absent:
            return refusal(404, "NotFound", "the server could not find the requested resource")
        kinds = [kind for kind in KINDS.values() if kind.api_version == version]
        return Answer(200, {"resources": [{"name": kind.plural} for kind in kinds]})

    def _list(self, target: Target, params: Mapping[str, str]) -> Answer:
        chosen = _selection(params)
        found = [
            item
            for key, item in sorted(self.objects.get(target.plural, {}).items())
            if (not target.namespace or key.startswith(f"{target.namespace}/")) and chosen(item)
        ]
        start, limit = int(params.get("continue", 0)), int(params.get("limit", 0)) or len(found)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(found):
            metadata["continue"] = str(start + limit)
        kind = _KINDS.get(target.plural, "Object")
        items = deepcopy(found[start : start + limit])
        return Answer(200, {"kind": f"{kind}List", "metadata": metadata, "items": items})

    def _post(self, target: Target, body: Json) -> Answer:
        pods = self.objects.setdefault("pods", {})
        if target.subresource in ("binding", "eviction"):
            pod = pods.get(target.key)
            if pod is None:
                return _not_found(target)
            if target.subresource == "eviction":
                return self._delete(target, pod, body.get("deleteOptions") or {}, 201)
            return self._bind(target, pod, body)
        metadata = body["metadata"]
        key = f"{target.namespace}/{metadata['name']}" if target.namespace else metadata["name"]
        if key in self.objects.get(target.plural, {}):
            return refusal(409, "AlreadyExists", f'{target.plural} "{key}" already exists')
        created = deepcopy(body)
        created["metadata"].setdefault("namespace", target.namespace)
        return Answer(201, deepcopy(self.put(target.plural, created)))

    def _bind(self, target: Target, pod: Json, body: Json) -> Answer:
        uid = body["metadata"].get("uid")
        if uid and uid != pod["metadata"]["uid"]:
            return _conflict("pods", target, "Precondition failed: UID in precondition")
        if node := pod["spec"].get("nodeName"):
            cause = f'pod {target.name} is already assigned to node "{node}"'
            return _conflict("pods/binding", target, cause)
        if pod["metadata"].get("deletionTimestamp"):
            return _conflict("pods/binding", target, f"pod {target.name} is being deleted")
        if pod["spec"].get("schedulingGates"):
            return _conflict("pods/binding", target, "has non-empty .spec.schedulingGates")
        bound = deepcopy(pod)
        bound["spec"]["nodeName"] = body["target"]["name"]
        others = [c for c in bound["status"].get("conditions", ()) if c["type"] != "PodScheduled"]
        bound["status"]["conditions"] = [*others, {"type": "PodScheduled", "status": "True"}]
        bound["status"].pop("nominatedNodeName", None)
        self.put("pods", bound)
        self.bound.append((target.key, body["target"]["name"]))
        return Answer(201, {"kind": "Status", "status": "Success", "code": 201})

    def _delete(self, target: Target, known: Json, options: Json, code: int = 200) -> Answer:
        wanted = options.get("preconditions") or {}
        if wanted.get("uid") not in (None, known["metadata"]["uid"]):
            return _conflict("Pod", target, "the UID in the precondition does not match")
        return Answer(code, self.remove(target.plural, target.key))

    def _replace(self, method: str, target: Target, known: Json, body: Json, form: str) -> Answer:
        metadata = body.get("metadata") or {}
        version = metadata.get("resourceVersion")
        if version not in (None, known["metadata"]["resourceVersion"]):
            return _conflict(target.plural, target, "the object has been modified")
        if metadata.get("uid") not in (None, known["metadata"]["uid"]):
            return _conflict(target.plural, target, "Precondition failed: UID in precondition")
        strategic = "strategic" in form
        fresh = deepcopy(body) if method == "PUT" else _merged(known, body, strategic=strategic)
        fresh["metadata"] = {**known["metadata"], **fresh.get("metadata", {})}
        if fresh != known:
            self.put(target.plural, fresh)
        return Answer(200, deepcopy(fresh))

    # ------------------------------------------------------------------ watches

    async def watch(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield lines until the watch breaks."""
        target, chosen, epoch = _target(path), _selection(params), self._epoch
        if self.watch_errors and params.get("resourceVersion"):
            yield _line("ERROR", self.watch_errors.pop(0).body)
            return
        seen = int(params.get("resourceVersion") or 0)
        if not seen:
            seen = self.version
            for key, item in sorted(self.objects.get(target.plural, {}).items()):
                if chosen(item) and (not target.namespace or key.startswith(target.namespace)):
                    yield _line("ADDED", item)
            if "sendInitialEvents" in params and self.ends_lists:
                yield _line(
                    "BOOKMARK", _bookmark(self.version, {"k8s.io/initial-events-end": "true"})
                )
        elif seen < self._forgotten:
            yield _line("ERROR", refusal(410, "Expired", f"too old resource version: {seen}").body)
            return
        while self._epoch == epoch and not self.down:
            changed = self._changed
            for change in [c for c in self._history if c.version > seen]:
                seen = change.version
                if change.plural == target.plural and (line := _seen(change, chosen)):
                    yield line
            await changed.wait()


def _target(path: str) -> Target:
    parts = path.strip("/").split("/")
    at = 2 if parts[0] == "api" else 3
    version, rest = "/".join(parts[1:at]), parts[at:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return Target(*[*rest, "", "", ""][:1], namespace, *[*rest[1:], "", ""][:2], version)


def _not_found(target: Target) -> Answer:
    return refusal(404, "NotFound", f'{target.plural} "{target.name}" not found')


def _conflict(kind: str, target: Target, cause: str) -> Answer:
    return refusal(
        409, "Conflict", f'Operation cannot be fulfilled on {kind} "{target.name}": {cause}'
    )


def _selection(params: Mapping[str, str]) -> Callable[[Json], bool]:
    terms = [term for term in params.get("fieldSelector", "").split(",") if term]

    def chosen(item: Json) -> bool:
        for term in terms:
            name, value = term.replace("!=", "=").split("=")
            found: Any = item
            for part in name.split("."):
                found = found.get(part, "") if isinstance(found, dict) else ""
            if (found == value) == ("!=" in term):
                return False
        return True

    return chosen


def _seen(change: _Change, chosen: Callable[[Json], bool]) -> bytes:
    """Return what a watch with a selection sees of a change, b"" for nothing."""
    before, after = change.before, None if change.type == "DELETED" else change.object
    was, now = before is not None and chosen(before), after is not None and chosen(after)
    if not was and not now:
        return b""
    type_ = "DELETED" if not now else "MODIFIED" if was else "ADDED"
    return _line(type_, change.object)


def _line(type_: str, item: Json) -> bytes:
    return json.dumps({"type": type_, "object": item}).encode() + b"\n"


def _bookmark(version: int, annotations: Json) -> Json:
    return {"metadata": {"resourceVersion": str(version), "annotations": annotations}}


def _merged(target: Any, patch: Any, *, strategic: bool) -> Any:
    if strategic and isinstance(patch, list):
        known = {item["type"]: item for item in target or ()}
        for item in patch:
            known[item["type"]] = _merged(known.get(item["type"], {}), item, strategic=True)
        return list(known.values())
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value, strategic=strategic)
    return result


class MemoryHttp(KubeHttp):
    """A client of a store in this process: everything but the sockets is real."""

    def __init__(self, store: KubeStore, **options: Any) -> None:
        super().__init__(ClusterAccess("http://kubernetes"), **options)
        self._store = store

    async def _once(self, method: str, path: str, *arguments: Any) -> bytes:
        params, data, headers, _, before = arguments
        if before is not None:
            before()
        if self._store.down:
            raise Unavailable("cannot connect")
        await asyncio.sleep(0)
        body = json.loads(data) if data else None
        form = headers.get("Content-Type", "")
        answer = self._store.handle(method, path, params or {}, body, form)
        if answer.status >= 400:
            raise error_of(answer.status, json.dumps(answer.body).encode(), answer.headers)
        return json.dumps(answer.body).encode()

    async def lines(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[list[bytes], None]:
        if self._store.down:
            raise Unavailable("cannot connect")
        if "sendInitialEvents" in params and not self._store.streams_lists:
            raise error_of(
                422,
                json.dumps(refusal(422, "Invalid", "sendInitialEvents is forbidden").body).encode(),
            )
        if not self._store.may_watch:
            denied = refusal(403, "Forbidden", "may not watch").body
            raise error_of(403, json.dumps(denied).encode())
        async for line in self._store.watch(path, params):
            yield [line.rstrip()]
        if self._store.down:
            raise Unavailable("the connection broke")


@asynccontextmanager
async def serve(
    store: KubeStore, port: int = 0, *, tls: ssl.SSLContext | None = None, token: str = ""
) -> AsyncIterator[str]:
    """Serve a store on a port of loopback, to those who show the token; yields the URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if token and request.headers.get("Authorization") != f"Bearer {token}":
            denied = refusal(401, "Unauthorized", "Unauthorized")
            return web.json_response(denied.body, status=401)
        params = dict(request.query)
        if params.get("watch") and "sendInitialEvents" in params and not store.streams_lists:
            denied = refusal(422, "Invalid", "sendInitialEvents is forbidden")
            return web.json_response(denied.body, status=422)
        if params.get("watch"):
            response = web.StreamResponse()
            response.content_type = "application/json"
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):  # the client is gone
                async for line in store.watch(request.path, params):
                    await response.write(line)
            return response
        raw = await request.read()
        body = json.loads(raw) if raw else None
        form = request.headers.get("Content-Type", "")
        found = store.handle(request.method, request.path, params, body, form)
        return web.json_response(found.body, status=found.status, headers=found.headers)

    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        store.break_watches()
        await runner.cleanup()
