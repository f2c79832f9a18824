"""Streams of gangs that compete for room: some gang always goes on, and none starts by half."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import Pod, PodGroup
from support.examples import examples
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

#: Seconds of virtual time in which everything that can start has started.
SETTLED = 20.0


@dataclass(frozen=True)
class Gang:
    """A gang that arrives ``after`` seconds behind the one before it.

    Some members come ``late``; ``flaps``: a pending member is deleted, and another one made.
    """

    members: int
    min_count: int
    after: float
    late: int
    flaps: bool
    priority: int


gangs = st.builds(
    lambda members, missing, after, late, flaps, priority: Gang(
        members, max(1, members - missing), after, min(late, members), flaps, priority
    ),
    st.integers(1, 6),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.0, 0.01, 1.5]),
    st.sampled_from([0, 0, 1, 2]),
    st.booleans(),
    st.sampled_from([0, 0, 5]),
)


class Stream:
    """Members of one core each on nodes of ``cores``, so that a gang fits exactly by its sum."""

    def __init__(self, cores: list[int], arriving: list[Gang]) -> None:
        self.world = TermWorld([{"plugins": {}}])
        self.room = sum(cores)
        self.gangs = arriving
        for number, count in enumerate(cores):
            self.world.node(f"n{number}", cpu=str(count))

    async def arrive(self) -> None:
        for number, gang in enumerate(self.gangs):
            await asyncio.sleep(gang.after)
            group = PodGroup()
            group.metadata.name, group.metadata.namespace = f"g{number}", "default"
            group.spec.scheduling_policy.gang.min_count = gang.min_count
            group.spec.priority = gang.priority
            group.spec.disruption_mode = "PodGroup"  # victims go as a whole
            self.world.cluster.create(group)
            for member in range(gang.members - gang.late):
                self._member(number, member)
        await asyncio.sleep(0.1)
        for number, gang in enumerate(self.gangs):
            for member in range(gang.members - gang.late, gang.members):
                self._member(number, member)
            if gang.flaps and self._is_pending(f"g{number}-0"):
                self.world.cluster.delete("Pod", f"default/g{number}-0")
                await asyncio.sleep(0.05)
                self._member(number, gang.members)

    def _member(self, gang: int, member: int) -> None:
        priority = self.gangs[gang].priority
        group = {"podGroupName": f"g{gang}"}
        self.world.pod(f"g{gang}-{member}", "1", priority, schedulingGroup=group)

    def _is_pending(self, name: str) -> bool:
        pods = (pod for pod in self.world.cluster.objects("Pod") if isinstance(pod, Pod))
        return any(pod.metadata.name == name and not pod.spec.node_name for pod in pods)

    def running(self) -> Counter[int]:
        """How many members of each gang have a node."""
        pods = (pod for pod in self.world.cluster.objects("Pod") if isinstance(pod, Pod))
        names = (pod.metadata.name for pod in pods if pod.spec.node_name)
        return Counter(int(name[1:].partition("-")[0]) for name in names)

    def complete(self) -> set[int]:
        """The gangs that have enough members: those that were preempted have none left."""
        pods = (pod for pod in self.world.cluster.objects("Pod") if isinstance(pod, Pod))
        there = Counter(int(pod.metadata.name[1:].partition("-")[0]) for pod in pods)
        return {number for number, count in there.items() if count >= self.gangs[number].min_count}

    def finish(self, gangs: Counter[int]) -> None:
        """Delete the running gangs, with what of them still waits."""
        for pod in list(self.world.cluster.objects("Pod")):
            if int(pod.metadata.name[1:].partition("-")[0]) in gangs:
                self.world.cluster.delete("Pod", f"default/{pod.metadata.name}")


async def check(cores: list[int], arriving: list[Gang]) -> None:
    stream = Stream(cores, arriving)
    async with stream.world.running():
        await stream.arrive()
        waiting = {n for n, gang in enumerate(arriving) if gang.min_count <= stream.room}
        while True:
            await asyncio.sleep(SETTLED)
            running = stream.running()
            for number, count in running.items():
                assert count >= arriving[number].min_count, f"gang {number} runs with {count}"
            if not running:
                break
            waiting -= set(running)
            stream.finish(running)
        waiting &= stream.complete()
        assert not waiting, f"the room is empty, and gangs {waiting} wait that would fit"


@examples(100, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.lists(gangs, min_size=1, max_size=7))
def test_whatever_competes_every_gang_that_fits_the_empty_room_starts_in_the_end(
    cores: list[int], arriving: list[Gang]
) -> None:
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(check(cores, arriving))
