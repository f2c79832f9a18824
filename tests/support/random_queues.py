"""Random histories of queues on a cluster in virtual time, and what must hold at every step.

A step submits or ends a job, changes a node or a quota, or lets time pass; now and then the leader
dies and another takes over, on what is stored. Usage is counted here from the stored pods alone.

Run many steps with ``cd tests && python -m support.random_queues STEPS [SEED]``.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.conditions import (
    DISRUPTION_TARGET,
    REASON_PREEMPTION_BY_SCHEDULER,
    set_pod_condition,
)
from podsched.api.objects import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Node,
    Pod,
    PodCondition,
    PodGroup,
)
from podsched.api.queue_labels import (
    BACKFILL,
    FLAVORS_ANNOTATION,
    MAX_EXEC_TIME,
    REQUIRED_LEVEL,
    SLICE_LEVEL,
)
from podsched.lab.replay.simulation import run_in_virtual_time
from podsched.queues.cycle import Cycle
from podsched.queues.objects import Strategy, Workload
from podsched.queues.order import Requeue
from podsched.queues.quota import FlavorResource
from podsched.queues.quota import Node as TreeNode
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cluster_queue, read_cohort
from podsched.term.admission.units import level_of
from podsched.testing.fake_cluster import FakeCluster
from support import queues as make
from support.dying_binder import DyingBinder
from support.promises import REASONS, Promises
from support.random_jobs import GUARDED, SLICE, ZONE, RandomJobs
from support.term_world import WALL, TermWorld

FLAVORS: Final = ("blue", "red")
CPU, GPU = "cpu", make.GPU
#: Seconds after which every binding is done, and after which every job that fits has started.
_BOUND, _QUIET = 1.0, 30.0
_MOST_WAITING: Final = 16

Usage = dict[str, Counter[FlavorResource]]


class RandomQueues:
    """A cluster with queues, and its random history."""

    def __init__(self, seed: int, *, backfills: bool | None = None) -> None:
        """``backfills``: whether queues have backfill; None: half of the histories."""
        self.seed = seed
        self.rng = random.Random(seed)
        loop = asyncio.get_running_loop()
        self.cluster = FakeCluster(now=lambda: WALL + loop.time())
        self.steps = 0
        self.terms = 0
        self.started = 0
        self._world: TermWorld | None = None
        self._settings: dict[str, Any] = {}
        if self.rng.random() < 0.4:
            self._settings["fairSharing"] = {}
        if self.rng.random() < 0.4:
            self._settings["admissionFairSharing"] = {"usageHalfLifeTime": "10m"}
        if self.rng.random() < 0.4:
            strategy = {"backoffBaseSeconds": 5, "backoffLimitCount": 2}
            late = {"timeout": "40s", "requeuingStrategy": strategy}
            self._settings["waitForPodsReady"] = late
        self._names = 0
        self._backfills = self.rng.random() < 0.5 if backfills is None else backfills
        #: What may happen to promised starts, see ``promises``; nothing: all of them are kept.
        self._disturbances: set[str] = set(REASONS)
        if self._backfills:
            if self.rng.random() < 0.5:
                self._disturbances.clear()
            elif self.rng.random() < 0.5:
                self._disturbances = {self.rng.choice(list(REASONS))}
        self.promises = Promises(self.cluster, self._disturbances)
        #: Gangs whose members ended, or were taken: any number of the others may be left.
        self._disturbed: set[str] = set()
        self._has_topology = seed % 2 == 1
        self._jobs = RandomJobs(
            self.rng, self._disturbances, limits=self._backfills, zones=self._has_topology
        )
        self._usage: Usage = {}
        #: The quotas since the last check, in order.
        self._trees: list[Snapshot] = []
        self.done: list[str] = []

    @property
    def world(self) -> TermWorld:
        assert self._world is not None
        return self._world

    async def run(self, steps: int) -> None:
        """Do so many steps more; raises AssertionError."""
        end = self.steps + steps
        while self.steps < end:
            self._world = TermWorld(cluster=self.cluster, queues=self._settings)
            self._world.recorder.run = self._no_events  # type: ignore[method-assign]
            binder = self._binder = DyingBinder(self._world)
            self.promises.listen(self._world)
            if not self.terms:
                self._set_up()
            self.terms += 1
            length = self.rng.randint(5, 200)
            try:
                async with self._world.running():
                    kubelets = asyncio.create_task(self._end_in_time())
                    await self._settle(_BOUND)
                    for _ in range(min(length, end - self.steps)):
                        await self._step()
                    if self.rng.random() < 0.5:
                        binder.dies_after = self.rng.randint(0, 6)
                    if self.rng.random() < 0.3:
                        binder.dies_after_evictions = self.rng.randint(0, 2)
                    self._submit()
                    await asyncio.sleep(self.rng.choice((0.0, 0.001, 0.5)))
                    kubelets.cancel()
                    with suppress(asyncio.CancelledError):
                        await kubelets
            except AssertionError as failure:
                raise AssertionError(
                    f"seed {self.seed}, step {self.steps}, with {sorted(self._disturbances)}, "
                    f"after {self.done[-12:]}: {failure}"
                ) from failure
            self._tidy()

    async def _end_in_time(self) -> None:
        """Remove pods once their grace period is over, if limits have to hold; look at promises."""
        await asyncio.sleep(0.3717)  # Not at the time of a check.
        while self._backfills:
            self.promises.look(self.world.clock())
            for pod in self._pods() if "limit" not in self._disturbances else ():
                if 0 < pod.metadata.deletion_timestamp.seconds <= WALL + self.world.clock():
                    self._gone(pod)
            await asyncio.sleep(1.0)

    async def _no_events(self) -> None:
        await asyncio.Event().wait()

    # ------------------------------------------------------------------ the cluster

    def _set_up(self) -> None:
        world, rng = self.world, self.rng
        if self._has_topology:
            make.topology(world, "zones", ZONE, "kubernetes.io/hostname")
        for name in FLAVORS:
            topology = "zones" if self._has_topology else ""
            make.flavor(world, name, topology=topology, kind=name)
        for _ in range(4):
            self._add_node()
        world.budget("guarded", 0, **GUARDED)
        make.cohort(world, "root")
        for name in ("left", "right"):
            make.cohort(world, name, "root")
        for index in range(5):
            strategy = rng.choice(("StrictFIFO", "BestEffortFIFO"))
            policy = rng.choice(("", "EASY", "EASY", "Conservative", "Conservative"))
            policy = policy if self._backfills else ""
            made = make.cluster_queue(
                world,
                f"q{index}",
                None,
                {name: self._quotas() for name in FLAVORS},
                cohort=rng.choice(("left", "left", "right", "root", "")),
                strategy="BestEffortFIFO" if policy else strategy,
                annotations={BACKFILL: policy} if policy else {},
                within=rng.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
                reclaim=rng.choice(("Never", "LowerPriority", "Any")),
                mode=rng.choice(("", "UsageBasedAdmissionFairSharing")),
                when_can_preempt=rng.choice(("TryNextFlavor", "MayStopSearch")),
                when_can_borrow=rng.choice(("TryNextFlavor", "MayStopSearch")),
            )
            assert made.spec.resource_groups
        self._trees = [self._tree()]

    def _quotas(self) -> dict[str, Any]:
        least = 6 if self._backfills else 0
        return {"cpu": self.rng.randint(least, 12), "gpu": self.rng.randint(least, 12)}

    def _tidy(self) -> None:
        """Forget what only costs memory: events, the history, and groups without pods."""
        for event in self.cluster.objects("Event"):
            self.cluster.delete("Event", f"{event.metadata.namespace}/{event.metadata.name}")
        used = {pod.spec.scheduling_group.pod_group_name for pod in self._pods()}
        for group in self.cluster.objects("PodGroup"):
            if group.metadata.name not in used:
                self.cluster.delete("PodGroup", f"default/{group.metadata.name}")
                self._disturbed.discard(group.metadata.name)
        self.cluster.bound.clear()
        self.cluster.compact()

    # ------------------------------------------------------------------ steps

    async def _step(self) -> None:
        self.steps += 1
        steps = {
            self._submit: 6,
            self._end: 1 if self._backfills else 5,
            self._terminate: 4,
            self._change_node: int("node" in self._disturbances),
            self._change_quota: int("quota" in self._disturbances),
            self._move: int("move" in self._disturbances),
            self._grow: int("growth" in self._jobs.features),
            # A start that fails would be told as a broken promise.
            self._refuse: int("refusals" in self._jobs.features and not self._backfills),
            self._get_ready: 2,
            self._wait: 2,
        }
        [step] = self.rng.choices(list(steps), list(steps.values()))
        self.done = [*self.done[-50:], step.__name__]
        quiet = step == self._wait
        if step == self._submit and len(self._waiting()) >= _MOST_WAITING:
            step = self._give_up if self._backfills else self._end
        if step == self._move:
            await self._settle(_BOUND)  # See ``RandomJobs.move``.
        step()
        if quiet:
            await self._settle(_QUIET)
            if self.world.state.admission.turns.ready:
                # Some are tried again every five minutes.
                await self._settle(_BOUND)
            self.check_progress()
        elif self.rng.random() < 0.8:
            await self._settle(_BOUND)
        else:
            await asyncio.sleep(self.rng.choice((0.0, 0.001, 0.01)))

    async def _settle(self, seconds: float) -> None:
        """Let time pass, and what has begun meanwhile, such as at the end of a backoff, end."""
        await asyncio.sleep(seconds)
        if self.world.state.cache.assumed:
            await asyncio.sleep(_BOUND)
        self.check()

    def _wait(self) -> None:
        self._binder.refused.clear()
        for pod in self._pods():
            if pod.metadata.HasField("deletion_timestamp"):
                self._gone(pod)

    def _submit(self) -> None:
        self._jobs.submit(self.world)

    def _grow(self) -> None:
        self._jobs.grow(self.world, [pod for pod in self._pods() if pod.spec.node_name])

    def _move(self) -> None:
        self._jobs.move(self.world, self._pods())

    def _refuse(self) -> None:
        """Have bindings fail, until time passes: gangs may then run in part."""
        for pod in self._waiting()[:2]:
            self._disturb(pod)
            self._binder.refused.add(pod.metadata.name)

    def _end(self) -> None:
        bound = [pod for pod in self._pods() if pod.spec.node_name]
        if not bound:
            return
        endless = [pod for pod in bound if MAX_EXEC_TIME not in pod.metadata.labels]
        pod = self.rng.choice(endless or bound)
        group = pod.spec.scheduling_group.pod_group_name
        ending = [
            one for one in bound if group and one.spec.scheduling_group.pod_group_name == group
        ] or [pod]
        if self.rng.random() < 0.2:
            ending = [pod]
        for one in ending:
            self._disturb(one)
            if self.rng.random() < 0.5:
                one.status.phase = "Succeeded"
                self.cluster.update(one)
            self.cluster.delete("Pod", f"default/{one.metadata.name}")

    def _give_up(self) -> None:
        """Delete the pods of a job that waits."""
        chosen = self.rng.choice(self._waiting())
        group = chosen.spec.scheduling_group.pod_group_name
        for pod in self._waiting():
            if pod is chosen or (group and pod.spec.scheduling_group.pod_group_name == group):
                self._gone(pod)

    def _terminate(self) -> None:
        """Let one or all of the pods go that are terminating."""
        leaving = [p for p in self._pods() if p.metadata.HasField("deletion_timestamp")]
        for pod in leaving if self.rng.random() < 0.3 else leaving[:1]:
            self._gone(pod)

    def _get_ready(self) -> None:
        for pod in self._pods():
            if pod.spec.node_name and self.rng.random() < 0.7:
                set_pod_condition(
                    pod.status, PodCondition(type="Ready", status="True"), Timestamp()
                )
                self.cluster.update(pod)

    def _gone(self, pod: Pod) -> None:
        self._disturb(pod)
        self.cluster.delete("Pod", f"default/{pod.metadata.name}")

    def _disturb(self, pod: Pod) -> None:
        if pod.spec.HasField("scheduling_group"):
            self._disturbed.add(pod.spec.scheduling_group.pod_group_name)

    def _add_node(self) -> None:
        self._names += 1
        kind = self.rng.choice(FLAVORS)
        labels = {"kind": kind, ZONE: f"z{self._names % 2}"}
        make.big_node(self.world, f"n{self._names}", labels=labels)

    def _change_node(self) -> None:
        found = [node for node in self.cluster.objects("Node") if isinstance(node, Node)]
        if len(found) < 3 or (len(found) < 6 and self.rng.random() < 0.4):
            self._add_node()
            return
        node = self.rng.choice(found)
        if self.rng.random() < 0.5:
            node.spec.unschedulable = not node.spec.unschedulable
            self.cluster.update(node)
            return
        self.cluster.delete("Node", node.metadata.name)
        for pod in self._pods():
            if pod.spec.node_name == node.metadata.name:
                self._gone(pod)

    def _change_quota(self) -> None:
        found = self.cluster.object("ClusterQueue", f"q{self.rng.randrange(5)}")
        assert isinstance(found, ClusterQueue)
        if self.rng.random() < 0.2:
            found.spec.cohort_name = self.rng.choice(("left", "right", "root", ""))
        if self.rng.random() < 0.1:
            cohort = self.cluster.object("Cohort", self.rng.choice(("left", "right")))
            assert isinstance(cohort, Cohort)
            cohort.spec.parent_name = self.rng.choice(("root", ""))
            self.cluster.update(cohort)
            self._trees.append(self._tree())
        for flavor in found.spec.resource_groups[0].flavors:
            for one in flavor.resources:
                one.nominal_quota = str(self.rng.randint(0, 12))
                one.ClearField("borrowing_limit")
                one.ClearField("lending_limit")
                if found.spec.cohort_name and self.rng.random() < 0.3:
                    one.borrowing_limit = str(self.rng.randint(0, 6))
                if found.spec.cohort_name and self.rng.random() < 0.2:
                    one.lending_limit = str(self.rng.randint(0, int(one.nominal_quota)))
        stops = ("None", "Hold", "HoldAndDrain")
        [found.spec.stop_policy] = self.rng.choices(stops, (18, 1, 1))
        self.cluster.update(found)
        self._trees.append(self._tree())

    # ------------------------------------------------------------------ what is stored

    def _pods(self) -> list[Pod]:
        return [pod for pod in self.cluster.objects("Pod") if isinstance(pod, Pod)]

    def _queue_of(self, pod: Pod) -> str:
        name = pod.metadata.labels.get(make.QUEUE, "")
        if not name:
            return ""
        found = self.cluster.object("LocalQueue", f"default/{name}")
        assert isinstance(found, LocalQueue)
        return found.spec.cluster_queue

    def _waiting(self) -> list[Pod]:
        return [pod for pod in self._pods() if not pod.spec.node_name]

    def _kind_of(self, node: str) -> str:
        found = self.cluster.object("Node", node)
        return str(found.metadata.labels["kind"])

    def usage(self) -> Usage:
        """What the stored pods use, by queue."""
        used: Usage = {f"q{index}": Counter() for index in range(5)}
        for pod in self._pods():
            queue = self._queue_of(pod)
            if not queue or not pod.spec.node_name:
                continue
            flavor = self._kind_of(pod.spec.node_name)
            written = json.loads(pod.metadata.annotations[FLAVORS_ANNOTATION])
            assert set(written.values()) <= {flavor}, f"{pod.metadata.name} is on {flavor}"
            for resource, amount in _requests(pod).items():
                used[queue][FlavorResource(flavor, resource)] += amount
        return used

    def _tree(self) -> Snapshot:
        queues = self.cluster.objects("ClusterQueue")
        cohorts = self.cluster.objects("Cohort")
        return Snapshot(
            [read_cluster_queue(one) for one in queues if isinstance(one, ClusterQueue)],
            [read_cohort(one) for one in cohorts if isinstance(one, Cohort)],
        )

    # ------------------------------------------------------------------ what must hold

    def check(self) -> None:
        """What holds whenever all bindings are done."""
        used, trees = self.usage(), self._trees
        for tree in trees:
            for queue, amounts in used.items():
                tree.add_usage(queue, amounts)
        for queue, amounts in used.items():
            for key, amount in amounts.items():
                if amount > self._usage.get(queue, Counter())[key]:
                    permitted = any(_permits(tree.node(queue), key) for tree in trees)
                    assert permitted, f"{queue} uses {amount} of {key}, more than before"
        for queue, amounts in used.items():
            trees[-1].remove_usage(queue, amounts)
        self._usage, self._trees = used, trees[-1:]
        self._check_books(used)
        self._check_gangs()
        self._check_budget()
        self.promises.look(self.world.clock())
        self.world.state.queue.check_invariants()

    def _check_books(self, used: Usage) -> None:
        admission, cache = self.world.state.admission, self.world.state.cache
        for _ in admission.refresh(self.world.clock()):
            pass
        assert not cache.assumed, "assumed, and not bound in time"
        held: Usage = {queue: Counter() for queue in used}
        for hold in admission.holds.of.values():
            held[hold.queue].update(hold.counted)
        for queue, amounts in used.items():
            counted = {k: v for k, v in admission.snapshot.node(queue).usage.items() if v}
            expected = {k: v for k, v in (amounts + held[queue]).items() if v}
            assert counted == expected, f"{queue}: {counted} is counted, {expected} is used"
        for key, unit in admission.units.items():
            by_pods = sum(len(_requests(pod.pod)) for pod in unit.held.values())
            assert bool(unit.usage) == bool(by_pods), key

    def _check_gangs(self) -> None:
        bound, leaving, waiting = Counter[str](), Counter[str](), Counter[str]()
        zones: dict[str, Counter[str]] = defaultdict(Counter)
        of_nodes = {node: zone for node, (_, zone, _) in self._free()}
        lost: set[str] = set()  # groups with a pod whose node, and so its zone, is gone
        for pod in self._pods():
            counted = waiting
            if pod.spec.node_name:
                counted = leaving if pod.metadata.HasField("deletion_timestamp") else bound
                name = pod.spec.scheduling_group.pod_group_name
                if pod.spec.node_name in of_nodes:
                    zones[name][of_nodes[pod.spec.node_name]] += 1
                else:
                    lost.add(name)
            counted[pod.spec.scheduling_group.pod_group_name] += 1
        for group in self.cluster.objects("PodGroup"):
            assert isinstance(group, PodGroup)
            name = group.metadata.name
            admitted = any(
                c.type == "Admitted" and c.status == "True" for c in group.status.conditions
            )
            if waiting[name] and not bound[name] and not leaving[name]:
                assert not admitted, f"{name} waits, and Admitted is True"
            if name in self._disturbed:
                continue
            least = group.spec.scheduling_policy.gang.min_count
            assert bound[name] == 0 or bound[name] >= least, f"{name} runs in part"
            if bound[name] or not leaving[name]:
                assert admitted == (bound[name] > 0), f"{name}: Admitted is {admitted}"
            if REQUIRED_LEVEL in group.metadata.annotations:
                assert len(zones[name]) <= 1, f"{name} is in several zones: {zones[name]}"
            if SLICE_LEVEL in group.metadata.annotations and name not in lost:
                split = [number for number in zones[name].values() if number % SLICE]
                assert len(split) <= 1, f"{name} has split slices: {zones[name]}"

    def _check_budget(self) -> None:
        for pod in self._pods():
            reasons = [one.reason for one in pod.status.conditions if one.type == DISRUPTION_TARGET]
            if GUARDED.items() <= dict(pod.metadata.labels).items():
                assert REASON_PREEMPTION_BY_SCHEDULER not in reasons, (
                    f"{pod.metadata.name} is guarded"
                )

    def check_progress(self) -> None:
        """What holds when nothing has changed for a while: who could start has started."""
        admission = self.world.state.admission
        assert not admission.turns.ready, "a head is not tried"
        if any(p.metadata.HasField("deletion_timestamp") for p in self._pods()):
            return
        assert not admission.holds.of, "a unit waits for victims that are gone"
        for pod in self._waiting():
            assert not (self._queue_of(pod) and pod.status.nominated_node_name), (
                f"{pod.metadata.name} waits for no victims, and keeps a node"
            )
        free, blocking = dict(self._free()), self._blocking()
        for key, unit in admission.units.items():
            workload = admission.turns.workloads.get(key)
            if workload is None or self._backs_off(key):
                continue
            if blocking.get(unit.queue, workload).key != key:
                continue
            cycle = Cycle(admission.snapshot, blocking.values(), admission.rules)
            # A head that has to preempt, and finds no victims, keeps quota from those after it.
            for entry in cycle.turns():
                cycle.take(entry)
                if entry.requeue is not Requeue.NO_CANDIDATES or entry.workload is workload:
                    cycle.taken.withdraw(entry)
            if not self._is_kept_for_others(workload):
                assert not self._could_start(unit, workload, free), f"{key} could start"
            cycle.taken.end()

    def _blocking(self) -> dict[str, Workload]:
        """Return the first unit of each queue with StrictFIFO, for which the others wait."""
        admission, found = self.world.state.admission, dict[str, Workload]()
        for name, queue in admission.snapshot.queues.items():
            first = min(self._order(name), default=None)
            workload = first and admission.turns.workloads.get(first[1])
            if workload is not None and queue.strategy is Strategy.STRICT:
                found[name] = workload
        return found

    def _is_kept_for_others(self, workload: Workload) -> bool:
        """Whether a start is promised to another unit before this one would end."""
        end = WALL + self.world.clock() + workload.seconds
        reserved = self.world.state.admission.reservations.of
        return any(
            one.priority >= workload.priority and one.start < end
            for key, one in reserved.items()
            if key != workload.key
        )

    def _backs_off(self, key: str) -> bool:
        if "/pod:" in key:
            return False
        group = self.cluster.object("PodGroup", key)
        assert isinstance(group, PodGroup)
        return any(c.type == "Requeued" and c.status == "False" for c in group.status.conditions)

    def _order(self, queue: str) -> Iterator[tuple[Any, str]]:
        admission = self.world.state.admission
        for key, unit in admission.units.items():
            workload = admission.turns.workloads.get(key)
            if workload is not None and unit.queue == queue and not self._backs_off(key):
                yield (-workload.priority, workload.queued_at, workload.uid), key

    def _free(self) -> Iterator[tuple[str, tuple[str, str, Counter[str]]]]:
        pods = self._pods()
        for node in self.cluster.objects("Node"):
            assert isinstance(node, Node)
            if node.spec.unschedulable:
                continue
            free = Counter({CPU: 8000, GPU: 8})
            for pod in pods:
                if pod.spec.node_name == node.metadata.name:
                    free.subtract(_requests(pod))
            labels = node.metadata.labels
            yield node.metadata.name, (labels["kind"], labels[ZONE], free)

    def _could_start(self, unit: Any, workload: Any, free: Any) -> bool:
        """Whether as many pods as are needed have quota and nodes of one flavor.

        Of a gang of several shapes: whether all waiting pods have room on one node.
        """
        waiting = [one.pod for one in unit.waiting.values()]
        sets = workload.pod_sets
        count = sets[0].min_count or sets[0].count
        requests = Counter(sets[0].requests)
        is_apart = waiting[0].spec.affinity.HasField("pod_anti_affinity")
        level = level_of(self.world.state.cache.cluster, unit)
        if unit.held and (level.required or level.slices):
            return False  # Only the zone of the others will do.
        if len(sets) > 1:
            if is_apart:
                return False
            requests, count = sum((Counter(_requests(pod)) for pod in waiting), Counter()), 1
        taken = {one.node_name for one in unit.held.values()} if is_apart else set()
        node = self.world.state.admission.snapshot.node(unit.queue)
        kept = {flavor for one in sets for flavor in one.kept.values()}
        for flavor in FLAVORS:
            if not kept <= {flavor}:
                continue  # The other pods of the unit have their flavor already.
            need = {FlavorResource(flavor, r): n * count for r, n in requests.items()}
            if any(amount > node.available(key) for key, amount in need.items()):
                continue
            room = Counter[str]()
            for name, (kind, zone, left) in free.items():
                if kind == flavor and name not in taken:
                    fits = min((left[r] // n for r, n in requests.items() if n), default=count)
                    room[zone] += min(fits, 1) if is_apart else fits
            if level.required:
                found = max(room.values(), default=0)
            elif level.slices:
                found = sum(fits // SLICE for fits in room.values()) * SLICE
            else:
                found = room.total()
            if found >= count:
                return True
        return False


def _requests(pod: Pod) -> dict[str, int]:
    """What a pod asks for, CPU in milli."""
    found = pod.spec.containers[0].resources.requests
    amounts = {
        name: int(value) * (1000 if name == CPU else 1)
        for name, value in found.items()
        if name in (CPU, GPU)
    }
    return {name: amount for name, amount in amounts.items() if amount}


def _permits(node: TreeNode, key: FlavorResource) -> bool:
    """Whether neither a queue nor a cohort above it uses more than it may."""
    for one in (node, *node.ancestors):
        used, quota = one.usage.get(key, 0), one.quota.get(key, 0)
        if one.parent is not None and used <= one.local(key):
            return True  # Those above see nothing of it; they may use too much since a change.
        limit = one.quotas[key].borrowing_limit if key in one.quotas else None
        if one.parent is None and used > quota:
            return False
        if one.parent is not None and limit is not None and used > quota + limit:
            return False
    return True


def run(seed: int, steps: int, *, backfills: bool | None = None) -> RandomQueues:
    """Run a history of its own loop; return what it has come to."""

    async def history() -> RandomQueues:
        made = RandomQueues(seed, backfills=backfills)
        await made.run(steps)
        return made

    return run_in_virtual_time(history())


def main(steps: int, seed: int) -> None:
    """Run histories of 2,000 steps each, and say how far they are."""
    began, done, terms, promises = time.monotonic(), 0, 0, [0, 0, 0]
    while done < steps:
        found = run(seed, min(2_000, steps - done))
        done, terms, seed = done + found.steps, terms + found.terms, seed + 1
        told = found.promises
        of_run = (told.made, told.kept, told.withdrawn)
        promises = [sum(pair) for pair in zip(promises, of_run, strict=True)]
        seconds = time.monotonic() - began
        print(
            f"{done} steps, {terms} terms, {seconds:.0f} s, next seed {seed}; {promises[0]} "
            f"promises, {promises[1]} kept, {promises[2]} withdrawn",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
