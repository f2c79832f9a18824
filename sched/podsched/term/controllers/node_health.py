"""Track when each node last reported, and compute the state of zones. Pure.

A heartbeat is a change of the node's Lease or of the heartbeat time of its Ready condition. Its
time is when this leader sees it, so the clocks of other machines do not matter. When a new leader
sees a node for the first time, it takes the time in the Lease, but leaves the node a short time to
report. A heartbeat time in the condition, as kubelets write it, counts as seen now: such nodes have
the whole grace period. Source: pkg/controller/nodelifecycle of Kubernetes 1.36.

Unlike in Kubernetes, a node that has never reported (no Lease, no heartbeat time) is never silent:
it was created by hand or by a benchmark, not by a kubelet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from podsched.api.conditions import NODE_READY, condition_of
from podsched.api.node_labels import REGION, ZONE
from podsched.api.objects import Lease, Node, Timestamp
from podsched.term.controllers.controller import Instant

#: A zone is disrupted if more nodes than this, and at least this share, are not Ready
#: (kube-controller-manager's --unhealthy-zone-threshold).
_MANY, _UNHEALTHY = 2, 0.55
#: Evictions per second in a disrupted zone of more than so many nodes; in smaller ones, none
#: (--secondary-node-eviction-rate and --large-cluster-size-threshold).
_SECONDARY_RATE, _LARGE = 0.01, 50


class _LastReport(NamedTuple):
    """The times in a node's last heartbeats, and when the newest was seen (monotonic)."""

    lease: int
    ready: int
    at: float


class Heartbeats:
    """Tracks when each node last reported."""

    def __init__(self, grace: float, least: float) -> None:
        """``grace``: max seconds without a report; ``least``: min seconds left at first sight."""
        self._grace = grace
        self._least = min(least, grace)
        self._reports: dict[str, _LastReport] = {}

    def see_lease(self, lease: Lease, now: Instant) -> None:
        self._see(lease.metadata.name, now, lease=_nanoseconds(lease.spec.renew_time))

    def see_node(self, node: Node, now: Instant) -> None:
        ready = condition_of(node.status, NODE_READY)
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
        self._reports.pop(name, None)

    def is_silent(self, name: str, now: Instant) -> bool:
        """Whether the last report is older than the grace period."""
        known = self._reports.get(name)
        return known is not None and now.monotonic - known.at > self._grace


def _nanoseconds(stamp: Timestamp) -> int:
    """Return the time in nanoseconds; ``ToNanoseconds`` fails for times after the year 9999."""
    return stamp.seconds * 1_000_000_000 + stamp.nanos


def zone_of(node: Node) -> str:
    """Return the key of a node's region and zone."""
    labels = node.metadata.labels
    return f"{labels.get(REGION, '')}/{labels.get(ZONE, '')}"


def eviction_rates(nodes: Iterable[tuple[str, bool]], rate: float) -> tuple[dict[str, float], bool]:
    """Return the NoExecute taints per second by zone, and whether all zones are down.

    ``nodes``: the zone of each node, and whether it is ready. ``rate``: that of a healthy zone. If
    all zones are down, the fault is assumed on this side, and no pod is evicted. Source:
    ComputeZoneState.
    """
    ready: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for zone, good in nodes:
        (ready if good else others)[zone] += 1
    zones = ready | others
    if zones and not ready:
        return dict.fromkeys(zones, 0.0), True
    rates: dict[str, float] = {}
    for zone in zones:
        # Also of a zone that is fully down (HealthyQPSFunc), as long as another is not.
        rates[zone] = rate
        size = ready[zone] + others[zone]
        is_partly_down = ready[zone] > 0 and others[zone] > _MANY
        if is_partly_down and others[zone] / size >= _UNHEALTHY:
            rates[zone] = _SECONDARY_RATE if size > _LARGE else 0.0
    return rates, False
