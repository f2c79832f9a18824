"""When each node last reported, and in which state its zone is.

Pure. A heartbeat is a change of the node's lease or of its Ready condition's heartbeat time, and
counts from when it is seen, so that clocks of other machines do not matter; for a node that a new
leader sees for the first time it counts from what its lease says, but the node gets at least a
short time to show itself. Source: pkg/controller/nodelifecycle of Kubernetes 1.36.

Unlike in Kubernetes, a node that has never reported (no lease, no heartbeat time) is left alone: no
kubelet made it, but somebody by hand, or a benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from podsched.api.conditions import NODE_READY, node_condition
from podsched.api.objects import Lease, Node, Timestamp
from podsched.config.settings import ControllerSettings
from podsched.term.controllers.controller import Instant

LEASE_NAMESPACE = "kube-node-lease"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
_MANY = 2
"""More nodes of a zone than this must be not Ready for the zone to count as disrupted."""


class _LastReport(NamedTuple):
    """The times in a node's last heartbeats, and when a new one was seen (monotonic)."""

    lease: int
    ready: int
    at: float


class Heartbeats:
    """When each node last reported."""

    def __init__(self, grace: float, least: float) -> None:
        """``grace``: seconds of silence allowed; ``least``: those left to a node seen first."""
        self._grace = grace
        self._least = min(least, grace)
        self._reports: dict[str, _LastReport] = {}

    def see_lease(self, lease: Lease, now: Instant) -> None:
        """Take in a node's lease."""
        self._see(lease.metadata.name, now, lease=_nanoseconds(lease.spec.renew_time))

    def see_node(self, node: Node, now: Instant) -> None:
        """Take in a node's conditions."""
        ready = node_condition(node.status, NODE_READY)
        if ready is not None and ready.HasField("last_heartbeat_time"):
            self._see(node.metadata.name, now, ready=_nanoseconds(ready.last_heartbeat_time))

    def _see(self, name: str, now: Instant, *, lease: int = 0, ready: int = 0) -> None:
        known = self._reports.get(name)
        if known is None:
            age = max(0.0, now.wall - max(lease, ready) / 1e9)
            at = now.monotonic - min(age, self._grace - self._least)
            self._reports[name] = _LastReport(lease, ready, at)
            return
        lease, ready = lease or known.lease, ready or known.ready
        if (lease, ready) != (known.lease, known.ready):
            self._reports[name] = _LastReport(lease, ready, now.monotonic)

    def forget(self, name: str) -> None:
        """Drop a node that is gone."""
        self._reports.pop(name, None)

    def is_silent(self, name: str, now: Instant) -> bool:
        """Whether the node has been silent for longer than the grace period."""
        known = self._reports.get(name)
        return known is not None and now.monotonic - known.at > self._grace


def _nanoseconds(stamp: Timestamp) -> int:
    """Return the time in nanoseconds; ``ToNanoseconds`` refuses times beyond the year 9999."""
    return stamp.seconds * 1_000_000_000 + stamp.nanos


class ZoneState(Enum):
    """The state of a zone: it decides how fast its nodes are given up."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: Node) -> str:
    """Return region and zone of a node as one key."""
    labels = node.metadata.labels
    return f"{labels.get(REGION_LABEL, '')}/{labels.get(ZONE_LABEL, '')}"


class ZoneCount(NamedTuple):
    """The nodes of a zone."""

    ready: int
    not_ready: int


def count_zones(nodes: Iterable[tuple[str, bool]]) -> dict[str, ZoneCount]:
    """Count ready and other nodes by zone, from (zone, whether it is ready) of each node."""
    ready: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for zone, good in nodes:
        (ready if good else others)[zone] += 1
    return {zone: ZoneCount(ready[zone], others[zone]) for zone in ready | others}


def zone_state(count: ZoneCount, settings: ControllerSettings) -> ZoneState:
    """Return the state of a zone (ComputeZoneState)."""
    if not count.ready and count.not_ready:
        return ZoneState.FULL
    share = count.not_ready / max(1, count.ready + count.not_ready)
    if count.not_ready > _MANY and share >= settings.unhealthy_zone_threshold:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def eviction_rates(
    zones: dict[str, ZoneCount], settings: ControllerSettings
) -> tuple[dict[str, float], bool]:
    """Return how many nodes a second may get a NoExecute taint by zone, and if all zones are down.

    When every zone is down the fault is on our side, and no pod is evicted.
    """
    states = {zone: zone_state(count, settings) for zone, count in zones.items()}
    if states and all(state is ZoneState.FULL for state in states.values()):
        return dict.fromkeys(zones, 0.0), True
    rates: dict[str, float] = {}
    for zone, state in states.items():
        rates[zone] = settings.node_eviction_rate
        if state is ZoneState.PARTIAL:
            large = sum(zones[zone]) > settings.large_cluster_size_threshold
            rates[zone] = settings.secondary_node_eviction_rate if large else 0.0
    return rates, False
