"""Converts a call to an event of ``audit.k8s.io/v1``, as a line of JSON.

A batch is one event with the number of its items, their outcomes counted, and the names of the
first ones; at level Request also their content. Values of environment variables and of fields named
like a password, token, key or secret are never written; content beyond ``MAX_CONTENT`` is omitted.
"""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote_plus

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import DecodeError

from podsched.api.json_text import load_json
from podsched.api.kinds import KINDS, Kind, UnknownKindError, find_kind, kind_of, unwrap
from podsched.api.objects import joined_key
from podsched.api.reasons import StatusCode
from podsched.serve.server.access.identity import Identity
from podsched.serve.server.errors import ApiError
from podsched.serve.server.methods import METHODS, OTHER, PASSED_ON, Method
from podsched.serve.server.patching import is_deep
from podsched.serve.server.requests import Batch
from podsched.v1 import api_pb2 as v1

API_VERSION: Final = "audit.k8s.io/v1"
#: Number of a batch's items whose names and content are written.
FIRST_ITEMS: Final = 5
#: Max characters of a request's content.
MAX_CONTENT: Final = 64 << 10

#: HTTP status codes as in Kubernetes' API.
_HTTP_CODES: Final = {
    StatusCode.OK: 200,
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.UNAUTHENTICATED: 401,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.ABORTED: 409,
    StatusCode.FAILED_PRECONDITION: 409,
    StatusCode.OUT_OF_RANGE: 410,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.CANCELLED: 499,
    StatusCode.UNIMPLEMENTED: 501,
    StatusCode.UNAVAILABLE: 503,
    StatusCode.DEADLINE_EXCEEDED: 504,
}
_SECRET: Final = re.compile(
    "password|passwd|authorization|token|secret|credential|private.?key|api.?key|scheduler.?configuration"
    # An annotation of kubectl with the whole object.
    "|last-applied-configuration",
    re.I,
)
#: Subresources whose bodies are no objects, or have to do with tokens.
_NO_CONTENT: Final = frozenset({*PASSED_ON, "token"})
_MASKED: Final = "REDACTED"


class Level(StrEnum):
    """How much of a call is written."""

    NONE = "None"
    METADATA = "Metadata"
    REQUEST = "Request"


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a call that rules match. Names are "" if a call has none or several."""

    user: str
    groups: frozenset[str]
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource: "pods/binding"."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """A call that has ended. Times are Unix seconds; ``response``: "" of a stream.

    uri, body: of an HTTP request, whose ``request`` only names the object in its path.
    """

    method: str
    request: Any
    response: bytes
    identity: Identity | None
    peer: str
    user_agent: str
    request_id: str
    code: StatusCode
    error: ApiError | None
    received: float
    completed: float
    uri: str = ""
    body: bytes = b""
    impersonated: Identity | None = None

    @property
    def size(self) -> int:
        """Approximate bytes that it occupies in memory."""
        request = self.request
        if self.uri:
            return 2000 + len(self.body)
        if isinstance(request, Batch):
            return 2000 + sum(map(len, request.items)) + len(self.response)
        return 2000 + (request.ByteSize() if request is not None else 0) + len(self.response)


def _method(call: AuditedCall) -> Method:
    return METHODS.get(call.method, OTHER)


def attributes_of(call: AuditedCall) -> Attributes:
    """Return the attributes of a call that policy rules match."""
    method = _method(call)
    user, groups = "system:anonymous", frozenset[str]()
    if call.identity is not None:
        user, groups = call.identity.user, call.identity.groups
    kind, namespace, name = _object_of(call)
    return Attributes(
        user=user,
        groups=groups,
        verb=method.verb,
        group=kind.group if kind else "",
        resource=kind.plural if kind else "",
        subresource=method.subresource,
        namespace=namespace,
        name=name,
    )


def _object_of(call: AuditedCall) -> tuple[Kind | None, str, str]:
    """Return kind, namespace and name of a call's object; of a batch, the first item's kind."""
    request = call.request
    if request is None:
        return None, "", ""
    pods = KINDS["Pod"] if _method(call).of_pods else None
    items = _items(call, 1)
    if _is_batch(call):
        kind, namespace, _ = items[0] if items else (None, "", "")
        return pods or kind, namespace, ""
    if items:
        return items[0]
    return pods, "", ""


def _is_batch(call: AuditedCall) -> bool:
    return isinstance(call.request, Batch) or bool(_method(call).items)


def _items(call: AuditedCall, most: int) -> list[tuple[Kind | None, str, str]]:
    """Return kind, namespace and name of the first objects of a call."""
    found = []
    for message in _messages(call, most):
        try:
            found.append(_named(message, _method(call)))
        except UnknownKindError:
            found.append((None, getattr(message, "namespace", ""), getattr(message, "name", "")))
    return found


def _messages(call: AuditedCall, most: int) -> list[Any]:
    """Return the first items of a batch, without undecodable ones, or the request itself."""
    request = call.request
    if isinstance(request, Batch):
        found = []
        for raw in request.items[:most]:
            try:
                found.append(request.decode(raw))
            except (DecodeError, ApiError):
                continue
        return found
    field = _method(call).items
    return list(getattr(request, field)[:most]) if field else [request]


def _named(message: Any, method: Method) -> tuple[Kind | None, str, str]:
    """Return kind, namespace and name of the object in a request or an item of a batch.

    The kind is None if it is unknown or there are several. Raises UnknownKindError.
    """
    fields = message.DESCRIPTOR.fields_by_name
    if "binding" in fields:
        message = message.binding
        fields = message.DESCRIPTOR.fields_by_name
    if "object" in fields:
        try:
            message = unwrap(message.object)
        except ValueError:
            return None, "", ""
        fields = message.DESCRIPTOR.fields_by_name
    if "metadata" in fields:
        metadata = message.metadata
        return kind_of(message), metadata.namespace, metadata.name or metadata.generate_name
    if "kinds" in fields:  # a watch
        kind = find_kind(message.kinds[0]) if len(message.kinds) == 1 else None
        return kind, message.namespace, ""
    namespace = getattr(message, "namespace", "")
    name = getattr(message, "name", "")
    if "kind" in fields:
        return find_kind(message.kind), namespace, name
    return (KINDS["Pod"] if method.of_pods else None), namespace, name


def event_line(call: AuditedCall, level: Level) -> str:
    """Return the event of a call as one line of JSON."""
    return json.dumps(event_of(call, level), separators=(",", ":"), ensure_ascii=True) + "\n"


def event_of(call: AuditedCall, level: Level) -> dict[str, Any]:
    """Return the event of a call."""
    attributes = attributes_of(call)
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": API_VERSION,
        "level": level.value,
        "auditID": call.request_id,
        "stage": "ResponseComplete",
        "requestURI": _without_secrets(call.uri) or f"/podsched.v1/{call.method}",
        "verb": attributes.verb,
        "user": {"username": attributes.user, "groups": sorted(attributes.groups)},
        "sourceIPs": [source_ip(call.peer)],
        "userAgent": call.user_agent,
        "responseStatus": _status(call),
        "requestReceivedTimestamp": _timestamp(call.received),
        "stageTimestamp": _timestamp(call.completed),
        "annotations": _annotations(call),
    }
    if (other := call.impersonated) is not None:
        event["impersonatedUser"] = {"username": other.user, "groups": sorted(other.groups)}
    if reference := _reference(attributes):
        event["objectRef"] = reference
    if level is Level.REQUEST and call.request is not None:
        event["requestObject"] = _content(call, event["annotations"])
    return event


def _reference(attributes: Attributes) -> dict[str, str]:
    fields = {
        "resource": attributes.resource,
        "namespace": attributes.namespace,
        "name": attributes.name,
        "apiGroup": attributes.group,
        "subresource": attributes.subresource,
    }
    return {field: value for field, value in fields.items() if value}


def _status(call: AuditedCall) -> dict[str, Any]:
    status: dict[str, Any] = {"code": _HTTP_CODES.get(call.code, 500)}
    if call.code is not StatusCode.OK:
        status["status"] = "Failure"
    if call.error is not None:
        status["reason"] = call.error.reason.value
        status["message"] = call.error.message[:1000]
    return status


def _annotations(call: AuditedCall) -> dict[str, str]:
    """Return an event's annotations: the decision, status, latency, fence and outcomes of items."""
    forbidden = call.code in (StatusCode.PERMISSION_DENIED, StatusCode.UNAUTHENTICATED)
    found = {
        "authorization.k8s.io/decision": "forbid" if forbidden else "allow",
        "podsched.io/grpc-status": call.code.name,
        "podsched.io/latency-seconds": f"{max(call.completed - call.received, 0):.6f}",
    }
    request, results = call.request, _results(call)
    fence = getattr(request.rest if isinstance(request, Batch) else request, "fence", None)
    if fence is not None and fence.lock:
        # Identifies the writer's term.
        found["podsched.io/fence"] = f"{fence.lock}:{fence.term}"
        if written := {each.resource_version for each in results if each.code == StatusCode.OK}:
            found["podsched.io/revisions"] = ",".join(map(str, sorted(written)))
    if _is_batch(call):
        field = _method(call).items
        items = request.items if isinstance(request, Batch) else getattr(request, field)
        found["podsched.io/items"] = str(len(items))
        found["podsched.io/first-items"] = ",".join(
            joined_key(namespace, name) for _, namespace, name in _items(call, FIRST_ITEMS)
        )
    if counts := collections.Counter(StatusCode(each.code).name for each in results):
        outcomes = (f"{name}={count}" for name, count in sorted(counts.items()))
        found["podsched.io/outcomes"] = ",".join(outcomes)
    return found


def _results(call: AuditedCall) -> Sequence[v1.BatchResult]:
    """Return what became of each item of a batch; nothing of any other call."""
    if call.code is not StatusCode.OK or not _is_batch(call):
        return ()
    return v1.BatchResponse.FromString(call.response).results


def _content(call: AuditedCall, annotations: dict[str, str]) -> Any:
    """Return a request's content without secrets.

    None, with an annotation, if it is too large or has objects of a kind that is secret.
    """
    if any(kind is not None and kind.secret for kind, _, _ in _items(call, FIRST_ITEMS)):
        annotations["podsched.io/content"] = "left out: secret"
        return None
    if call.uri:
        return _body(call, annotations)
    content = [_masked(_plain(message)) for message in _messages(call, FIRST_ITEMS)]
    written = content if _is_batch(call) else content[0] if content else None
    if len(json.dumps(written)) > MAX_CONTENT:
        annotations["podsched.io/content"] = f"left out: more than {MAX_CONTENT} characters"
        return None
    return written


def _body(call: AuditedCall, annotations: dict[str, str]) -> Any:
    """Return the body of an HTTP request without secrets; None, with an annotation, for others."""
    if not call.body or _method(call).subresource in _NO_CONTENT:
        return None
    if len(call.body) > MAX_CONTENT:
        annotations["podsched.io/content"] = f"left out: more than {MAX_CONTENT} bytes"
        return None
    content = _parsed(call.body)
    if content is None:
        annotations["podsched.io/content"] = "left out: not JSON"
    return _masked(content)


def _parsed(raw: bytes) -> Any:
    """Return what JSON describes; None for what no request may have, such as NaN."""
    try:
        content = load_json(raw)
        if not isinstance(content, dict | list) or is_deep(content):
            return None
        json.dumps(content, allow_nan=False)
    except ValueError:
        return None
    return content


def _plain(message: Any) -> Any:
    """Convert a message to JSON, with a patch as JSON instead of bytes.

    None if it has a number that JSON cannot represent; such a request is refused.
    """
    try:
        plain = MessageToDict(message)
    except (ValueError, SerializeToJsonError):
        return None
    if "mergePatch" in plain:
        plain["mergePatch"] = _parsed(message.merge_patch)
    return plain


def _masked(value: Any, *, environment: bool = False) -> Any:
    """Return a copy of decoded JSON without possible secrets."""
    if isinstance(value, Mapping):
        # An operation of a JSON patch names the field.
        path = str(value.get("path", "")) if "op" in value else ""
        hidden = environment or "/env" in path or bool(_SECRET.search(path))
        return {
            key: _MASKED
            if (_SECRET.search(key) and isinstance(item, str)) or (hidden and key == "value")
            else _masked(item, environment=key == "env")
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_masked(item, environment=environment) for item in value]
    return value


def _without_secrets(uri: str) -> str:
    """Return a path and query without the values of parameters named like a secret.

    The server ignores an ``access_token`` in a query, but clients send it.
    """
    path, mark, query = uri.partition("?")
    pairs = [
        f"{name}={_MASKED}"
        if value and _SECRET.search(unquote_plus(name))
        else name + equals + value
        for name, equals, value in (pair.partition("=") for pair in query.split("&"))
    ]
    return path + mark + "&".join(pairs)


def source_ip(peer: str) -> str:
    """Return the IP address of a peer in gRPC's format, "ipv4:10.0.0.1:4711"."""
    address = peer.partition(":")[2] or peer
    return address.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]") or peer


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
