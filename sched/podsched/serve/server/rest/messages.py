"""Data types of HTTP requests and answers, independent of the HTTP library."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from podsched.serve.server.kubelets.relay import Stream

JSON: Final = "application/json"
DRY_RUN, EXCLUDE = "dryRun", "exclude"
#: Parameters of a query that are lists, beside those for kubelets.
LISTS: Final = frozenset({DRY_RUN, EXCLUDE})
TEXT: Final = "text/plain; charset=utf-8"

#: Max bytes of a body, as in kube-apiserver.
MAX_BODY_BYTES: Final = 3 << 20


def encode(value: Any) -> bytes:
    """Serialize as JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # A part without a schema has an integer of more than 64 bits, or more than 254 levels.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode_list(head: Mapping[str, Any], items: Iterable[bytes], name: str = "items") -> bytes:
    """Serialize a list whose items are already JSON; name: of the member that has them."""
    return encode(head)[:-1] + f',"{name}":['.encode() + b",".join(items) + b"]}"


@dataclass(slots=True)
class Request:
    """An HTTP request; ``path`` is percent-decoded.

    query: the first value of each name; values: all values of each; body: what ``receive`` has
    returned, the only field that is set later; target: path and query as received; header_lines:
    all headers, repeated ones included; over_loopback: whether it came from this machine without
    TLS.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    target: str
    connection: str
    certificate: bytes
    receive: Callable[[], Awaitable[bytes]]
    """Returns the body. Raises ApiError for one that is too large."""
    cost: Callable[[], float] = float
    """Returns the seconds that parsing has taken on its connection since the last call of this."""
    body: bytes = b""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    header_lines: Sequence[tuple[str, str]] = ()
    over_loopback: bool = False

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]]:
        """See ``CallContext``."""
        return self.headers.items()

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """See ``CallContext``."""
        return {"x509_pem_cert": [self.certificate]} if self.certificate else {}

    def peer(self) -> str:
        """See ``CallContext``."""
        return self.connection


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Another protocol on the client's connection: all bytes pass between it and ``stream``.

    head: the status line and headers with which the server at ``stream`` agreed.
    """

    head: bytes
    stream: Stream


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: a body, or a stream of its pieces with a time limit in seconds.

    patient: whether the client may leave a piece unread until that limit.
    """

    body: bytes | AsyncGenerator[bytes, None] | Upgrade = b""
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    patient: bool = False
