"""Events: counted up, bounded, shortened, and never in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from podsched.api.kinds import KINDS
from podsched.api.validation import validate
from podsched.serve.client.errors import ClientError, ServerBug, Unavailable
from podsched.term.writes.event_recorder import (
    AGGREGATE_FOR,
    BATCH,
    BUFFER,
    BUSY_BATCH,
    COUNT_UP_FOR,
    EventRecorder,
)
from podsched.v1 import objects_pb2 as v1


class World:
    """A recorder with a clock of its own and an API server that may be away."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.busy = False
        self.away = False
        self.faults: list[ClientError] = []
        self.calls: list[tuple[list[v1.Event], list[v1.Event]]] = []
        self.recorder = EventRecorder(
            self._write, "replica-1", lambda: self.busy, wall=lambda: self.now
        )

    async def _write(self, new: Sequence[v1.Event], repeated: Sequence[v1.Event]) -> None:
        if self.away:
            raise Unavailable("no server")
        if self.faults:
            raise self.faults.pop(0)
        self.calls.append((list(new), list(repeated)))

    @property
    def new(self) -> list[v1.Event]:
        return [event for new, _ in self.calls for event in new]

    @property
    def repeated(self) -> list[v1.Event]:
        return [event for _, repeated in self.calls for event in repeated]

    def say(self, message: str = "0/1 nodes are available.", pod: str = "a") -> None:
        meta = v1.ObjectMeta(namespace="default", name=pod, uid=f"uid-{pod}")
        self.recorder.record(
            meta, type_="Warning", reason="FailedScheduling", action="Scheduling", message=message
        )


async def test_an_event_tells_of_whom_what_when_and_who_says_so() -> None:
    world = World()
    world.say("it does not fit")
    await world.recorder.flush()
    [event] = world.new
    assert (event.reason, event.type, event.action) == ("FailedScheduling", "Warning", "Scheduling")
    assert event.involved_object.kind == "Pod"
    assert event.involved_object.uid == "uid-a"
    assert event.message == "it does not fit"
    assert event.reporting_controller == "default-scheduler"
    assert event.reporting_instance == "replica-1"
    assert event.first_timestamp.seconds == event.last_timestamp.seconds == 1000


async def test_an_event_may_be_about_a_workload() -> None:
    world = World()
    meta = v1.ObjectMeta(namespace="default", name="web", uid="u")
    world.recorder.record(
        meta,
        type_="Normal",
        reason="SuccessfulCreate",
        action="",
        message="Created pod: web-x",
        controller="replicaset-controller",
        kind="ReplicaSet",
    )
    await world.recorder.flush()
    [event] = world.new
    about = event.involved_object
    assert (about.api_version, about.kind, about.name) == ("apps/v1", "ReplicaSet", "web")


async def test_an_event_about_a_node_is_in_the_default_namespace() -> None:
    world = World()
    world.recorder.record(
        v1.ObjectMeta(name="n1"), type_="Normal", reason="R", message="m", kind="Node"
    )
    await world.recorder.flush()
    [event] = world.new
    assert event.metadata.namespace == "default"
    assert not validate(KINDS["Event"], event)


@pytest.mark.parametrize("action", ["Scheduling", ""])
async def test_the_api_server_takes_events_with_and_without_an_action(action: str) -> None:
    world = World()
    meta = v1.ObjectMeta(namespace="default", name="a", uid="uid-a")
    world.recorder.record(
        meta, type_="Normal", reason="Evicted", action=action, message="m", controller="taints"
    )
    await world.recorder.flush()
    [event] = world.new
    assert not validate(KINDS["Event"], event)


async def test_the_same_event_said_again_is_counted_in_the_first_ones_object() -> None:
    world = World()
    for _ in range(3):
        world.say()
        await world.recorder.flush()
        world.now += 10
    [event] = world.new
    assert [r.count for r in world.repeated] == [2, 3]
    assert {r.metadata.name for r in world.repeated} == {event.metadata.name}
    assert world.repeated[-1].first_timestamp.seconds == 1000
    assert world.repeated[-1].last_timestamp.seconds == 1020


async def test_repetitions_within_one_flush_are_written_once() -> None:
    world = World()
    for _ in range(5):
        world.say()
    await world.recorder.flush()
    [(new, repeated)] = world.calls
    assert (len(new), [event.count for event in repeated]) == (1, [5])


async def test_all_are_written_at_the_end_in_calls_that_others_do_not_wait_long_for() -> None:
    world = World()
    for number in range(2 * BATCH + 1):
        world.say(pod=f"pod-{number}")
    await world.recorder.flush()
    assert [len(new) for new, _ in world.calls] == [BATCH, BATCH, 1]


@pytest.mark.parametrize("other", [{"pod": "b"}, {"message": "another reason"}])
async def test_another_pod_or_message_is_another_event(other: dict[str, str]) -> None:
    world = World()
    world.say()
    world.say(**other)
    await world.recorder.flush()
    assert len({event.metadata.name for event in world.new}) == 2
    assert not world.repeated


async def test_after_ten_minutes_of_silence_it_is_another_event() -> None:
    world = World()
    world.say()
    await world.recorder.flush()
    world.now += AGGREGATE_FOR + 1
    world.say()
    await world.recorder.flush()
    assert len(world.new) == 2


async def test_an_event_said_for_hours_gets_a_new_object_before_the_old_one_expires() -> None:
    world = World()
    for _ in range(2 * int(COUNT_UP_FOR) // 100 + 2):
        world.say()
        await world.recorder.flush()
        world.now += 100
    assert len(world.new) == 2


async def test_an_event_that_could_not_be_written_is_written_anew_when_said_again() -> None:
    world = World()
    world.away = True
    world.say()
    await world.recorder.flush()
    world.away = False
    world.say()
    await world.recorder.flush()
    [event] = world.new
    assert event.count == 1


async def test_of_events_that_fail_in_one_call_each_is_sent_as_a_new_one() -> None:
    world = World()
    world.faults = [ServerBug("once")]
    world.say(pod="a")
    world.say(pod="b")
    await world.recorder.flush()
    assert [event.count for event in world.new] == [1, 1]
    assert not world.repeated


async def test_the_buffer_drops_the_oldest_and_counts_them() -> None:
    world = World()
    for number in range(BUFFER + 5):
        world.say(f"message {number}")
    await world.recorder.flush()
    assert world.recorder.dropped == 5
    assert len(world.new) == BUFFER
    assert world.new[0].message == "message 5"


@pytest.mark.looptime
@pytest.mark.parametrize(("busy", "sizes"), [(True, [BUSY_BATCH]), (False, [BATCH] * 5)])
async def test_while_the_scheduler_is_busy_only_a_trickle_is_written(
    busy: bool, sizes: list[int]
) -> None:
    world = World()
    world.busy = busy
    for number in range(500):
        world.say(f"message {number}")
    running = asyncio.create_task(world.recorder.run())
    await asyncio.sleep(0.15)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [len(new) for new, _ in world.calls] == sizes


@pytest.mark.looptime
async def test_nothing_wakes_up_while_there_is_nothing_to_write() -> None:
    world, woken = World(), 0

    def busy() -> bool:
        nonlocal woken
        woken += 1
        return False

    world.recorder = EventRecorder(world._write, "replica-1", busy)
    running = asyncio.create_task(world.recorder.run())
    await asyncio.sleep(60)
    assert woken == 0
    world.say()
    await asyncio.sleep(60)
    assert (len(world.new), woken) == (1, 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_events_that_could_not_be_written_are_logged() -> None:
    world = World()
    world.away = True
    world.say()
    with capture_logs() as logs:
        await world.recorder.flush()
    assert [(line["events"], line["error"]) for line in logs] == [(1, "no server")]
