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
from podsched.lab.chaos.faults.fault import Do, agent, api, leader, standby
from podsched.lab.chaos.faults.network import CUT, HALF_OPEN, drop, impair
from podsched.lab.chaos.faults.processes import kill_ray, pause, ray_actors, ray_workers, send

#: Seconds before the first fault, and the most after which one begins while another one lasts.
WARM_UP, OVERLAP = 3.0, 2.0
#: Seconds between the end of a fault and the beginning of the next one.
PAUSE = (0.5, 5.0)
#: How often a fault begins before the one before it is over.
OVERLAPPING = 0.25


@dataclass(frozen=True, slots=True)
class Span:
    """How long a fault may last, in seconds."""

    shortest: float
    longest: float


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault with its beginning and duration. ``pick``: in [0, 1), selects the target."""

    number: int
    at: float
    name: str
    seconds: float
    pick: float


def shortest_run(span: Span) -> float:
    """Return the shortest run that may have a fault, in seconds: four times the fault's.

    In a shorter run it would leave no time for others.
    """
    return 4 * span.longest


def plan(seed: int, seconds: float, spans: Mapping[str, Span]) -> list[PlannedFault]:
    """Return the faults of a run of a length in seconds, in the order of their beginning.

    Every kind occurs once before one is repeated. Faults that may last too long for the run are
    left out.
    """
    chance = random.Random(seed)
    names = sorted(name for name, span in spans.items() if shortest_run(span) <= seconds)
    faults: list[PlannedFault] = []
    bag: list[str] = []
    at = WARM_UP
    while names:
        if not bag:
            bag = chance.sample(names, len(names))
        name = bag.pop()
        span = spans[name]
        lasts = chance.uniform(span.shortest, span.longest)
        if at + lasts > seconds:
            break
        faults.append(PlannedFault(len(faults) + 1, at, name, lasts, chance.random()))
        pause, overlap = chance.uniform(*PAUSE), chance.uniform(0, OVERLAP)
        overlaps = chance.random() < OVERLAPPING
        at += overlap if overlaps and overlap < lasts else lasts + pause
    return faults


class Need(Enum):
    """Requirements of faults."""

    RAY = "Ray evaluates (--ray)"
    NAMESPACES = "replicas have network namespaces (--namespaces)"
    CLOCKS = "libfaketime is installed"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault; ``need``: its requirement."""

    do: Do
    span: Span
    need: Need | None = None


def _kind(do: Do, shortest: float = 0.0, longest: float = 0.0, need: Need | None = None) -> Kind:
    return Kind(do, Span(shortest, longest), need)


_PACKETS = (1.0, 8.0, Need.NAMESPACES)
_RAY = (0.0, 0.0, Need.RAY)
KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "kill-leader": _kind(send(leader, Signals.SIGKILL)),
        "kill-standby": _kind(send(standby, Signals.SIGKILL)),
        "stop-leader": _kind(send(leader, Signals.SIGTERM)),
        # Shorter than the 2 s of the liveness key, longer, and longer than the lease's 15 s.
        "pause-leader": _kind(pause(leader), 0.3, 1.5),
        "pause-leader-long": _kind(pause(leader), 3.0, 8.0),
        "pause-leader-beyond-lease": _kind(pause(leader), 16.0, 20.0),
        "pause-standby": _kind(pause(standby), 1.0, 8.0),
        "kill-api": _kind(send(api, Signals.SIGKILL)),
        "hang-api": _kind(pause(api), 2.0, 8.0),
        "all-apis-down": _kind(processes.all_apis_down, 2.0, 5.0),
        "kill-agent": _kind(send(agent, Signals.SIGKILL)),
        "silent-agent": _kind(pause(agent), 3.0, 12.0),
        "rolling-restart": _kind(processes.rolling_restart),
        "kill-etcd": _kind(etcd.kill_member, 0.5, 6.0),
        "kill-etcd-leader": _kind(etcd.kill_leader, 0.5, 4.0),
        "move-etcd-leader": _kind(etcd.move_leader),
        "pause-etcd-leader": _kind(etcd.pause_leader, 0.5, 5.0),
        "etcd-majority-down": _kind(etcd.majority_down, 2.0, 6.0),
        "compact-etcd": _kind(etcd.compact),
        "etcd-full": _kind(etcd.full, 2.0, 5.0),
        "slow-disk": _kind(etcd.slow_disk, 3.0, 8.0),
        "cut-leader-etcd": _kind(impair(leader, "etcd", CUT, "{} -x- etcd"), 1.0, 8.0),
        "cut-leader-api": _kind(impair(leader, "apiserver", CUT, "{} -x- API servers"), 1.0, 8.0),
        "cut-leader-standbys": _kind(network.cut_leader_standbys, 1.0, 6.0),
        "cut-leader": _kind(network.cut_leader, 1.0, 8.0),
        "cut-clients": _kind(network.cut_clients, 1.0, 5.0),
        "cut-api-etcd": _kind(impair(api, "etcd", CUT, "{} -x- etcd"), 1.0, 8.0),
        "cut-agent": _kind(impair(agent, "", CUT, "{} -x- API servers"), 1.0, 8.0),
        "half-open-etcd": _kind(
            impair(network.etcd_user, "etcd", HALF_OPEN, "{} -> etcd, half open"), 1.0, 8.0
        ),
        "half-open-api": _kind(
            impair(network.api_user, "apiserver", HALF_OPEN, "{} -> API servers, half open"),
            1.0,
            8.0,
        ),
        "slow-network": _kind(network.slow, 2.0, 8.0),
        "lossy-network": _kind(network.lossy, 2.0, 8.0),
        "reset-connections": _kind(network.reset),
        "flood": _kind(load.flood, 1.0, 4.0),
        "slow-watcher": _kind(load.slow_watcher, 4.0, 10.0),
        "clock-step": _kind(processes.step_clock, 2.0, 8.0, Need.CLOCKS),
        "drop-leader": _kind(drop(leader), *_PACKETS),
        "drop-leader-sent": _kind(
            drop(leader, "all packets that {} sends are lost", sent=True), *_PACKETS
        ),
        "drop-leader-received": _kind(
            drop(leader, "all packets for {} are lost", sent=False), *_PACKETS
        ),
        "drop-standby": _kind(drop(standby), *_PACKETS),
        "kill-unheard-leader": _kind(network.kill_unheard_leader, 2.0, 8.0, Need.NAMESPACES),
        "kill-ray-head": _kind(kill_ray(lambda head: [head], "Ray's head is killed"), *_RAY),
        "kill-ray-worker": _kind(kill_ray(ray_workers, "process {} of Ray is killed"), *_RAY),
        "kill-ray-actor": _kind(kill_ray(ray_actors, "actor {} of Ray is killed"), *_RAY),
    }
)

#: The faults of a single process or link, other than those of clients, that leave a majority; of
#: those that differ only in how long they last, one.
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
