"""Check who may read the page, and who may change something through it.

The page has no users of its own. If an API server serves it, each request is made in the caller's
name to that server's Kubernetes REST API (``RestApi``), with the same certificates, tokens, roles
and audit log. A replica answers every client with a certificate that it accepts, and changes
nothing.

Protection against other sites in the same browser: a request must name a host of this machine (no
name from another DNS zone) and come from the page itself as far as the browser reports it. Requests
that change something need a header that a page of another site cannot send.

Each action of the page is one request to that API (``act``). The names in it come from the page, so
they are checked before they become part of a path.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from aiohttp import web
from google.protobuf.json_format import MessageToJson

from podsched.lib.network import is_ip_address
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation

#: Names that may become part of a path: Kubernetes' object names.
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON: Final = "application/json"


class Act(NamedTuple):
    """A request. content_type: of the body."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = _JSON


def act(verb: str, name: str) -> Act | None:
    """Return the request of a verb: cordon, uncordon NODE; delete NAMESPACE/POD. None: unknown."""
    parts = name.split("/")
    if not all(_NAME.fullmatch(part) for part in parts):
        return None
    match verb, parts:
        case (("cordon" | "uncordon"), [node]):
            patch = {"spec": {"unschedulable": True if verb == "cordon" else None}}
            return Act("PATCH", f"/api/v1/nodes/{node}", json.dumps(patch).encode(), _MERGE_PATCH)
        case "delete", [namespace, pod]:
            return Act("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}")
    return None


def review(verb: str, resource: str, subresource: str = "", group: str = "") -> Act:
    """Return the request that asks whether the caller may do something in all namespaces."""
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return Act("POST", path, json.dumps(body).encode())


#: Headers of every answer: no inline code, nothing from other hosts, not shown in frames.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
#: Header of the page's own requests that change something.
OWN_HEADER: Final = "X-Podsched-Page"
_SAME: Final = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as JSON."""

    status: int
    body: bytes

    @classmethod
    def explained(cls, answer: Explanation) -> Reply:
        """Return an explanation as ``sched explain -o json`` prints it."""
        return cls(200, MessageToJson(answer, indent=None).encode())


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. authorization: the header, or ""."""

    authorization: str
    certificate: bytes
    peer: str


class RestApi(Protocol):
    """Kubernetes' REST API of the process, called without a connection."""

    authenticates: bool
    """Whether it authenticates callers."""

    async def ask(self, caller: Caller, asked: Act) -> Reply:
        """Return the reply to one request; a refusal is a reply, too, not an exception."""


class Explainer(Protocol):
    """Explains why a pod or a pod group is pending, or why a pod is on its node."""

    async def explain(self, caller: Caller, asked: ExplainRequest) -> Reply:
        """Explain a Pod or PodGroup."""


def refusal(status: int, reason: str) -> web.Response:
    """Return a refusal with its reason."""
    return web.json_response({"message": reason}, status=status)


def foreign_site_reason(request: web.Request, hosts: frozenset[str]) -> str:
    """Return why a request seems to come from another site's page; "" if it does not.

    hosts: allowed names of the process, besides addresses. Over TLS all names are allowed, because
    the certificate proves the name.
    """
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return "the Host header is neither a name nor an address"
    if not request.secure and host.lower() not in hosts and not is_ip_address(host):
        return f"the page is not called {host[:100]} here: use the address it listens on, or TLS"
    site = request.headers.get("Sec-Fetch-Site", "none")
    navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.path == "/"
    if site not in _SAME and not navigates:
        return "requests of other sites are refused"
    origin = request.headers.get("Origin")
    if origin is not None and not _is_of(origin, request.host):
        return "requests of other sites are refused"
    return ""


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def own_names(listening: str) -> frozenset[str]:
    """Return the allowed host names of a listener."""
    return frozenset({"localhost", socket.gethostname().lower(), listening.lower()})
