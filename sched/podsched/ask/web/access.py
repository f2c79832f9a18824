"""Who may look at the page, and who may change something through it.

The page knows no users of its own. Where an API server serves it, each request is made in the
caller's name to Kubernetes' REST API of that server (``Face``): the same certificates and tokens,
the same roles, the same audit log. A replica answers whoever its certificates let in, and changes
nothing.

Against pages of strangers in the same browser: a request must name a host that is this machine's
(no name that a stranger's DNS gives out), come from the page itself as far as the browser says, and
what changes something carries a header that no other site's page can send without being refused.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from aiohttp import web

from podsched.ask.web.actions import Act

#: Headers of every answer. No inline code, nothing from elsewhere, nobody's frame.
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
#: What the page's own requests carry that change something.
OWN_HEADER: Final = "X-Podsched-Page"
_SAME: Final = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as JSON."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the connection and the request tell it. authorization: the header, or ""."""

    authorization: str
    certificate: bytes
    peer: str


class Face(Protocol):
    """Kubernetes' REST API of the process, without its port."""

    async def ask(self, caller: Caller, asked: Act) -> Reply:
        """Answer one request; what is refused is answered, too."""
        ...


class Explainer(Protocol):
    """Explains why a pod is pending, or why it is on its node."""

    async def explain(self, caller: Caller, key: str, changes: bool) -> Reply:
        """Explain a pod; changes: also look for what would make it fit."""
        ...


def refusal(status: int, reason: str) -> web.Response:
    """Return an answer that says why not."""
    return web.json_response({"message": reason}, status=status)


def of_a_stranger(request: web.Request, hosts: frozenset[str]) -> str:
    """Return why a request seems to come from another site's page; "" if it does not.

    hosts: names by which the process may be called, beside addresses. Over TLS any will do: the
    certificate says whose name it is.
    """
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return "the Host header is no name and no address"
    if not request.secure and host.lower() not in hosts and not _is_address(host):
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
    """Return the names by which a listener may be called."""
    return frozenset({"localhost", socket.gethostname().lower(), listening.lower()})


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
