"""Status patches: what is sent, what is merged, what is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from structlog.testing import capture_logs

from podsched.serve.client.errors import FenceLost, ServerBug, Unavailable
from podsched.term.writes.status_writer import RETRY_FOR, StatusWriter
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

pytestmark = pytest.mark.looptime


def patch(
    name: str, message: str = "", nominated: str | None = None, uid: str = "u"
) -> api_pb2.PodStatusPatch:
    made = api_pb2.PodStatusPatch(namespace="default", name=name, uid=uid)
    if message:
        made.conditions.append(v1.PodCondition(type="PodScheduled", message=message))
    if nominated is not None:
        made.nominated_node_name = nominated
    return made


class Server:
    """Takes a second for each call."""

    def __init__(self) -> None:
        self.calls: list[list[api_pb2.PodStatusPatch]] = []
        self.faults: list[Exception] = []
        self.reason = ""

    async def send(
        self, patches: Sequence[api_pb2.PodStatusPatch]
    ) -> Sequence[api_pb2.BatchResult]:
        self.calls.append(list(patches))
        await asyncio.sleep(1)
        if self.faults:
            raise self.faults.pop(0)
        code = {"": 0, "UNAVAILABLE": 14}.get(self.reason, 9)
        return [api_pb2.BatchResult(code=code, reason=self.reason)] * len(patches)

    def sent(self) -> list[list[str]]:
        return [[patch.name for patch in call] for call in self.calls]


class World:
    def __init__(self) -> None:
        self.server = Server()
        self.writer = StatusWriter(self.server.send, lambda seconds, failed: None)
        self.running = asyncio.create_task(self.writer.run())


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.running.cancel()
    await asyncio.gather(made.running, return_exceptions=True)


async def test_what_comes_while_a_call_is_under_way_goes_out_together(world: World) -> None:
    world.writer.submit(patch("a", "1"))
    await asyncio.sleep(0.5)
    for name in "bcd":
        world.writer.submit(patch(name, "1"))
    await asyncio.sleep(5)
    assert world.server.sent() == [["a"], ["b", "c", "d"]]


async def test_of_two_patches_of_a_pod_that_wait_the_later_is_sent(world: World) -> None:
    world.writer.submit(patch("a", "old"))
    world.writer.submit(patch("a", "new"))
    await asyncio.sleep(5)
    [[sent]] = world.server.calls
    assert [condition.message for condition in sent.conditions] == ["new"]


async def test_a_patch_under_way_is_not_lost_to_a_later_one(world: World) -> None:
    world.writer.submit(patch("a", "old"))
    await asyncio.sleep(0.5)
    world.writer.submit(patch("a", "new"))
    await asyncio.sleep(5)
    messages = [call[0].conditions[0].message for call in world.server.calls]
    assert messages == ["old", "new"]


async def test_a_nomination_that_waits_is_kept_by_a_patch_that_does_not_speak_of_it(
    world: World,
) -> None:
    world.writer.submit(patch("a", "old", nominated="n1"))
    world.writer.submit(patch("a", "new"))
    await asyncio.sleep(5)
    [[sent]] = world.server.calls
    assert (sent.conditions[0].message, sent.nominated_node_name) == ("new", "n1")


async def test_clearing_a_nomination_wins_over_an_earlier_nomination(world: World) -> None:
    world.writer.submit(patch("a", "old", nominated="n1"))
    world.writer.submit(patch("a", nominated=""))
    await asyncio.sleep(5)
    [[sent]] = world.server.calls
    assert sent.HasField("nominated_node_name")
    assert sent.nominated_node_name == ""


async def test_a_condition_that_waits_is_kept_by_a_patch_of_the_nomination_alone(
    world: World,
) -> None:
    world.writer.submit(patch("a", "does not fit", nominated="n1"))
    world.writer.submit(patch("a", nominated=""))
    await asyncio.sleep(5)
    [[sent]] = world.server.calls
    assert [condition.message for condition in sent.conditions] == ["does not fit"]


async def test_nothing_is_kept_of_another_pod_of_the_same_name(world: World) -> None:
    world.writer.submit(patch("a", "old", nominated="n1", uid="first"))
    world.writer.submit(patch("a", "new", uid="second"))
    await asyncio.sleep(5)
    [[sent]] = world.server.calls
    assert sent.uid == "second"
    assert not sent.HasField("nominated_node_name")


async def test_a_lost_fence_ends_the_writer(world: World) -> None:
    world.server.reason = "FENCE_LOST"
    world.writer.submit(patch("a", "1"))
    with pytest.raises(FenceLost):
        await world.running


async def test_a_patch_that_is_refused_is_dropped(world: World) -> None:
    world.server.reason = "NOT_FOUND"
    world.writer.submit(patch("a", "1"))
    await asyncio.sleep(5)
    assert world.server.sent() == [["a"]]
    assert not world.running.done()


async def test_a_call_that_does_not_get_through_is_repeated(world: World) -> None:
    world.server.faults = [Unavailable("no server"), Unavailable("no server")]
    world.writer.submit(patch("a", "1"))
    await asyncio.sleep(10)
    assert world.server.sent() == [["a"]] * 3


async def test_repeating_has_a_bound_and_later_patches_are_sent(world: World) -> None:
    world.server.faults = [Unavailable("no server")] * 100
    world.writer.submit(patch("a", "1"))
    await asyncio.sleep(RETRY_FOR + 5)
    tries = len(world.server.calls)
    assert 1 < tries < 8
    await asyncio.sleep(30)
    assert len(world.server.calls) == tries
    world.server.faults.clear()
    world.writer.submit(patch("b", "1"))
    await asyncio.sleep(5)
    assert world.server.sent()[-1] == ["b"]


async def test_a_patch_is_repeated_while_the_server_cannot_reach_its_store(world: World) -> None:
    world.server.reason = "UNAVAILABLE"
    world.writer.submit(patch("a", "1"))
    await asyncio.sleep(1.5)
    world.server.reason = ""
    await asyncio.sleep(10)
    assert world.server.sent() == [["a"]] * 2


async def test_a_condition_of_admission_is_repeated_until_the_api_is_back(world: World) -> None:
    """Nothing else would tell the next leader what it says."""
    world.server.faults = [Unavailable("no server")] * 100
    sent = patch("a", "does not fit")
    sent.conditions.append(v1.PodCondition(type="podsched.io/QueuePlace", message="the first"))
    world.writer.submit(sent)
    await asyncio.sleep(3 * RETRY_FOR)
    world.server.faults.clear()
    await asyncio.sleep(5)
    [written] = world.server.calls[-1]
    assert [condition.message for condition in written.conditions] == ["the first"]
    tries = len(world.server.calls)
    await asyncio.sleep(30)
    assert len(world.server.calls) == tries


async def test_a_patch_that_is_repeated_takes_up_what_came_meanwhile(world: World) -> None:
    world.server.faults = [Unavailable("no server")]
    world.writer.submit(patch("a", "old", nominated="n1"))
    await asyncio.sleep(0.5)
    world.writer.submit(patch("a", "new"))
    await asyncio.sleep(5)
    first, second = world.server.calls
    assert [c.message for c in first[0].conditions] == ["old"]
    assert [c.message for c in second[0].conditions] == ["new"]
    assert second[0].nominated_node_name == "n1"


async def test_a_call_that_fails_for_another_reason_is_not_repeated(world: World) -> None:
    world.server.faults = [ServerBug("a bug")]
    world.writer.submit(patch("a", "1"))
    await asyncio.sleep(10)
    assert world.server.sent() == [["a"]]


@pytest.mark.parametrize(("reason", "warnings"), [("FORBIDDEN", [2]), ("NOT_FOUND", [])])
async def test_refused_patches_are_logged_unless_their_pods_are_gone(
    world: World, reason: str, warnings: list[int]
) -> None:
    world.server.reason = reason
    for name in "ab":
        world.writer.submit(patch(name, "1"))
    with capture_logs() as logs:
        await asyncio.sleep(5)
    assert [line["pods"] for line in logs] == warnings
