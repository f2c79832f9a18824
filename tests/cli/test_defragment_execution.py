"""Carrying out moves: what was cordoned or nominated for it is taken back, or said, if it fails."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.objects import Node, Pod
from podsched.cli.defragment import carry_out
from podsched.cli.relocation import Mover, PodMove, Stopped
from podsched.serve.client.errors import ClientError, Unavailable
from podsched.testing.fake_cluster import FakeCluster
from support.command_client import CommandClient, Fault, Inhabitants, replica_set
from support.engine_world import pod

pytestmark = pytest.mark.looptime


class Work:
    """Two nodes with a pod each, of which plans move some."""

    def __init__(self, *, cordoned: str = "", controlled: bool = True) -> None:
        self.cluster = FakeCluster()
        for name in ("a", "b", "c"):
            node = Node()
            node.metadata.name = name
            node.spec.unschedulable = name == cordoned
            self.cluster.create(node)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs"}
        self.cluster.create(replica_set("rs", "rs", controlled=controlled))
        for name in ("a", "b"):
            moving = pod(f"on-{name}", {"nodeName": name}, ownerReferences=[owner])
            moving.metadata.owner_references[0].controller = True
            moving.status.phase = "Running"
            self.cluster.create(moving)
        self.cluster.create(pod("waits"))
        self.client = CommandClient(self.cluster)
        self.said: list[str] = []

    async def do(
        self, freed: list[str], room: tuple[str, str, str] | None = None, *names: str
    ) -> Exception | None:
        """Move the pods of nodes to c; what it ended with."""
        inhabitants = Inhabitants(self.cluster, elsewhere="")
        mover = Mover(self.client, 3.0, self.said.append)  # type: ignore[arg-type]
        ways = [PodMove("default", f"on-{n}", f"uid-on-{n}", n, "c") for n in names or freed]
        async with inhabitants.at_work():
            try:
                await carry_out(self.client, mover, ways, freed, room)  # type: ignore[arg-type]
            except (Stopped, ClientError) as error:
                return error
        return None

    def cordoned(self) -> list[str]:
        nodes = self.cluster.objects("Node")
        return [n.metadata.name for n in nodes if isinstance(n, Node) and n.spec.unschedulable]

    def nominated(self) -> str:
        waits = self.cluster.object("Pod", "default/waits")
        assert isinstance(waits, Pod)
        return waits.status.nominated_node_name


async def test_a_freed_node_stays_cordoned() -> None:
    work = Work()
    assert await work.do(["a"]) is None
    assert work.cordoned() == ["a"]
    assert "node/a is free, and cordoned" in work.said


async def test_a_freed_node_stays_cordoned_though_nobody_reads_that_it_is_free() -> None:
    class Unread(list[str]):
        def append(self, line: str) -> None:
            if line.startswith("node/a is free"):
                raise BrokenPipeError

    work = Work()
    work.said = Unread()
    with pytest.raises(BrokenPipeError):
        await work.do(["a"])
    assert work.cordoned() == ["a"]


async def test_a_node_that_was_cordoned_before_stays_so_whatever_fails() -> None:
    calls = Work(cordoned="b")
    await calls.do(["a", "b"])
    for number, call in enumerate(calls.client.calls):
        work = Work(cordoned="b")
        work.client.faults[number] = Fault.UNAVAILABLE
        await work.do(["a", "b"])
        assert "b" in work.cordoned(), f"{number}, {call}"


async def test_a_node_that_stays_cordoned_because_no_server_answers_is_named() -> None:
    work = Work()
    await work.do(["a"])
    first_eviction = work.client.calls.index("evict on-a")
    work = Work()
    work.client.faults[first_eviction] = Fault.UNAVAILABLE_FOR_GOOD
    error = await work.do(["a"])
    assert isinstance(error, Unavailable)
    assert work.cordoned() == ["a"]
    assert "node/a stays cordoned: sched uncordon a" in work.said


async def test_a_nomination_that_cannot_be_taken_back_is_named_and_the_failure_told() -> None:
    room = ("default", "waits", "a")
    work = Work()
    await work.do([], room, "a")
    first_eviction = work.client.calls.index("evict on-a")
    work = Work()
    work.client.faults[first_eviction] = Fault.UNAVAILABLE_FOR_GOOD
    error = await work.do([], room, "a")
    assert isinstance(error, Unavailable)
    assert work.nominated() == "a"
    assert "pod/waits may still be nominated to a, where it keeps room" in work.said


async def test_what_a_second_interrupt_keeps_from_being_taken_back_is_named() -> None:
    for freed, room, left in (
        (["a", "b"], None, ["node/a stays cordoned: ", "node/b stays cordoned: "]),
        ([], ("default", "waits", "a"), ["pod/waits may still be nominated to a"]),
    ):
        work = Work()
        await work.do(freed, room, "a", "b")
        first_eviction = work.client.calls.index("evict on-a")
        work = Work()
        work.client.faults = dict.fromkeys(range(first_eviction, 99), Fault.CANCELLED)
        with pytest.raises(asyncio.CancelledError):
            await work.do(freed, room, "a", "b")
        said = "\n".join(work.said)
        assert all(text in said for text in left), said


async def test_a_nomination_whose_answer_was_lost_is_taken_back() -> None:
    room = ("default", "waits", "a")
    work = Work()
    await work.do([], room, "a")
    nomination = work.client.calls.index("patch Pod waits")
    work = Work()
    work.client.faults[nomination] = Fault.LOST_BUT_DONE
    assert await work.do([], room, "a") is not None
    assert work.nominated() == ""


async def test_no_pod_is_moved_off_a_node_with_pods_that_the_plan_does_not_know() -> None:
    work = Work()
    work.cluster.create(pod("late", {"nodeName": "b"}))
    error = await work.do(["a", "b"])
    assert str(error) == "node/b has pods that the plan does not move: late"
    assert not [call for call in work.client.calls if call.startswith(("create", "evict"))]
    assert work.cordoned() == []


async def test_a_node_on_which_a_pod_has_arrived_meanwhile_is_not_called_free() -> None:
    class Crowded(list[str]):
        def append(self, line: str) -> None:
            super().append(line)
            if "moved from a" in line:
                work.cluster.create(pod("late", {"nodeName": "a"}))

    work = Work()
    work.said = Crowded()
    assert isinstance(await work.do(["a"]), Stopped)
    assert "node/a is free, and cordoned" not in work.said
    assert work.cordoned() == []


async def test_what_belongs_to_a_node_or_has_ended_does_not_keep_it_from_being_free() -> None:
    work = Work()
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
    own = pod("daemon", {"nodeName": "a"}, ownerReferences=[daemon | {"controller": True}])
    ended = pod("ended", {"nodeName": "a"})
    ended.status.phase = "Succeeded"
    for item in (own, ended):
        work.cluster.create(item)
    assert await work.do(["a"]) is None


async def test_no_pod_makes_room_for_one_that_has_got_a_node_meanwhile() -> None:
    work = Work()
    waits = work.cluster.object("Pod", "default/waits")
    assert isinstance(waits, Pod)
    waits.spec.node_name = "b"
    work.cluster.update(waits)
    assert await work.do([], ("default", "waits", "a"), "a") is None
    assert not [call for call in work.client.calls if call.startswith(("create", "evict"))]
    assert work.said == ["pod/waits bound to b"]


async def test_nothing_is_touched_if_one_of_the_pods_would_not_be_replaced() -> None:
    work = Work(controlled=False)
    error = await work.do(["a", "b"])
    assert isinstance(error, Stopped)
    assert all(call.startswith("get ") for call in work.client.calls), work.client.calls
