"""Requests of Kubernetes' REST API as an attacker would send them: ordinary ones, oddly changed.

Everything follows from a seed. Resources, their groups and their subresources are those that the
server has, so that new ones are attacked without a change here.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode

import yaml

from podsched.api.kinds import KINDS
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.serve.server.rest.resources import GROUPS, Resource
from support.fuzz_requests import (
    DIRECTIVES,
    NAMES,
    NAMESPACES,
    RAW_JSON,
    SEEDS,
    TOKENS,
)
from support.fuzz_values import SELECTORS, odd_text, odd_value

PROTOBUF = "application/vnd.kubernetes.protobuf"
_METHODS = (*("GET", "POST", "PUT", "PATCH", "PATCH", "DELETE") * 5, "HEAD", "OPTIONS", "TRACE")
_RESOURCES = [
    (group, version, resource)
    for (group, version), resources in GROUPS.items()
    for resource in resources.values()
]
_OTHER_PATHS = (
    "/", "/api", "/apis", "/api/v1", "/openapi/v3", "/openapi/v2", "/version", "/healthz",
    "/readyz", "/livez?verbose", "/metrics", "/apis/apps/v1", "/openapi/v3/api/v1", "/api/v1/",
    "//", "/api//v1",
)  # fmt: skip
_AS = "as={};g=meta.k8s.io;v=v1"
_ACCEPTS = (
    "application/json", "application/json", "*/*", "", "application/yaml", "text/html", "a", ";;;",
    "application/json;" + _AS.format("Table"), "application/json;" + _AS.format("Unknown"),
    "application/json;" + _AS.format("PartialObjectMetadata"), "application/json;q=x",
    "application/json;" + _AS.format("PartialObjectMetadataList"),
    "application/vnd.kubernetes.protobuf", "application/cbor", "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf,application/json", "application/json," * 500,
)  # fmt: skip
_APPLY = "application/apply-patch+yaml"
_TYPES = {
    "POST": ("application/json", "application/json", "application/yaml", PROTOBUF),
    "PUT": ("application/json", "application/yaml"),
    "DELETE": ("application/json", ""),
    "PATCH": (
        "application/merge-patch+json", "application/strategic-merge-patch+json",
        "application/json-patch+json", _APPLY,
    ),
}  # fmt: skip
_ODD_TYPES = ("application/json; charset=x", "text/plain", "application/cbor", "multipart/x", "//")
#: Of a body: aiohttp warns of larger ones, and a warning is an error here.
_MOST_BYTES = 1 << 20
_ODD_DIGITS = ("\u00b2", "\u0663")
_NUMBERS = (
    "",
    "0",
    "1",
    "-1",
    "5",
    "9223372036854775808",
    "1e3",
    "x",
    "0x1",
    "9" * 5000,
    *_ODD_DIGITS,
)
_FLAGS = ("true", "false", "1", "", "x")
_QUERY: dict[str, tuple[str, ...]] = {
    "labelSelector": SELECTORS, "fieldSelector": SELECTORS, "limit": _NUMBERS, "continue": TOKENS,
    "resourceVersion": _NUMBERS, "timeoutSeconds": ("0", "1", "-1", "x"), "watch": _FLAGS,
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"), "allowWatchBookmarks": _FLAGS,
    "sendInitialEvents": _FLAGS, "dryRun": ("All", "all", ""), "fieldManager": ("a", "", "x" * 200),
    "force": _FLAGS, "fieldValidation": ("Strict", "Warn", "Ignore", "x"), "pretty": _FLAGS,
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"), "exclude": ("ping",),
    "gracePeriodSeconds": _NUMBERS, "orphanDependents": _FLAGS, "includeObject": ("None", "x"),
}  # fmt: skip
#: Lines of a head that proxies and servers have read differently.
_ODD_LINES = (
    "Transfer-Encoding: chunked", "Transfer-Encoding: x, chunked", "Content-Length: 3", "Host : b",
    "Expect: 100-continue", "Connection: close", "Connection: Upgrade\r\nUpgrade: websocket",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAQAAAAA", " folded",
    "Content-Encoding: gzip", "X: " + "x" * 9000, *["X: x"] * 3,
)  # fmt: skip
#: Members of a spec that are bulky at times, those in which most went wrong more often.
_LISTS = (
    "containers", "containers", "tolerations", "taints", "ports", "rules", "x", "volumes",
    "hostAliases", "topologySpreadConstraints", "schedulingGates", "podGroupTemplates",
)  # fmt: skip
_OPS = ("add", "remove", "replace", "move", "copy", "test", "x")
_POINTERS = (
    "", "/", "/metadata/labels/a", "/metadata/labels", "/spec/containers/0", "/spec/containers/-",
    "/spec/containers/99999999999", "/spec", "/status", "/metadata/name", "/~2", "a", "/spec/-1",
    "/metadata/finalizers/0", "/metadata/managedFields", "/spec/nodeName",
)  # fmt: skip


def _member(number: int, content: bytes | str) -> bytes:
    """A field of bytes in the form of the wire."""
    raw = content.encode() if isinstance(content, str) else content
    size, length = len(raw), []
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + raw


class HttpRequest(NamedTuple):
    """One request; target: path and query as they are sent."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_ambiguous(self) -> bool:
        """Whether it may ask for a dry run or not, so that to write anything is wrong.

        As in Kubernetes, the query of a deletion that has a body is ignored.
        """
        path, _, query = self.target.partition("?")
        writes = self.method in ("POST", "PUT", "PATCH", "DELETE") and path not in _OTHER_PATHS
        if not writes or (self.method == "DELETE" and self.body.strip()):
            return False
        wished = parse_qs(query, keep_blank_values=True).get("dryRun", [])
        return "All" in wished and set(wished) != {"All"}

    def __repr__(self) -> str:
        return f"{self.method} {self.target[:1000]} {self.headers} {self.body[:3000]!r}"


class HttpFuzzer:
    """Makes one request from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def request(self) -> HttpRequest:
        """A request that fits a resource, changed up to a few times."""
        rng = self._rng
        method = rng.choice(_METHODS)
        path = rng.choice(_OTHER_PATHS) if rng.random() < 0.05 else self._path(method)
        headers = {"Accept": rng.choice(_ACCEPTS)} if rng.random() < 0.25 else {}
        body = b""
        if types := _TYPES.get(method):
            content_type = rng.choice(types if rng.random() < 0.95 else _ODD_TYPES)
            headers["Content-Type"] = content_type
            body = self._body(method, content_type)
        query = self._query(method, path)
        if headers.get("Content-Type") == _APPLY and "?" not in path and rng.random() < 0.9:
            manager = f"?fieldManager={rng.choice('ab')}&force={rng.choice(_FLAGS)}"
            query = f"{manager}&{query[1:]}" if query else manager
        return HttpRequest(method, f"{path}{query}", headers, body)

    def rude(self) -> bytes:
        """The bytes of a request that stops half way, has more behind it, or is no HTTP at all."""
        rng, request = self._rng, self.request()
        headers = {"Host": "a", "Content-Length": str(len(request.body)), **request.headers}
        lines = [f"{name}: {value}" for name, value in headers.items()]
        lines += rng.choices(_ODD_LINES, k=rng.choice((0, 0, 1, 2)))
        head = "\r\n".join((f"{request.method} {request.target} HTTP/1.1", *lines, "", ""))
        whole = head.encode() + request.body
        behind = rng.choice((b"", b"", whole, whole * 50, rng.randbytes(300)))
        sent = rng.choice((b"", b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) + whole + behind
        return sent[: rng.randrange(len(sent))] if rng.random() < 0.6 else sent

    # ------------------------------------------------------------------ path and query

    def _path(self, method: str) -> str:
        rng = self._rng
        group, version, resource = rng.choice(_RESOURCES)
        self._resource: Resource = resource
        parts = ["apis", group, version] if group else ["api", version]
        parts += ["watch"] * rng.choice((0,) * 40 + (1, 2, 1000))
        own = [seed.metadata for seed in SEEDS if seed.DESCRIPTOR.name == resource.kind.name]
        named = rng.choice(own) if own and rng.random() < 0.93 else None
        if resource.kind.namespaced and rng.random() < 0.95:
            other = rng.choice(NAMESPACES) if rng.random() < 0.08 else ""
            parts += ["namespaces", other or (named and named.namespace) or "default"]
        parts.append(resource.plural)
        on_collection = {"POST": 0.7, "GET": 0.4, "DELETE": 0.05}.get(method, 0.02)
        if rng.random() > on_collection:
            parts.append(named.name if named else rng.choice(NAMES))
            subresources = [*resource.subresources] * 4 + ["x"] * (rng.random() < 0.1)
            if subresources and rng.random() < (0.9 if method == "POST" else 0.25):
                parts.append(rng.choice(subresources))
        if rng.random() < 0.08:
            parts[rng.randrange(len(parts))] = odd_text(rng)[:3000]
        return "/" + "/".join(quote(part, safe="", errors="replace") for part in parts)

    def _query(self, method: str, path: str) -> str:
        rng = self._rng
        if "?" in path:
            return ""
        chosen = rng.sample(sorted(_QUERY), rng.choice((0, 0, 1, 1, 2, 3, 5)))
        chosen += [name for name in chosen if rng.random() < 0.05]
        pairs = [(name, self._value(name)[:6000]) for name in chosen]
        if method == "GET" and rng.random() < 0.1:
            pairs.append(("resourceVersion", rng.choice(_ODD_DIGITS)))
        elif rng.random() < 0.03:
            pairs += rng.sample((("dryRun", ""), ("dryRun", "All")), 2)
        if "watch" in chosen or "/watch/" in path:  # with 0 it would last longer than anybody waits
            pairs = [pair for pair in pairs if pair[0] != "timeoutSeconds"]
            pairs.append(("timeoutSeconds", rng.choice(("1", "1", "x"))))
        return "?" + urlencode(pairs, errors="replace") if pairs else ""

    def _value(self, name: str) -> str:
        odd = self._rng.random() < 0.1
        return odd_text(self._rng) if odd else self._rng.choice(_QUERY[name])

    # ------------------------------------------------------------------ bodies

    def _body(self, method: str, content_type: str) -> bytes:
        rng = self._rng
        if rng.random() < 0.06:
            return rng.choice(RAW_JSON).encode("utf-8", "surrogatepass")
        if rng.random() < 0.02:
            return rng.randbytes(rng.choice((1, 30, 3000)))
        if content_type == PROTOBUF:
            return self._protobuf()
        if rng.random() < 0.06:
            return self._bulky(content_type)
        document = self._document(method, content_type)
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            self._change(document)
        if isinstance(document, dict) and rng.random() < 0.03:
            document["kind"] = "\ud800"
        is_yaml = content_type.endswith("yaml")
        text = yaml.safe_dump(document) if is_yaml else json.dumps(document)
        raw = text.encode("utf-8", "surrogatepass")
        return raw[: rng.randrange(len(raw))] if rng.random() < 0.03 else raw

    def _protobuf(self) -> bytes:
        """A body in the form of the wire, mostly of a kind that is read so, of odd fields."""
        rng = self._rng
        kinds = (
            "ConfigMap",
            "Lease",
            "Event",
            "ResourceQuota",
            "PodDisruptionBudget",
            "Role",
            "Pod",
        )
        meta = _member(1, rng.choice(("v1", "policy/v1", "x"))) + _member(2, rng.choice(kinds))
        raw = _member(1, meta) + _member(2, self._wire(0))
        return b"k8s\x00" + (raw[: rng.randrange(len(raw))] if rng.random() < 0.1 else raw)

    def _wire(self, depth: int) -> bytes:
        rng = self._rng
        found = b""
        for _ in range(rng.choice((0, 1, 2, 4))):
            number, form = rng.choice((1, 1, 2, 2, 3, 4, 8, 12)), rng.random()
            if form < 0.2:
                found += bytes([number << 3]) + rng.choice(
                    (b"\x01", b"\xff" * 9 + b"\x01", b"\xff" * 8 + b"\x7f")
                )
            elif form < 0.3:
                found += bytes([number << 3 | rng.choice((1, 3, 5))]) + b"\x00" * 8
            elif form < 0.6 or depth > 3:
                found += _member(number, rng.choice(("a", "default", "1Gi", "", "\u00e4")))
            else:
                found += _member(number, self._wire(depth + 1))
        is_bulky = depth == 1 and found and rng.random() < 0.03
        return found * (300_000 // len(found)) if is_bulky else found

    def _bulky(self, content_type: str) -> bytes:
        """Small items by the thousand, which unfold to much more than they are."""
        rng = self._rng
        item = rng.choice(("{}", "[]", "0", '""', '{"name":"a"}', '{"ports":[{},{}]}'))
        most = _MOST_BYTES // (len(item) + 1) - 100
        items = f"[{','.join([item] * min(most, rng.choice((200, 1100, 11_000, most, most))))}]"
        name = rng.choice(_LISTS)
        if content_type == "application/json-patch+json":
            add = f'{{"op":"add","path":"/spec/{name}","value":{items}}}'
            copy = f'{{"op":"copy","from":"/spec/{name}","path":"/spec/{name}/-"}}'
            return f"[{','.join([add, *[copy] * rng.choice((0, 0, 1, 40))])}]".encode()
        if rng.random() < 0.3:
            return f'{{"metadata":{{"name":"a"}},"{name}":{items}}}'.encode()
        return f'{{"metadata":{{"name":"a"}},"spec":{{"{name}":{items}}}}}'.encode()

    def _document(self, method: str, content_type: str) -> Any:
        rng = self._rng
        manifest = to_manifest(self._seed())
        if content_type == "application/json-patch+json":
            return [self._operation() for _ in range(rng.choice((0, 1, 1, 2, 5)))]
        if method == "PATCH":
            part = rng.choice(("metadata", "spec", "status"))
            patch = {part: manifest.get(part, {})}
            if content_type.endswith("yaml"):
                patch |= {key: manifest[key] for key in ("kind", "apiVersion")}
                patch["metadata"] = {"name": manifest["metadata"].get("name", "")}
                self._thin(patch)
            if rng.random() < 0.3:
                patch[part] = dict(rng.choice(DIRECTIVES))
            return patch
        if method == "DELETE":
            return {"kind": "DeleteOptions", "preconditions": {"uid": odd_value(rng)}}
        if method == "POST" and rng.random() < 0.2:
            kind = rng.choice(("Binding", "Eviction", "Scale", "TokenReview", "List"))
            target = {"kind": "Node", "name": rng.choice(NAMES)}
            about = {"name": rng.choice(NAMES), "namespace": "default"}
            return {"kind": kind, "apiVersion": "v1", "metadata": about, "target": target}
        if method == "POST" and rng.random() < 0.6:
            manifest["metadata"] |= {"name": f"new-{rng.randrange(10)}"}
            manifest["metadata"].pop("resourceVersion", None)
        return manifest

    def _thin(self, document: Any) -> None:
        """Leave some items and members out, which who applies then owns no longer."""
        rng = self._rng
        inner = [*document.values()] if isinstance(document, dict) else document
        for part in inner:
            if isinstance(part, dict | list):
                self._thin(part)
        if isinstance(document, list) and rng.random() < 0.3:
            del document[rng.randrange(len(document) + 1) :]
        elif isinstance(document, dict) and document and rng.random() < 0.1:
            del document[rng.choice(sorted(document))]

    def _seed(self) -> AnyObject:
        resource = getattr(self, "_resource", None)
        own = [s for s in SEEDS if resource and s.DESCRIPTOR.name == resource.kind.name]
        return self._rng.choice(own if own and self._rng.random() < 0.9 else SEEDS)

    def _operation(self) -> dict[str, Any]:
        rng = self._rng
        operation = {"op": rng.choice(_OPS), "path": rng.choice(_POINTERS)}
        if rng.random() < 0.8:
            operation["value"] = odd_value(rng)
        if rng.random() < 0.3:
            operation["from"] = rng.choice(_POINTERS)
        return operation

    def _change(self, document: Any) -> None:
        """Put something odd somewhere into a document."""
        rng = self._rng
        while True:
            if isinstance(document, dict) and document:
                key: Any = rng.choice(sorted(document, key=str))
            elif isinstance(document, list) and document:
                key = rng.randrange(len(document))
            else:
                return
            inner = document[key]
            if isinstance(inner, dict | list) and inner and rng.random() < 0.75:
                document = inner
                continue
            if isinstance(document, dict) and rng.random() < 0.3:
                document[odd_text(rng)[:2000]] = inner
            else:
                document[key] = odd_value(rng)
            return


assert all(resource.kind.name in KINDS for _, _, resource in _RESOURCES)
