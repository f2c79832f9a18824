"""The ports of the node that a pod requests for its containers."""

from __future__ import annotations

from typing import Final

from podsched.v1 import objects_pb2 as v1

#: hostIP of a port on all addresses of the node.
ANY_ADDRESS: Final = "0.0.0.0"

#: (hostIP, protocol, hostPort)
HostPort = tuple[str, str, int]


def host_ports(spec: v1.PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of sidecars and containers; the defaults are 0.0.0.0 and TCP."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    return tuple(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )
