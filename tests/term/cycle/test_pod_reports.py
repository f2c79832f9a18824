"""What is written about a pod that was not scheduled, and when nothing needs to be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from podsched.api.conditions import REASON_SCHEDULER_ERROR, REASON_UNSCHEDULABLE
from podsched.config.load import default_config
from podsched.framework.pods import PodInfo
from podsched.registry import factories
from podsched.serve.client.informer import Event, EventType
from podsched.term.cycle.pod_reports import Failure, PodReports, status_patch
from podsched.term.state import NoListener, build_state
from podsched.term.writes.event_recorder import EventRecorder
from podsched.term.writes.status_writer import StatusWriter
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1
from support.engine_pods import pod_info

TEXT = "0/1 nodes are available: 1 Insufficient cpu."


def told(message: str = TEXT, reason: str = REASON_UNSCHEDULABLE, nominated: str = "") -> PodInfo:
    """A pod whose status says this already."""
    pod = pod_info("a")
    pod.pod.status.conditions.add(
        type="PodScheduled", status="False", reason=reason, message=message
    )
    pod.pod.status.nominated_node_name = nominated
    return pod


def test_the_condition_says_that_and_why_the_pod_is_not_scheduled() -> None:
    patch = status_patch(pod_info("a"), Failure(REASON_UNSCHEDULABLE, TEXT))
    assert patch is not None
    assert (patch.namespace, patch.name, patch.uid) == ("default", "a", "uid-a")
    [condition] = patch.conditions
    assert (condition.type, condition.status) == ("PodScheduled", "False")
    assert (condition.reason, condition.message) == ("Unschedulable", TEXT)
    assert not patch.HasField("nominated_node_name")


def test_the_condition_names_the_generation_of_the_pod_that_was_tried() -> None:
    pod = pod_info("a")
    pod.pod.metadata.generation = 3
    patch = status_patch(pod, Failure(REASON_UNSCHEDULABLE, TEXT))
    assert patch is not None
    assert patch.conditions[0].observed_generation == 3


def test_nothing_is_written_when_the_status_says_it_already() -> None:
    assert status_patch(told(), Failure(REASON_UNSCHEDULABLE, TEXT)) is None
    assert status_patch(told(), Failure(REASON_UNSCHEDULABLE, TEXT, "")) is None
    assert status_patch(told(nominated="n1"), Failure(REASON_UNSCHEDULABLE, TEXT, "n1")) is None


def test_a_message_that_no_condition_may_have_is_cut_and_written_once() -> None:
    """An extender may have a reason of its own for each of thousands of nodes."""
    failure = Failure(REASON_UNSCHEDULABLE, "0/5000 nodes are available: " + "1 ñ is busy, " * 5000)
    patch = status_patch(pod_info("a"), failure)
    assert patch is not None
    message = patch.conditions[0].message
    assert message.startswith("0/5000 nodes are available: 1 ñ is busy, ")
    assert 32_000 < len(message.encode()) <= 32 << 10
    assert status_patch(told(message), failure) is None


def test_another_message_reason_or_nomination_is_written() -> None:
    for failure in (
        Failure(REASON_UNSCHEDULABLE, "another"),
        Failure(REASON_SCHEDULER_ERROR, TEXT),
        Failure(REASON_UNSCHEDULABLE, TEXT, "n1"),
    ):
        assert status_patch(told(), failure) is not None


def test_clearing_a_nomination_is_written_and_leaving_it_is_not() -> None:
    cleared = status_patch(told(nominated="n1"), Failure(REASON_UNSCHEDULABLE, TEXT, ""))
    assert cleared is not None
    assert cleared.HasField("nominated_node_name")
    assert status_patch(told(nominated="n1"), Failure(REASON_UNSCHEDULABLE, TEXT)) is None


class World:
    """Reports about a pod that the cluster has; a write of statuses takes a second."""

    def __init__(self, stored: PodInfo) -> None:
        state = build_state(default_config(), factories(), seed=1, listener=NoListener())
        state.apply(Event(EventType.ADDED, "Pod", "", None, stored.pod), 1.0)
        self.sent: list[api_pb2.PodStatusPatch] = []
        self.writer = StatusWriter(self._send, lambda seconds, failed: None)
        self.reports = PodReports(state, EventRecorder(_no_events, "replica"), self.writer)

    async def _send(
        self, patches: Sequence[api_pb2.PodStatusPatch]
    ) -> Sequence[api_pb2.BatchResult]:
        await asyncio.sleep(1)
        self.sent += patches
        return [api_pb2.BatchResult()] * len(patches)


async def _no_events(new: Sequence[v1.Event], repeated: Sequence[v1.Event]) -> None:
    """Write no events."""


@pytest.mark.looptime
async def test_what_the_status_says_is_written_again_if_another_patch_is_under_way() -> None:
    pod = told()
    world = World(pod)
    running = asyncio.create_task(world.writer.run())
    world.reports.failed(pod, Failure(REASON_UNSCHEDULABLE, "makes room", "n1"))
    await asyncio.sleep(0.5)
    world.reports.failed(pod, Failure(REASON_UNSCHEDULABLE, TEXT, ""))
    await asyncio.sleep(5)
    running.cancel()
    said = [(one.conditions[0].message, one.nominated_node_name) for one in world.sent]
    assert said == [("makes room", "n1"), (TEXT, "")]


@pytest.mark.looptime
async def test_another_pod_of_the_same_name_is_not_told_of_the_failure() -> None:
    world = World(pod_info("a", uid="another"))
    running = asyncio.create_task(world.writer.run())
    world.reports.failed(pod_info("a"), Failure(REASON_UNSCHEDULABLE, TEXT, "n1"))
    await asyncio.sleep(5)
    running.cancel()
    assert [one.uid for one in world.sent] == ["uid-a"]
