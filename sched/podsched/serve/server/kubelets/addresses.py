"""Chooses the address at which a node's kubelet is asked, and refuses those that no kubelet has.

A node registers its addresses and its kubelet's port itself, so a compromised one could make the
API server connect to others. As for proxies of kube-apiserver, these are refused: addresses of this
machine alone (loopback), link-local ones (such as the metadata service of clouds), multicast and
unspecified ones. So are the API server's own ports. Names are resolved first, and the resolved
address is the one that is connected to.

Source: pkg/kubelet/client/kubelet_client.go, pkg/util/node/node.go and
apimachinery/pkg/util/proxy (IsProxyableIP), v1.36.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from podsched.api.objects import Node

#: Port of a kubelet whose node does not say another.
DEFAULT_PORT: Final = 10250
ADDRESS_TYPES: Final = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
#: Seconds to resolve a name.
_RESOLVE_SECONDS: Final = 5.0
#: Threads of their own: a compromised node may choose a name that is slow to resolve, and in the
#: event loop's threads large bodies are worked on.
_RESOLVERS: Final = ThreadPoolExecutor(4, "resolve")

CheckAddress = Callable[[str, int], str]
"""From an IP address and a port to the reason why it may not be connected to, "" if it may."""


class NoAddress(Exception):
    """A node has no address at which its kubelet may be asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a kubelet listens. ip: what is connected to; host: what its certificate must name."""

    node: str
    host: str
    ip: str
    port: int

    @property
    def url(self) -> str:
        """The root of its URLs."""
        return f"https://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as in URLs and in the header Host."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"

    def __str__(self) -> str:
        return f"the kubelet of node {self.node} at {self.host}:{self.port}"


def kubelet_port(node: Node) -> int:
    """Return the port of a node's kubelet. Raises NoAddress for one that is not a port."""
    endpoint = node.status.daemon_endpoints.fields.get("kubeletEndpoint")
    found = endpoint.struct_value.fields.get("Port") if endpoint is not None else None
    port = found.number_value if found is not None else 0
    if port == 0:
        return DEFAULT_PORT
    if port != int(port) or not 0 < port < 1 << 16:
        raise NoAddress(f"status.daemonEndpoints.kubeletEndpoint.Port: {port:g} is not a port")
    return int(port)


def kubelet_host(node: Node, preferred: Sequence[str]) -> str:
    """Return a node's address of the first preferred type that it has. Raises NoAddress."""
    addresses = node.status.addresses
    for kind in preferred:
        for address in addresses:
            if address.type == kind and address.address:
                return address.address
    known = ", ".join(f"{a.type} {a.address}" for a in addresses[:10]) or "none"
    raise NoAddress(
        f"status.addresses has none of the types {', '.join(preferred)}; it has {known}"
    )


async def kubelet_endpoint(node: Node, preferred: Sequence[str], check: CheckAddress) -> Endpoint:
    """Return where a node's kubelet listens. Raises NoAddress."""
    host, port = kubelet_host(node, preferred), kubelet_port(node)
    ips = await _resolved(host)
    for ip in ips:
        # All of them: a name must not stand for a permitted address now and another one later.
        if why := check(ip, port):
            raise NoAddress(f"status.addresses: {host} may not be connected to: {why}")
    return Endpoint(node.metadata.name, host, ips[0], port)


async def _resolved(host: str) -> list[str]:
    """Return the IP addresses of a name or an address. Raises NoAddress."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            resolve = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
            found = await loop.run_in_executor(_RESOLVERS, resolve)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise NoAddress(f"status.addresses: {host[:253]} cannot be resolved: {error}") from None
    return [str(address[0]) for *_, address in found]


def refusal(ip: str, port: int, own_ports: Collection[int] = ()) -> str:
    """Return why nothing is sent to an address, "" if it may be. own_ports: of this process."""
    if "%" in ip:
        # A zone may be any text: that of "fd00::1%@[::1" makes a URL one of another host.
        return "it has a zone, as link-local addresses have"
    address = ipaddress.ip_address(ip)
    #: ffff:127.0.0.1 reaches the same host as 127.0.0.1.
    mapped = getattr(address, "ipv4_mapped", None) or address
    for name in ("loopback", "link_local", "multicast", "unspecified"):
        if getattr(mapped, f"is_{name}"):
            return f"it is {name.replace('_', '-')}"
    if mapped == ipaddress.IPv4Address("255.255.255.255"):
        return "it is the broadcast address"
    if port in own_ports and _is_of_this_machine(str(mapped)):
        return f"port {port} is the API server's own"
    return ""


def _is_of_this_machine(ip: str) -> bool:
    # Only an address of this machine can be bound; nothing is sent.
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError:
        return False
    return True
