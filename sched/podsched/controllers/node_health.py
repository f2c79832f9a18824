"""When a node was last heard of, and how its zone is.

Pure. A heartbeat is a change of the node's lease or of its Ready condition's heartbeat time, and
counts from when it is seen, so that clocks of other machines do not matter; for a node that a new
leader sees for the first time it counts from what its lease says, but the node gets at least a
short time to show itself. Source: pkg/controller/nodelifecycle of Kubernetes 1.36.

Unlike in Kubernetes a node that has never reported (no lease, no heartbeat time) is judged by
nobody: it is no kubelet's node, but one made by hand or by a benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from podsched.api.conditions import NODE_READY, node_condition
from podsched.api.objects import Lease, Node, Timestamp
from podsched.config.settings import ControllerSettings
from podsched.controllers.ports import Now

LEASE_NAMESPACE = "kube-node-lease"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
_MANY = 2
"""More nodes of a zone than this must be not Ready for the zone to count as disrupted."""


class _Heard(NamedTuple):
    """The last heartbeats that a node has shown, and when a new one was seen (monotonic)."""

    lease: int
    ready: int
    at: float


class Heartbeats:
    """When each node was last heard of."""

    def __init__(self, grace: float, least: float) -> None:
        """grace: seconds of silence that are too many; least: granted to a node seen first."""
        self._grace = grace
        self._least = min(least, grace)
        self._heard: dict[str, _Heard] = {}

    def see_lease(self, lease: Lease, now: Now) -> None:
        """Return a node's lease as it is."""
        self._see(lease.metadata.name, now, lease=_nanoseconds(lease.spec.renew_time))

    def see_node(self, node: Node, now: Now) -> None:
        """Return a node's conditions as they are."""
        ready = node_condition(node.status, NODE_READY)
        if ready is not None and ready.HasField("last_heartbeat_time"):
            self._see(node.metadata.name, now, ready=_nanoseconds(ready.last_heartbeat_time))

    def _see(self, name: str, now: Now, *, lease: int = 0, ready: int = 0) -> None:
        known = self._heard.get(name)
        if known is None:
            age = max(0.0, now.wall - max(lease, ready) / 1e9)
            at = now.monotonic - min(age, self._grace - self._least)
            self._heard[name] = _Heard(lease, ready, at)
            return
        lease, ready = lease or known.lease, ready or known.ready
        if (lease, ready) != (known.lease, known.ready):
            self._heard[name] = _Heard(lease, ready, now.monotonic)

    def forget(self, name: str) -> None:
        """Return the node is gone."""
        self._heard.pop(name, None)

    def is_silent(self, name: str, now: Now) -> bool:
        """Whether the node has been silent for longer than the grace period."""
        known = self._heard.get(name)
        return known is not None and now.monotonic - known.at > self._grace


def _nanoseconds(stamp: Timestamp) -> int:
    """Return what ``ToNanoseconds`` does, also of times beyond the year 9999, which that refuses."""
    return stamp.seconds * 1_000_000_000 + stamp.nanos


class ZoneState(Enum):
    """How a zone is, which decides how fast its nodes are given up."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: Node) -> str:
    """Region and zone of a node, as one key."""
    labels = node.metadata.labels
    return f"{labels.get(REGION_LABEL, '')}/{labels.get(ZONE_LABEL, '')}"


class ZoneCount(NamedTuple):
    """The nodes of a zone."""

    ready: int
    not_ready: int


def count_zones(nodes: Iterable[tuple[str, bool]]) -> dict[str, ZoneCount]:
    """Nodes that are ready, and others, by zone; from the zone of each and whether it is."""
    ready: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for zone, good in nodes:
        (ready if good else others)[zone] += 1
    return {zone: ZoneCount(ready[zone], others[zone]) for zone in ready | others}


def zone_state(count: ZoneCount, settings: ControllerSettings) -> ZoneState:
    """How a zone is (ComputeZoneState)."""
    if not count.ready and count.not_ready:
        return ZoneState.FULL
    share = count.not_ready / max(1, count.ready + count.not_ready)
    if count.not_ready > _MANY and share >= settings.unhealthy_zone_threshold:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def eviction_rates(
    zones: dict[str, ZoneCount], settings: ControllerSettings
) -> tuple[dict[str, float], bool]:
    """Nodes a second that may get a NoExecute taint, by zone; whether every zone is down.

    When every zone is down the fault is on our side, and nobody is evicted.
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
