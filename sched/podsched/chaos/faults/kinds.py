"""All faults by name: how long they last, what they need, and how they are done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from podsched.chaos.faults import etcd, load, network, processes, ray
from podsched.chaos.faults.fault import Do
from podsched.chaos.plan import Span


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault; ``ray``: only where Ray evaluates."""

    do: Do
    span: Span
    ray: bool = False


def _at_once(do: Do, *, ray: bool = False) -> Kind:
    return Kind(do, Span(0.0, 0.0), ray)


def _lasting(do: Do, shortest: float, longest: float) -> Kind:
    return Kind(do, Span(shortest, longest))


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
        "kill-ray-head": _at_once(ray.kill_head, ray=True),
        "kill-ray-worker": _at_once(ray.kill_worker, ray=True),
        "kill-ray-actor": _at_once(ray.kill_actor, ray=True),
    }
)


def named(*, ray: bool) -> dict[str, Kind]:
    """Return the faults that can be done, with Ray or without."""
    return {name: kind for name, kind in KINDS.items() if ray or not kind.ray}
