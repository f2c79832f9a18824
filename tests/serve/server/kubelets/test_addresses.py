"""Where a kubelet may be asked: what a node registers is not trusted."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from podsched.api.objects import Node
from podsched.serve.server.kubelets.addresses import (
    NoAddress,
    kubelet_endpoint,
    kubelet_host,
    kubelet_port,
    refusal,
)

PREFERRED = ("InternalIP", "ExternalIP", "Hostname")


def node(*addresses: tuple[str, str], port: Any = None) -> Node:
    found = Node()
    found.metadata.name = "n"
    for kind, address in addresses:
        found.status.addresses.add(type=kind, address=address)
    if port is not None:
        found.status.daemon_endpoints.update({"kubeletEndpoint": {"Port": port}})
    return found


@pytest.mark.parametrize(
    ("ip", "why"),
    [
        ("127.0.0.1", "loopback"), ("::1", "loopback"), ("::ffff:127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"), ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"), ("fd00::1%x@[::1", "zone"),
        ("::ffff:169.254.169.254", "link-local"),
        ("224.0.0.1", "multicast"), ("ff02::1", "multicast"),
        ("0.0.0.0", "unspecified"), ("::", "unspecified"), ("255.255.255.255", "broadcast"),
    ],
)  # fmt: skip
def test_addresses_that_no_kubelet_has_are_refused(ip: str, why: str) -> None:
    assert why in refusal(ip, 10250)


@pytest.mark.parametrize("ip", ["10.0.0.1", "192.168.1.1", "203.0.113.9", "fd00::1"])
def test_addresses_of_a_network_are_accepted(ip: str) -> None:
    assert refusal(ip, 10250, {6443}) == ""


async def test_a_name_that_stands_for_loopback_is_refused() -> None:
    with pytest.raises(NoAddress, match="localhost may not be connected to: it is loopback"):
        await kubelet_endpoint(node(("Hostname", "localhost")), PREFERRED, refusal)


async def test_names_that_are_slow_to_resolve_do_not_take_the_threads_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compromised node may choose such a name, and logs of its pods be asked for."""
    resolved = threading.Event()

    def slow(*_: Any, **__: Any) -> list[Any]:
        resolved.wait(30)
        return [(0, 0, 0, "", ("10.0.0.9", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    named = node(("Hostname", "slow.example"))
    asking = [asyncio.ensure_future(kubelet_endpoint(named, PREFERRED, refusal)) for _ in range(40)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(10):
            await asyncio.to_thread(int)
    finally:
        resolved.set()
        await asyncio.gather(*asking, return_exceptions=True)


async def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    found = await kubelet_endpoint(node(("InternalIP", "fd00::1"), port=1234), PREFERRED, refusal)
    assert (found.ip, found.url) == ("fd00::1", "https://[fd00::1]:1234")


def test_the_first_preferred_type_counts_whatever_the_order() -> None:
    several = node(("Hostname", "h"), ("ExternalIP", "203.0.113.1"), ("InternalIP", "10.0.0.1"))
    assert kubelet_host(several, PREFERRED) == "10.0.0.1"
    assert kubelet_host(several, ("Hostname",)) == "h"


def test_a_node_without_such_an_address_is_told_what_it_has() -> None:
    with pytest.raises(NoAddress, match=r"it has InternalDNS a\.example"):
        kubelet_host(node(("InternalDNS", "a.example")), PREFERRED)


@pytest.mark.parametrize(("port", "found"), [(None, 10250), (0, 10250), (12345, 12345)])
def test_the_port_is_the_one_of_the_node(port: int | None, found: int) -> None:
    assert kubelet_port(node(port=port)) == found


@pytest.mark.parametrize("port", [-1, 65536, 1.5, 1e300])
def test_what_is_no_port_is_refused(port: float) -> None:
    with pytest.raises(NoAddress, match="is not a port"):
        kubelet_port(node(port=port))
