"""All faults by name: how long they last, what they need, and how they are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from podsched.lab.chaos.faults import clock, etcd, load, network, packets, processes, ray
from podsched.lab.chaos.faults.fault import Do
from podsched.lab.chaos.plan import Span


class Need(Enum):
    """What some faults need."""

    RAY = "Ray evaluates (--ray)"
    NAMESPACES = "replicas have network namespaces (--namespaces)"
    CLOCKS = "libfaketime is installed"


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault; ``need``: what it cannot be done without."""

    do: Do
    span: Span
    need: Need | None = None


def _at_once(do: Do, need: Need | None = None) -> Kind:
    return Kind(do, Span(0.0, 0.0), need)


def _lasting(do: Do, shortest: float, longest: float, need: Need | None = None) -> Kind:
    return Kind(do, Span(shortest, longest), need)


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "kill-leader": _at_once(processes.kill_leader),
        "kill-standby": _at_once(processes.kill_standby),
        "stop-leader": _at_once(processes.stop_leader),
        # Shorter than the 2 s of the liveness key, longer, and longer than the lease's 15 s.
        "pause-leader": _lasting(processes.pause_leader, 0.3, 1.5),
        "pause-leader-long": _lasting(processes.pause_leader, 3.0, 8.0),
        "pause-leader-beyond-lease": _lasting(processes.pause_leader, 16.0, 20.0),
        "pause-standby": _lasting(processes.pause_standby, 1.0, 8.0),
        "kill-api": _at_once(processes.kill_api),
        "hang-api": _lasting(processes.hang_api, 2.0, 8.0),
        "all-apis-down": _lasting(processes.all_apis_down, 2.0, 5.0),
        "kill-agent": _at_once(processes.kill_agent),
        "silent-agent": _lasting(processes.silent_agent, 3.0, 12.0),
        "rolling-restart": _at_once(processes.rolling_restart),
        "kill-etcd": _lasting(etcd.kill_member, 0.5, 6.0),
        "kill-etcd-leader": _lasting(etcd.kill_leader, 0.5, 4.0),
        "move-etcd-leader": _at_once(etcd.move_leader),
        "pause-etcd-leader": _lasting(etcd.pause_leader, 0.5, 5.0),
        "etcd-majority-down": _lasting(etcd.majority_down, 2.0, 6.0),
        "compact-etcd": _at_once(etcd.compact),
        "etcd-full": _lasting(etcd.full, 2.0, 5.0),
        "slow-disk": _lasting(etcd.slow_disk, 3.0, 8.0),
        "cut-leader-etcd": _lasting(network.cut_leader_etcd, 1.0, 8.0),
        "cut-leader-api": _lasting(network.cut_leader_api, 1.0, 8.0),
        "cut-leader-standbys": _lasting(network.cut_leader_standbys, 1.0, 6.0),
        "cut-leader": _lasting(network.cut_leader, 1.0, 8.0),
        "cut-clients": _lasting(network.cut_clients, 1.0, 5.0),
        "cut-api-etcd": _lasting(network.cut_api_etcd, 1.0, 8.0),
        "cut-agent": _lasting(network.cut_agent, 1.0, 8.0),
        "half-open-etcd": _lasting(network.half_open_etcd, 1.0, 8.0),
        "half-open-api": _lasting(network.half_open_api, 1.0, 8.0),
        "slow-network": _lasting(network.slow, 2.0, 8.0),
        "lossy-network": _lasting(network.lossy, 2.0, 8.0),
        "reset-connections": _at_once(network.reset),
        "flood": _lasting(load.flood, 1.0, 4.0),
        "slow-watcher": _lasting(load.slow_watcher, 4.0, 10.0),
        "clock-step": _lasting(clock.step, 2.0, 8.0, Need.CLOCKS),
        "drop-leader": _lasting(packets.drop_leader, 1.0, 8.0, Need.NAMESPACES),
        "drop-leader-sent": _lasting(packets.drop_leader_sent, 1.0, 8.0, Need.NAMESPACES),
        "drop-leader-received": _lasting(packets.drop_leader_received, 1.0, 8.0, Need.NAMESPACES),
        "drop-standby": _lasting(packets.drop_standby, 1.0, 8.0, Need.NAMESPACES),
        "kill-unheard-leader": _lasting(packets.kill_unheard_leader, 2.0, 8.0, Need.NAMESPACES),
        "kill-ray-head": _at_once(ray.kill_head, Need.RAY),
        "kill-ray-worker": _at_once(ray.kill_worker, Need.RAY),
        "kill-ray-actor": _at_once(ray.kill_actor, Need.RAY),
    }
)


def named(met: Collection[Need]) -> dict[str, Kind]:
    """Return the faults that can be done where these needs are met."""
    return {name: kind for name, kind in KINDS.items() if kind.need is None or kind.need in met}
