"""Queues over many cycles: submissions, ends and preemptions in any order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from podsched.queues.cycle import Rules, run_cycle
from podsched.queues.objects import PodSet, Strategy, Workload
from podsched.queues.pending import Pending
from podsched.queues.snapshot import Snapshot
from support.examples import examples
from support.queue_trees import CPU, assert_permitted, snapshots


class Cluster:
    """Queues whose victims go at once, and whose time is the number of steps."""

    def __init__(self, snapshot: Snapshot, strategy: Strategy, rules: Rules) -> None:
        self.snapshot = snapshot
        self.rules = rules
        self.pending = {name: Pending(strategy) for name in snapshot.queues}
        self.submitted: set[str] = set()
        self.finished: set[str] = set()
        self.now = 0.0

    @property
    def running(self) -> list[Workload]:
        of_queues = self.snapshot.workloads.values()
        return [workload for workloads in of_queues for workload in workloads.values()]

    def submit(self, queue: str, count: int, priority: int) -> None:
        self.now += 1
        key = f"w{len(self.submitted)}"
        self.submitted.add(key)
        pods = (PodSet("main", count, {"cpu": 1}),)
        shape = (count, priority)
        workload = Workload(key, pods, queue, key, "", priority, self.now, shape=shape)
        self.pending[queue].push(workload)

    def finish(self, workload: Workload) -> None:
        self.snapshot.remove(workload)
        self.finished.add(workload.key)
        self.release()

    def release(self) -> None:
        for pending in self.pending.values():
            pending.release()

    def cycle(self) -> bool:
        """Run a cycle; return whether it changed who runs."""
        self.now += 1
        heads = [head for pending in self.pending.values() if (head := pending.pop())]
        entries = run_cycle(self.snapshot, heads, self.rules)
        for entry in entries:
            if entry.admitted:
                usage = entry.assignment.usage
                admitted = replace(entry.workload, usage=usage, reserved_at=self.now)
                self.snapshot.add(admitted)
                self.pending[admitted.queue].remove(admitted.key)
            else:
                pending = self.pending[entry.workload.queue]
                pending.requeue(entry.workload, entry.requeue, untried=entry.untried)
        victims = [one.workload for entry in entries if entry.preempts for one in entry.victims]
        for victim in victims:
            self.snapshot.remove(victim)
            self.pending[victim.queue].push(replace(victim, usage={}, reserved_at=None))
        if victims:
            self.release()
        return bool(victims) or any(entry.admitted for entry in entries)

    def check(self) -> None:
        """Assert that usage is permitted and that each workload is in one place."""
        assert_permitted(self.snapshot)
        for name, node in self.snapshot.forest.queues.items():
            workloads = self.snapshot.workloads[name].values()
            assert node.usage.get(CPU, 0) == sum(one.usage[CPU] for one in workloads)
        places = [one.key for one in self.running] + list(self.finished)
        for pending in self.pending.values():
            places += [*pending.active, *pending.inadmissible]
        assert sorted(places) == sorted(self.submitted)


@given(snapshots(), st.data())
@examples(200)
def test_nothing_is_lost_overused_or_left_behind(snapshot: Snapshot, data: st.DataObject) -> None:
    """In the end all that a queue could ever hold has run, whatever was preempted on the way."""
    rules = Rules(fair=data.draw(st.booleans()))
    cluster = Cluster(snapshot, data.draw(st.sampled_from(Strategy)), rules)
    names = sorted(snapshot.queues)
    for _ in range(data.draw(st.integers(0, 25))):
        step = data.draw(st.sampled_from(("submit", "submit", "cycle", "finish")))
        if step == "submit":
            name = data.draw(st.sampled_from(names))
            # What could never fit would block a strict queue for good.
            if most := snapshot.node(name).potential_available(CPU):
                count = data.draw(st.integers(1, most))
                cluster.submit(name, count, data.draw(st.integers(0, 2)))
        elif step == "cycle":
            cluster.cycle()
        elif cluster.running:
            cluster.finish(data.draw(st.sampled_from(cluster.running)))
        cluster.check()
    for _ in range(2 * len(cluster.submitted)):
        cluster.cycle()
        for workload in cluster.running:
            cluster.finish(workload)
        cluster.check()
    assert cluster.finished == cluster.submitted
