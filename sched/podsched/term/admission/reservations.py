"""Starts that are promised to units that wait, in ClusterQueues with backfill.

| from | to | when |
| --- | --- | --- |
| none | reserved | it cannot start now, but later beside all that runs and is reserved |
| reserved | reserved, earlier | something has ended before its limit |
| reserved | started | its time has come, or there is room before |
| reserved | withdrawn | what it was made of is gone: a node, quota, a unit's end, its own turn |

An annotation of the PodGroup, or of the pod, has the reservation, so that the next leader knows it.
Quota and nodes are kept for it from its start on: a unit that would not end before uses only what
is left over then. Times are monotonic, as in ``endings``.

Source: Slurm's backfill scheduler, https://slurm.schedmd.com/sched_config.html#backfill.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil, inf
from typing import Any, Final, NamedTuple

from podsched.api.objects import Pod, ResourceClaim
from podsched.cache.cache import Cache
from podsched.config.queues import Backfill as Settings
from podsched.framework.pod_groups import KIND, Beside, Try
from podsched.framework.pods import PodInfo
from podsched.queues.assignment import Assignment, Mode
from podsched.queues.backfill.plan import Plan, Reservation
from podsched.queues.backfill.profile import Profile
from podsched.queues.cycle import Rules, nominate, without_flavors
from podsched.queues.objects import PODS, Backfill, Preemption, Workload
from podsched.queues.quota import Amounts, FlavorResource
from podsched.queues.snapshot import Snapshot
from podsched.term.admission.endings import Endings, bound_at
from podsched.term.admission.holds import Holds
from podsched.term.admission.limits import SLACK, grace, occupied
from podsched.term.admission.reserved_devices import (
    PromisedDevice,
    given_back,
    may_use_devices,
    placeholder,
)
from podsched.term.admission.units import Unit, unit_key

#: Annotation of a PodGroup or pod: its reservation, as JSON.
RESERVATION: Final = "podsched.io/reservation"
#: Seconds between two rounds over the units that wait because starts have moved.
PAUSE: Final = 1.0
#: Seconds that a sum of times may be off by.
_ROUNDING: Final = 1e-3
#: Names of nodes that are told.
_MOST_NAMED: Final = 5
#: Max promised starts: the cost of each grows with their number.
_MOST_RESERVED: Final = 100
#: Max later times at which a unit is tried.
_MOST_TIMES: Final = 64


class News(NamedTuple):
    """What is to be told about the reservation of a unit; None: it has none any more."""

    reservation: Reservation | None
    reason: str
    message: str
    withdrawn: bool = False


class _Ending(NamedTuple):
    """What is free again on a node once a pod of a unit has ended."""

    end: float
    key: str
    requests: Mapping[str, int]


class Reservations:
    """See the module."""

    def __init__(
        self,
        cache: Cache,
        units: Mapping[str, Unit],
        endings: Endings,
        holds: Holds,
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._cluster = cache.cluster
        self._units = units
        self._endings = endings
        self._holds = holds
        self._snapshot = Snapshot(())
        self.of: dict[str, Reservation] = {}
        """By the key of the unit."""
        self.enabled = False
        """Whether a ClusterQueue has backfill."""
        self._nodes_version = -1
        #: Keys of units whose annotation has been read.
        self._read: set[str] = set()
        #: By the key of each unit with pods that have a node: when all that it takes is free.
        self._ends: dict[str, float] = {}
        #: Of the same units, the seconds from an eviction until then.
        self._graces: dict[str, float] = {}
        self._plan: Plan | None = None
        #: Until when the plan holds, and for each node what ends there.
        self._plan_until = -inf
        self._pods_on: dict[str, list[_Ending]] = {}
        #: Of units that wait for their victims, when all that they will take is free again.
        self._hold_ends: dict[str, float] = {}
        self._news: dict[str, News] = {}
        #: Keys of units that were tried once their time had come.
        self._due: set[str] = set()
        #: By key, when a unit may be promised a start that has not waited for long yet; its queue.
        self._young: dict[str, tuple[float, str]] = {}
        self._freed, self._said_until = False, -inf
        self._placeholders = 0

    def begin(self, snapshot: Snapshot) -> None:
        """Use a new snapshot; all units are looked at again."""
        self._snapshot = snapshot
        self._ends.clear()
        self._graces.clear()
        self._young.clear()
        self.enabled = any(queue.backfill is not None for queue in snapshot.queues.values())
        self.outdate()

    def end_without_unit(self) -> None:
        """Forget the reservations of units that are gone, or wait in no queue with backfill."""
        for key in list(self.of):
            unit = self._units.get(key)
            queue = None if unit is None else self._snapshot.queues.get(unit.queue)
            if unit is None:
                self._forget(key)
            elif queue is None or queue.backfill is None:
                self.withdraw(key, "NoBackfill", f"ClusterQueue {unit.queue} has no backfill")

    def outdate(self) -> None:
        """Make the plan anew: what runs has changed."""
        self._plan = None

    # ------------------------------------------------------------------ what happens to units

    def look(self, unit: Unit, workload: Workload | None, why: str, now: float) -> Workload | None:
        """Look at a unit that has changed, and return what it waits for, with its seconds.

        ``workload``: the same without; None if it waits for nothing, and then ``why``, or "".
        """
        if not self.enabled:
            return workload
        key = unit.key
        self.outdate()
        self._ends.pop(key, None)
        self._graces.pop(key, None)
        if unit.held:
            self._ends[key] = self._end_of(unit, now)
            self._graces[key] = grace(unit) + SLACK
            if key in self.of:
                self._end(key, News(None, "Started", "It has started"))
        if not unit.waiting:
            self._read.discard(key)
            if key in self.of:
                self._forget(key)
        if workload is None:
            self.withdraw(key, "Suspended", why or "pods of it, or their claims, are missing")
            return None
        seconds = occupied(self._cluster, unit)
        workload = replace(workload, seconds=seconds, shape=(workload.shape, seconds))
        if not unit.held:
            self._look_at_reservation(unit, workload)
        return workload

    def _look_at_reservation(self, unit: Unit, workload: Workload) -> None:
        """Read the reservation of a waiting unit, or bring the one that is known up to date."""
        key, found = unit.key, self.of.get(unit.key)
        if key not in self._read:
            self._read.add(key)
            found = found or _parsed(self._annotation(unit), workload, self._endings.epoch)
        if found is not None:
            queue, priority, seconds = workload.queue, workload.priority, workload.seconds
            self.of[key] = replace(found, queue=queue, priority=priority, seconds=seconds)

    def _annotation(self, unit: Unit) -> str:
        """Return the annotation of a unit: on its PodGroup, or on one of its pods."""
        name = unit.key.partition("/")[2]
        group = self._cluster.get(KIND, unit.namespace, name)
        metadata = [pod.pod.metadata for pod in unit.waiting.values()]
        if group is not None:
            metadata = [group.metadata]
        return next((text for of in metadata if (text := of.annotations.get(RESERVATION, ""))), "")

    def _end_of(self, unit: Unit, now: float) -> float:
        pods = unit.held.values()
        begun = self._endings.admitted_at(unit)
        if begun == inf:
            # Its limit counts from the first of those that are left, which may be the last one.
            begun = max(min(now, bound_at(pod) - self._endings.epoch) for pod in pods)
        end = begun + occupied(self._cluster, unit)
        if all(pod.terminating for pod in pods):
            gone = max(pod.pod.metadata.deletion_timestamp.seconds for pod in pods)
            end = min(end, gone + SLACK - self._endings.epoch)
        return end

    def _hold_end(self, key: str, now: float) -> float:
        """Return when all that a unit takes is free again that waits for its victims."""
        hold = self._holds.of[key]
        gone = [hold.since + self._graces.get(victim, 0.0) for victim in hold.victims]
        return max(now + SLACK, *gone) + occupied(self._cluster, self._units[key])

    def make(self, key: str, made: Reservation) -> None:
        """Promise a start to a unit, or another one than before."""
        epoch, old = self._endings.epoch, self.of.get(key)
        made = replace(made, start=ceil(made.start + epoch) - epoch)
        if old == made:
            return
        message = f"It {self._promise(made)}"
        news = News(made, "Reserved", message)
        if old is not None and made.start > old.start:
            cause, why = self._why_late(key, old)
            text = f"The start at {self.time_text(old.start)} is withdrawn: {why}. {message}"
            news = News(made, cause, text, withdrawn=True)
        # Others may start earlier, or those of lower priority have to be planned anew.
        below = any(one.priority < made.priority for one in self.of.values())
        self._freed |= below or (old is not None and made.start != old.start)
        untold = self._news.get(key)
        if untold is not None and untold.withdrawn and not news.withdrawn:
            # The promise that people know of is the one that was withdrawn.
            text = f"{untold.message.partition('. It ')[0]}. {message}"
            news = untold._replace(reservation=made, message=text)
        self.of[key] = made
        self._due.discard(key)
        self._news[key] = news
        self.outdate()

    def withdraw(self, key: str, cause: str = "", why: str = "") -> None:
        """Take a promise back, if a unit has one; the reason is looked for unless it is given."""
        old = self.of.get(key)
        if old is None:
            return
        if not cause:
            cause, why = self._why_late(key, old)
        text = f"The start at {self.time_text(old.start)} is withdrawn: {why}"
        self._end(key, News(None, cause, text, withdrawn=True))

    def _end(self, key: str, news: News) -> None:
        self._forget(key)
        self._news[key] = news

    def _forget(self, key: str) -> None:
        del self.of[key]
        self._due.discard(key)
        self._freed = True
        self.outdate()

    def _why_late(self, key: str, old: Reservation) -> tuple[str, str]:
        """Return the reason, as a word and as a text, why a reservation cannot be kept."""
        if missing := self._missing_node(old):
            return "NodeGone", missing
        late = [
            other
            for other, end in self._ends.items()
            if self._endings.started_at(self._units[other], inf) + SLACK < old.start
            and end > old.start
            and self._overlaps(self._units[other], old)
        ]
        node = self._snapshot.forest.queues.get(old.queue)
        if node is None or any(amount > node.most(one) for one, amount in old.usage.items()):
            return "QuotaChanged", f"ClusterQueue {old.queue} has less quota"
        above = [
            other
            for other, one in self.of.items()
            if one.priority > old.priority and one.start < old.end and one.end > old.start
            if one.usage.keys() & old.usage.keys() or one.nodes.keys() & old.nodes.keys()
        ]
        if above:
            return "Overtaken", f"{above[0]} of higher priority takes what was reserved"
        if late and self._ends[late[0]] <= old.start + SLACK < inf:
            return "LimitExceeded", f"{late[0]} runs for longer than its limit"
        if found := self._pod_without_queue(key, old):
            pod, name = found
            return "NoLongerFits", f"pod {pod.key}, which is in no queue, takes room of node {name}"
        if late:
            return "Overtaken", f"{late[0]} takes what was reserved"
        return "NoLongerFits", "its nodes have no room any more"

    def _pod_without_queue(self, key: str, old: Reservation) -> tuple[PodInfo, str] | None:
        """Return the last pod without a queue on a node that has too little room, and the node."""
        nodes = self._cluster.nodes
        others = [
            one
            for other, one in self.of.items()
            if other != key and one.priority >= old.priority and one.start <= old.start < one.end
        ]
        for name, amounts in old.nodes.items():
            row = nodes.row_of(name)
            pods = () if row is None else nodes.pods(row).values()
            stay = [pod for pod in pods if self._ends.get(unit_key(pod), inf) > old.start]
            need = Counter(amounts)
            kept = (one.nodes.get(name, {}) for one in others)
            for used in (*(pod.cls.requests for pod in stay), *kept):
                need.update(used)
            without = [pod for pod in stay if unit_key(pod) not in self._units]
            short = any(need[one] > nodes.allocatable(one)[row] for one in amounts if one != PODS)
            if without and short:
                return max(without, key=bound_at), name
        return None

    def _overlaps(self, unit: Unit, old: Reservation) -> bool:
        """Whether a unit is on nodes of a reservation, or uses quota of it."""
        on = {pod.node_name for pod in unit.held.values()}
        return bool(unit.usage.keys() & old.usage.keys() or on & old.nodes.keys())

    # ------------------------------------------------------------------ what is to be done

    def take_news(self) -> dict[str, News]:
        """Remove and return what is to be told, by the key of the unit."""
        found, self._news = self._news, {}
        return found

    def take_due(self, now: float) -> list[str]:
        """Return the ClusterQueues in which a unit's time has come, each once for a unit.

        That is its start, or when it has waited for long enough to be promised one.
        """
        due = [key for key, one in self.of.items() if one.start <= now and key not in self._due]
        self._due.update(due)
        grown = [key for key, (at, _) in self._young.items() if at <= now]
        return [*(self.of[key].queue for key in due), *(self._young.pop(key)[1] for key in grown)]

    def take_disturbed(self) -> list[str]:
        """Return the ClusterQueues in which nodes are missing that were reserved."""
        version = self._cluster.version("Node")
        if not self.of or version == self._nodes_version:
            return []
        self._nodes_version = version
        return [one.queue for one in self.of.values() if self._missing_node(one)]

    def _missing_node(self, one: Reservation) -> str:
        """Return why a node of a reservation cannot be used, or ""."""
        nodes = self._cluster.nodes
        for name in one.nodes:
            row = nodes.row_of(name)
            if row is None:
                return f"node {name} is gone"
            if nodes.node(row).spec.unschedulable:
                return f"node {name} is unschedulable"
        return ""

    def take_freed(self, now: float) -> bool:
        """Whether a reservation has ended or moved, so that others may start earlier.

        That is said at most once in ``PAUSE``: each may move others in turn.
        """
        freed = self._freed and now >= self._said_until
        if freed:
            self._freed, self._said_until = False, now + PAUSE
        return freed

    def next_time(self) -> float | None:
        """Return when a unit's time comes next, or others are to be tried again."""
        times = [one.start for key, one in self.of.items() if key not in self._due]
        times += [self._said_until] if self._freed else []
        times += [at for at, _ in self._young.values()]
        return min(times, default=None)

    def has(self, queue: str) -> bool:
        """Whether a unit of a ClusterQueue has a reservation."""
        return any(one.queue == queue for one in self.of.values())

    def time_text(self, at: float) -> str:
        """Return a time for people, in UTC."""
        wall = datetime.fromtimestamp(at + self._endings.epoch, UTC)
        return wall.strftime("%Y-%m-%dT%H:%M:%SZ")

    def promise(self, key: str) -> str:
        """Return what a unit is promised, as a part of a sentence; "" for nothing."""
        return f"it {self._promise(self.of[key])}" if key in self.of else ""

    def _promise(self, made: Reservation) -> str:
        names = sorted(made.nodes)
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        where = f"reserved on nodes {', '.join(names[:_MOST_NAMED])}{more}"
        return f"starts at {self.time_text(made.start)} at the latest, {where}"

    def written(self, made: Reservation) -> str:
        """Return the annotation."""
        usage = {f"{one.flavor}/{one.resource}": number for one, number in made.usage.items()}
        body: dict[str, Any] = {
            "start": self.time_text(made.start),
            "usage": usage,
            "nodes": made.nodes,
        }
        if made.devices:
            body["devices"] = list(made.devices)
        return json.dumps(body, separators=(",", ":"))

    # ------------------------------------------------------------------ when a unit can start

    def plan(self, now: float) -> Plan:
        """Return what runs and what is reserved."""
        if self._plan is not None and now < self._plan_until:
            return self._plan
        ends = {key: _still(end, now) for key, end in self._ends.items()}
        times = [*ends.values()]
        for one in self.of.values():
            times += (one.start, one.end)
        profile = Profile(now, self._snapshot.forest, times)
        self._pods_on = {}
        for key, end in ends.items():
            unit = self._units[key]
            profile.occupy(unit.queue, unit.usage, now, end)
            if end < inf:
                for pod in unit.held.values():
                    on = self._pods_on.setdefault(pod.node_name, [])
                    on.append(_Ending(end, key, {**pod.cls.requests, PODS: 1}))
        self._hold_ends = {key: self._hold_end(key, now) for key in self._holds.of}
        for key, end in self._hold_ends.items():
            hold = self._holds.of[key]
            profile.occupy(hold.queue, hold.counted, now, end)
            for pod in self._units[key].waiting.values() if end < inf else ():
                node = self._cluster.nominated_node(pod.uid)
                on = self._pods_on.setdefault(node, [])
                on.append(_Ending(end, key, {**pod.cls.requests, PODS: 1}))
        later = profile.times[1:2].tolist()
        self._plan_until = min([now + SLACK, *later])
        self._plan = Plan(profile, self.of)
        return self._plan

    def delay(
        self, workload: Workload, usage: Amounts, victims: Sequence[Workload], now: float
    ) -> str:
        """Return whose start would be late for lack of quota if a unit started now, or ""."""
        gone = [(one.queue, one.usage, self._ends.get(one.key, inf)) for one in victims]
        who = workload.key, workload.queue, workload.priority
        seconds = self._seconds(workload, now) + self.pause(victims)
        found = self.plan(now).delays(*who, usage, seconds, gone)
        if found is None:
            return ""
        quota = found.quota
        what = f"{quota.resource} in flavor {quota.flavor}"
        return f"it would delay {self._of(found.key)}, by its use of {what}"

    def _seconds(self, workload: Workload, now: float) -> float:
        """Return for how long a unit takes what it gets: the members of a gang end together."""
        end = self._ends.get(workload.key)
        return workload.seconds if end is None else _still(end, now) - now - _ROUNDING

    def pause(self, victims: Iterable[Workload]) -> float:
        """Return the seconds until units are gone that are evicted now."""
        return max((self._graces.get(one.key, 0.0) for one in victims), default=0.0)

    def kept_node(self, workload: Workload, now: float) -> str:
        """Return for whom a node, or devices, are kept that a unit could use otherwise, or ""."""
        others = self.plan(now).others(workload.key, workload.priority)
        pod = next(iter(self._units[workload.key].waiting.values()))
        until = now + self._seconds(workload, now)
        for key, one in sorted(others.items(), key=lambda item: item[1].start):
            for node, amounts in self._taken([one], now, until):
                if self._keeps_out(pod, node, amounts):
                    return f"node {node} is kept for {self._of(key)}"
            if one.devices and may_use_devices(pod) and one.start < until:
                driver, pool, *_ = one.devices[0]
                return f"devices of pool {driver}/{pool} are kept for {self._of(key)}"
        return ""

    def _keeps_out(self, pod: PodInfo, node: str, amounts: Mapping[str, int]) -> bool:
        """Whether a node would have room for a pod if these amounts were not kept there."""
        nodes = self._cluster.nodes
        row = nodes.row_of(node)
        if row is None:
            return False
        requests = {name: number for name, number in pod.cls.requests.items() if number}
        free = {
            name: nodes.allocatable(name)[row] - nodes.requested(name)[row] for name in requests
        }
        fits = all(number <= free[name] for name, number in requests.items())
        return fits and any(n > free[name] - amounts.get(name, 0) for name, n in requests.items())

    def _of(self, key: str) -> str:
        return f"{key}, which starts at {self.time_text(self.of[key].start)} at the latest"

    def beside(
        self, workload: Workload, at: float, now: float, victims: Sequence[Workload] = ()
    ) -> Beside:
        """Return placeholders for what a unit must leave free from ``at`` on: pods and claims.

        That is what reservations that it must not delay need while it runs, beyond what those pods
        free that have ended by then. Pods that end until ``at`` count as gone, and so do victims,
        for whom it has to wait.
        """
        others = self.plan(now).others(workload.key, workload.priority)
        found, until = [], at + self.pause(victims) + self._seconds(workload, now)
        gone = {one.key for one in victims}
        for node, amounts in self._taken(others.values(), at, until, gone):
            found += [(pod, node) for pod in self._placeholders_for(node, amounts)]
        claims = [
            placeholder(
                key,
                map(PromisedDevice._make, one.devices)
                if one.start < until and one.end > at
                else (),
            )
            for key, one in others.items()
            if one.devices
        ]
        return Beside(found, claims)

    def _taken(
        self,
        reserved: Iterable[Reservation],
        at: float,
        until: float,
        gone: Collection[str] = (),
    ) -> Iterator[tuple[str, Mapping[str, int]]]:
        by_node: dict[str, list[Reservation]] = {}
        for one in reserved:
            if one.start < until and one.end > at:
                for node in one.nodes:
                    by_node.setdefault(node, []).append(one)
        for node, here in by_node.items():
            most = self._most_needed(node, here, at, gone)
            if any(most.values()):
                yield node, most

    def _most_needed(
        self, node: str, here: Sequence[Reservation], at: float, gone: Collection[str]
    ) -> Mapping[str, int]:
        """Return what reservations take of a node at any time, beyond what has ended since.

        ``gone``: the keys of units whose room is free already.
        """
        most: Counter[str] = Counter()
        for moment in {max(one.start, at) for one in here}:
            need: Counter[str] = Counter()
            for one in here:
                if one.start <= moment < one.end:
                    need.update(one.nodes[node])
            for ending in self._pods_on.get(node, ()):
                if at < ending.end <= moment and ending.key not in gone:
                    need.subtract(ending.requests)
            most |= need
        return most

    def _placeholders_for(self, node: str, amounts: Mapping[str, int]) -> Iterator[PodInfo]:
        """Yield pods that request this much in sum, of which ``PODS`` is the number."""
        for index in range(max(1, amounts.get(PODS, 0))):
            self._placeholders += 1
            message = Pod()
            message.metadata.name = f"reserved-{self._placeholders}"
            message.metadata.uid = f"podsched.io/{message.metadata.name}"
            requests = message.spec.containers.add(name="reserved").resources.requests
            for resource, number in amounts.items() if index == 0 else ():
                if resource != PODS and number > 0:
                    requests[resource] = f"{number}m" if resource == "cpu" else str(number)
            metadata = message.metadata
            cls = self._cache.classes.intern(message)
            yield PodInfo(metadata.uid, f"/{metadata.name}", metadata.name, cls, message)

    def ahead(self, workload: Workload, at: float, now: float, gone: Sequence[PodInfo]) -> Try:
        """Return the cluster as it is expected to be later; ``gone``: placeholders for now."""
        self.plan(now)
        ended = [
            pod
            for key, end in self._ends.items()
            if _still(end, now) <= at
            for pod in self._units[key].held.values()
        ]
        # A nomination counts as long as its unit takes the room, which waits for victims there.
        for node in self._cluster.nominated_nodes():
            for pod in self._cluster.nominated_pods(node):
                key = unit_key(pod)
                if key != workload.key and key in self._units:
                    ended += [pod] if self._hold_ends.get(key, now) <= at else []
        beside, claims = self.beside(workload, at, now)
        freed: Iterable[ResourceClaim] = ()
        if any(map(may_use_devices, self._units[workload.key].waiting.values())):
            freed = given_back(self._cluster, ended)
        return Try([*ended, *gone], beside, [*freed, *claims])

    def may_promise(self, workload: Workload, policy: Backfill, now: float) -> bool:
        """Whether a unit that cannot start now may be promised a start; it keeps one it has."""
        key, settings = workload.key, self._settings
        if key in self.of:
            return True
        lowest = settings.min_priority
        if len(self.of) >= _MOST_RESERVED or (lowest is not None and workload.priority < lowest):
            return False
        grown = workload.queued_at - self._endings.epoch + settings.min_age
        if settings.min_age and grown > now:
            self._young[key] = grown, workload.queue
            return False
        who = key, workload.queue, workload.priority
        return self.plan(now).may_reserve(*who, policy, settings.starts_per_queue)

    def later(self, workload: Workload, rules: Rules, now: float) -> list[tuple[float, Assignment]]:
        """Return later times at which quota has room for a unit, with its flavors then.

        A time has all flavors that have room: where the first has none on nodes, another may.
        """
        plan, snapshot, known = self.plan(now), self._snapshot, self.of.get(workload.key)
        others = plan.others(workload.key, workload.priority)
        units, holds = self._units, self._holds.of
        ending: list[tuple[float, str, Amounts]] = [
            (_still(end, now), units[key].queue, units[key].usage)
            for key, end in self._ends.items()
        ]
        ending += [
            (end, holds[key].queue, holds[key].counted) for key, end in self._hold_ends.items()
        ]
        ending.sort(key=lambda one: one[0])
        times = {end for end, _, _ in ending} | {one.end for one in others.values()}
        if known is not None:
            times.add(known.start)
        starts: dict[frozenset[tuple[FlavorResource, int]], set[float]] = {}
        found, ended = [], 0
        window = self._settings.window or inf
        for at in _thinned(sorted(t for t in times if now < t < inf and t - now <= window)):
            while ended < len(ending) and ending[ended][0] <= at:
                snapshot.remove_usage(*ending[ended][1:])
                ended += 1
            active = [one for one in others.values() if one.start <= at < one.end]
            for one in active:
                snapshot.add_usage(one.queue, one.usage)
            for assignment in _fitting(snapshot, workload, rules):
                of_usage = frozenset(assignment.usage.items())
                if of_usage not in starts:
                    who = workload.key, workload.queue, workload.priority
                    starts[of_usage] = set(plan.starts(*who, assignment.usage, workload.seconds))
                if at in starts[of_usage]:
                    found.append((at, assignment))
            for one in active:
                snapshot.remove_usage(one.queue, one.usage)
        for _, queue, usage in ending[:ended]:
            snapshot.add_usage(queue, usage)
        return found


def _fitting(snapshot: Snapshot, workload: Workload, rules: Rules) -> Iterator[Assignment]:
    """Yield the choices of flavors for which there is room, without victims."""
    queue = replace(snapshot.queues[workload.queue], preemption=Preemption())
    left: Workload | None = replace(workload, tried=())
    while left is not None:
        assignment, _ = nominate(snapshot, queue, left, rules)
        if assignment.mode is not Mode.FIT:
            return
        yield assignment
        left = without_flavors(queue, left, assignment)


def _still(end: float, now: float) -> float:
    """Return the end of what still runs: a bit later than now if it should be gone already."""
    return end if end > now else now + SLACK


def _thinned(times: Sequence[float]) -> Sequence[float]:
    """Return all times, or evenly as many as are tried, the last among them."""
    step = ceil(len(times) / _MOST_TIMES)
    return times if step <= 1 else times[::-1][::step][::-1]


def _parsed(text: str, workload: Workload, epoch: float) -> Reservation | None:
    """Return the reservation of an annotation; None if it has none that can be read."""
    if not text:
        return None
    try:
        body = json.loads(text)
        start = datetime.fromisoformat(body["start"]).timestamp() - epoch
        usage = {
            FlavorResource(*name.split("/", 1)): _number(number)
            for name, number in body["usage"].items()
        }
        nodes = {
            str(node): {str(resource): _number(number) for resource, number in amounts.items()}
            for node, amounts in body["nodes"].items()
        }
        devices = tuple(map(_device, body.get("devices", ())))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    who = workload.queue, workload.priority
    return Reservation(*who, start, workload.seconds, usage, nodes, devices)


def _device(value: Any) -> PromisedDevice:
    *names, capacity = value
    driver, pool, device, share = map(str, names)
    pairs = tuple((str(name), str(amount)) for name, amount in capacity)
    return PromisedDevice(driver, pool, device, share, pairs)


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0 or value >= 1 << 62:
        raise ValueError(value)
    return value
