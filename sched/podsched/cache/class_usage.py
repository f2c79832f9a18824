"""What one pod adds to its node's row, computed once per class.

A usage belongs to a class and a value of ``terminating``, the two things that counts may
depend on. It also knows on which rows such pods are, so that a new counter is built without
walking over all pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1

if TYPE_CHECKING:
    from podsched.cache.counters import PodCounter, TermTotal

Port = tuple[str, str, int]


class ClassUsage:
    """``amounts``: (usage column, amount); ``rows``: row -> number of such pods there."""

    __slots__ = ("amounts", "carried", "counters", "exemplar", "ports", "rows")

    def __init__(self, exemplar: PodInfo, amounts: tuple[tuple[int, int], ...]) -> None:
        self.exemplar = exemplar
        self.amounts = amounts
        self.ports = tuple(host_ports(exemplar.cls.spec))
        self.rows: dict[int, int] = {}
        self.counters: list[tuple[PodCounter, int]] = []
        self.carried: list[tuple[TermTotal, int]] = []


def host_ports(spec: v1.PodSpec) -> Iterator[Port]:
    """(hostIP, protocol, hostPort) of containers and sidecars, empty ones as 0.0.0.0 and TCP."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port
