"""The host ports of promised starts, kept on nodes like amounts of resources.

In ``Reservation.nodes`` a port has the name ``hostPort/ADDRESS/PROTOCOL/NUMBER``, with the amount
1. No resource has such a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podsched.api.host_ports import host_ports
from podsched.api.objects import Container, PodSpec

_PREFIX: Final = "hostPort/"


def port_names(spec: PodSpec) -> set[str]:
    """Return the names of a pod's host ports."""
    return {f"{_PREFIX}{ip}/{protocol}/{port}" for ip, protocol, port in host_ports(spec)}


def is_port(name: str) -> bool:
    """Whether the name of an amount is that of a port."""
    return name.startswith(_PREFIX)


def add_ports(container: Container, names: Iterable[str]) -> None:
    """Let a container request the ports with these names."""
    for name in names:
        ip, protocol, port = name.removeprefix(_PREFIX).split("/")
        container.ports.add(host_ip=ip, protocol=protocol, host_port=int(port))
