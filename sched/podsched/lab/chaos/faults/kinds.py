"""All faults by name, with their duration and requirements, and the plan of a run.

The target (such as the leader) is determined when a fault begins, with the plan's ``pick``. The
same seed gives the same plan; the reaction of the system depends on the machine.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from signal import Signals
from types import MappingProxyType
from typing import Final

from podsched.lab.chaos.faults import etcd, load, network, processes
from podsched.lab.chaos.faults.fault import Fault, agent, api, leader, standby
from podsched.lab.chaos.faults.network import CUT, HALF_OPEN, drop, impair
from podsched.lab.chaos.faults.processes import kill_ray, pause, ray_actors, ray_workers, send
from podsched.lab.chaos.system import PEERS

#: Seconds before the first fault, and the most after which another one begins during a fault.
WARM_UP, OVERLAP = 3.0, 2.0
#: Seconds between the end of a fault and the beginning of the next one.
PAUSE = (0.5, 5.0)
#: Share of the faults during which the next one begins.
OVERLAPPING = 0.25


class Need(Enum):
    """Requirements of faults."""

    RAY = "Ray evaluates (--ray)"
    NAMESPACES = "replicas have network namespaces (--namespaces)"
    CLOCKS = "libfaketime is installed"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: how many seconds it may last, and its requirement."""

    inject: Fault
    shortest: float = 0.0
    longest: float = 0.0
    need: Need | None = None

    @property
    def shortest_run(self) -> float:
        """Seconds of the shortest run that may have it: a fault takes a quarter of it at most."""
        return 4 * self.longest


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault with its beginning and duration. ``pick``: in [0, 1), selects the target."""

    number: int
    at: float
    name: str
    seconds: float
    pick: float


def plan(seed: int, seconds: float, kinds: Mapping[str, Kind]) -> list[PlannedFault]:
    """Return the faults of a run of a length in seconds, in the order of their beginning.

    Every kind occurs once before one is repeated. Faults that may last too long for the run are
    left out.
    """
    chance = random.Random(seed)
    names = sorted(name for name, kind in kinds.items() if kind.shortest_run <= seconds)
    faults: list[PlannedFault] = []
    bag: list[str] = []
    at = WARM_UP
    while names:
        if not bag:
            bag = chance.sample(names, len(names))
        name = bag.pop()
        kind = kinds[name]
        lasts = chance.uniform(kind.shortest, kind.longest)
        if at + lasts > seconds:
            break
        faults.append(PlannedFault(len(faults) + 1, at, name, lasts, chance.random()))
        pause, overlap = chance.uniform(*PAUSE), chance.uniform(0, OVERLAP)
        overlaps = chance.random() < OVERLAPPING
        at += overlap if overlaps and overlap < lasts else lasts + pause
    return faults


_PACKETS = (1.0, 8.0, Need.NAMESPACES)
_RAY = (0.0, 0.0, Need.RAY)
#: The links of a process, {}; those to a replica come from the other replicas.
_TO_ETCD, _TO_API, _ALL = ("{}", "etcd"), ("{}", "apiserver"), ("{}", "")
_FROM_PEERS = (PEERS, "{}")
KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "kill-leader": Kind(send(leader, Signals.SIGKILL)),
        "kill-standby": Kind(send(standby, Signals.SIGKILL)),
        "stop-leader": Kind(send(leader, Signals.SIGTERM)),
        # Shorter than the 2 s of the liveness key, longer, and longer than the lease's 15 s.
        "pause-leader": Kind(pause(leader), 0.3, 1.5),
        "pause-leader-long": Kind(pause(leader), 3.0, 8.0),
        "pause-leader-beyond-lease": Kind(pause(leader), 16.0, 20.0),
        "pause-standby": Kind(pause(standby), 1.0, 8.0),
        "kill-api": Kind(send(api, Signals.SIGKILL)),
        "hang-api": Kind(pause(api), 2.0, 8.0),
        "all-apis-down": Kind(processes.all_apis_down, 2.0, 5.0),
        "kill-agent": Kind(send(agent, Signals.SIGKILL)),
        "silent-agent": Kind(pause(agent), 3.0, 12.0),
        "rolling-restart": Kind(processes.rolling_restart),
        "kill-etcd": Kind(etcd.kill_member, 0.5, 6.0),
        "kill-etcd-leader": Kind(etcd.kill_leader, 0.5, 4.0),
        "move-etcd-leader": Kind(etcd.move_leader),
        "pause-etcd-leader": Kind(etcd.pause_leader, 0.5, 5.0),
        "etcd-majority-down": Kind(etcd.majority_down, 2.0, 6.0),
        "compact-etcd": Kind(etcd.compact),
        "etcd-full": Kind(etcd.full, 2.0, 5.0),
        "slow-disk": Kind(etcd.slow_disk, 3.0, 8.0),
        "cut-leader-etcd": Kind(impair(leader, CUT, "{} -x- etcd", _TO_ETCD), 1.0, 8.0),
        "cut-leader-api": Kind(impair(leader, CUT, "{} -x- API servers", _TO_API), 1.0, 8.0),
        "cut-leader-standbys": Kind(impair(leader, CUT, "{} -x- standbys", _FROM_PEERS), 1.0, 6.0),
        "cut-leader": Kind(impair(leader, CUT, "{} -x- everything", _ALL, _FROM_PEERS), 1.0, 8.0),
        "cut-clients": Kind(network.cut_clients, 1.0, 5.0),
        "cut-api-etcd": Kind(impair(api, CUT, "{} -x- etcd", _TO_ETCD), 1.0, 8.0),
        "cut-agent": Kind(impair(agent, CUT, "{} -x- API servers", _ALL), 1.0, 8.0),
        "half-open-etcd": Kind(
            impair(network.etcd_user, HALF_OPEN, "{} -> etcd, half open", _TO_ETCD), 1.0, 8.0
        ),
        "half-open-api": Kind(
            impair(network.api_user, HALF_OPEN, "{} -> API servers, half open", _TO_API), 1.0, 8.0
        ),
        "slow-network": Kind(network.slow, 2.0, 8.0),
        "lossy-network": Kind(network.lossy, 2.0, 8.0),
        "reset-connections": Kind(network.reset),
        "flood": Kind(load.flood, 1.0, 4.0),
        "slow-watcher": Kind(load.slow_watcher, 4.0, 10.0),
        "clock-step": Kind(processes.step_clock, 2.0, 8.0, Need.CLOCKS),
        "drop-leader": Kind(drop(leader), *_PACKETS),
        "drop-leader-sent": Kind(
            drop(leader, "all packets that {} sends are lost", sent=True), *_PACKETS
        ),
        "drop-leader-received": Kind(
            drop(leader, "all packets for {} are lost", sent=False), *_PACKETS
        ),
        "drop-standby": Kind(drop(standby), *_PACKETS),
        "kill-unheard-leader": Kind(network.kill_unheard_leader, 2.0, 8.0, Need.NAMESPACES),
        "kill-ray-head": Kind(kill_ray(lambda head: [head], "Ray's head is killed"), *_RAY),
        "kill-ray-worker": Kind(kill_ray(ray_workers, "process {} of Ray is killed"), *_RAY),
        "kill-ray-actor": Kind(kill_ray(ray_actors, "actor {} of Ray is killed"), *_RAY),
    }
)

#: Faults of a single process or link that leave a majority, without faults of clients; one of each
#: group of faults that differ only in how long they last.
SINGLE: Final = frozenset(KINDS) - {
    "all-apis-down",
    "compact-etcd",
    "cut-clients",
    "etcd-full",
    "etcd-majority-down",
    "flood",
    "kill-unheard-leader",
    "pause-leader-beyond-lease",
    "pause-leader-long",
    "rolling-restart",
    "slow-watcher",
}


def named(met: Collection[Need]) -> dict[str, Kind]:
    """Return the faults whose requirements are met."""
    return {name: kind for name, kind in KINDS.items() if kind.need is None or kind.need in met}
