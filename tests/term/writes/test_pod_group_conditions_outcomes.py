"""What attempts write about groups, and which groups are being bound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

import pytest

from podsched.api.conditions import POD_GROUP_BINDING, POD_GROUP_SCHEDULED, TRUE
from podsched.config.load import default_config
from podsched.framework.pod_groups import PodGroup, pod_group
from podsched.framework.status import SUCCESS, unschedulable
from podsched.lib.tasks import TaskSet
from podsched.registry import factories
from podsched.serve.client.errors import ClientError, Invalid, Unavailable
from podsched.serve.client.informer import Event, EventType
from podsched.term.state import build_state
from podsched.term.writes.pod_group_conditions import (
    RETRY_FOR,
    GroupOutcomes,
    PodGroupConditions,
    QueueCondition,
)
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

TOO_FEW = unschedulable("too few")


class World:
    """A group, and the conditions that it has once everything is written."""

    def __init__(self, *stored: str) -> None:
        """``stored``: the types of the conditions that it has already."""
        self.state = build_state(default_config(), factories(), seed=1)
        made = v1.PodGroup()
        made.metadata.name, made.metadata.namespace, made.metadata.uid = "g", "default", "uid-g"
        made.spec.scheduling_policy.gang.min_count = 2
        for type_ in stored:
            made.status.conditions.add(type=type_, status=TRUE)
        self.state.apply(Event(EventType.ADDED, "PodGroup", "default/g", None, made), 1.0)
        cluster = self.state.cache.cluster
        self.conditions = PodGroupConditions(cluster, self._patch, wall=lambda: 1.0)
        self.outcomes = GroupOutcomes(cluster, self.conditions, TaskSet("term 1"))
        group = pod_group(cluster, "default/g")
        assert group is not None
        self.group: PodGroup = group
        self.heard: list[str] = []
        self.sent = 0
        self.last: api_pb2.PatchRequest | None = None
        #: Why no write succeeds, if none does.
        self.refusal: ClientError | None = None

    async def _patch(
        self, patches: Sequence[api_pb2.PatchRequest]
    ) -> Sequence[api_pb2.BatchResult]:
        self.sent += len(patches)
        self.last = patches[-1]
        if self.refusal is not None:
            raise self.refusal
        return [api_pb2.BatchResult() for _ in patches]

    def condition(self, type_: str) -> tuple[str, ...] | None:
        return self.conditions.condition(self.group, type_)

    async def write(self) -> None:
        """Let everything be written that waits."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_FOR + 5.0):
                await self.conditions.run()

    def begin(self) -> None:
        self.outcomes.binding_begins(self.group, "2 members", self.heard.append)


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_group_has_the_outcome_of_its_last_attempt_until_it_is_scheduled(
    world: World,
) -> None:
    world.outcomes.decided(world.group, TOO_FEW)
    assert world.condition(POD_GROUP_SCHEDULED) == ("False", "Unschedulable", "too few")
    for status in (SUCCESS, TOO_FEW):
        world.outcomes.decided(world.group, status)
        assert world.condition(POD_GROUP_SCHEDULED) == ("True", "Scheduled", "")


async def test_only_the_end_of_its_bindings_changes_the_outcome_of_a_group_being_bound(
    world: World,
) -> None:
    world.begin()
    assert world.outcomes.binding == {"default/g"}
    world.outcomes.decided(world.group, TOO_FEW)
    assert world.condition(POD_GROUP_SCHEDULED) == ("True", "Scheduled", "")
    assert world.condition(POD_GROUP_BINDING) == ("True", "MembersAreBeingBound", "2 members")
    world.outcomes.binding_ended(world.group, TOO_FEW)
    assert world.outcomes.binding == set()
    assert world.condition(POD_GROUP_SCHEDULED) == ("False", "Unschedulable", "too few")
    assert world.condition(POD_GROUP_BINDING) is None


async def test_a_group_that_is_gone_cannot_be_bound(world: World) -> None:
    gone = world.state.cache.cluster.list("PodGroup")[0]
    world.state.apply(Event(EventType.DELETED, "PodGroup", "default/g", gone, None), 2.0)
    world.begin()
    assert world.heard == ["the pod group is gone"]
    assert world.outcomes.binding == set()


async def test_a_new_leader_knows_the_groups_that_the_last_one_was_binding() -> None:
    assert World(POD_GROUP_SCHEDULED).outcomes.resume() == []
    world = World(POD_GROUP_BINDING)
    assert world.outcomes.resume() == ["default/g"]
    assert world.outcomes.binding == {"default/g"}
    world.outcomes.decided(world.group, TOO_FEW)
    assert world.condition(POD_GROUP_SCHEDULED) is None, "before its bindings have ended"


@pytest.mark.looptime
@pytest.mark.parametrize("refusal", [Unavailable(""), Invalid("not valid")])
async def test_an_outcome_that_could_not_be_written_is_written_with_the_next_attempt(
    world: World, refusal: ClientError
) -> None:
    world.refusal = refusal
    world.outcomes.decided(world.group, TOO_FEW)
    await world.write()
    world.refusal, world.sent = None, 0
    world.outcomes.decided(world.group, TOO_FEW)
    await world.write()
    assert world.sent == 1
    world.outcomes.decided(world.group, TOO_FEW)
    await world.write()
    assert world.sent == 1, "it is written now"


@pytest.mark.looptime
async def test_a_group_hears_that_its_record_could_not_be_written(world: World) -> None:
    world.refusal = Unavailable("")
    world.begin()
    await world.write()
    assert world.heard == ["unavailable"]


@pytest.mark.looptime
async def test_a_record_is_removed_again_until_that_succeeds(world: World) -> None:
    world.refusal = Invalid("not valid")
    world.outcomes.binding_ended(world.group, SUCCESS)
    await world.write()
    assert world.sent > 1
    world.refusal, world.sent = None, 0
    for _ in range(5):
        await world.write()
    assert world.sent == 1


@pytest.mark.looptime
async def test_the_record_of_a_group_that_is_bound_again_is_not_removed(world: World) -> None:
    world.refusal = Invalid("not valid")
    world.outcomes.binding_ended(world.group, SUCCESS)
    await world.write()
    world.refusal = None
    world.begin()
    for _ in range(5):
        await world.write()
    assert world.heard == [""]
    assert world.condition(POD_GROUP_BINDING) == ("True", "MembersAreBeingBound", "2 members")


@pytest.mark.looptime
async def test_an_annotation_is_written_once_the_api_is_back(world: World) -> None:
    """It may say that the group must not start again."""
    world.refusal = Unavailable("")
    world.conditions.annotate(world.group, {"podsched.io/deactivated": "because"})
    writing = asyncio.create_task(world.write())
    await asyncio.sleep(RETRY_FOR + 2.5)
    world.refusal, world.sent = None, 0
    await writing
    assert world.sent == 1


@pytest.mark.looptime
async def test_a_condition_is_written_once_the_api_is_back_beside_those_of_others(
    world: World,
) -> None:
    """It may be a promise, which the next leader has to know."""
    world.refusal = Unavailable("")
    said = QueueCondition("podsched.io/StartReserved", TRUE, "Reserved", "it starts soon")
    world.conditions.write_conditions(world.group, [said])
    writing = asyncio.create_task(world.write())
    await asyncio.sleep(RETRY_FOR + 2.5)
    old = world.state.cache.cluster.list("PodGroup")[0]
    new = v1.PodGroup.FromString(old.SerializeToString())
    new.status.conditions.add(type="OfAnother", status=TRUE)
    world.state.apply(Event(EventType.MODIFIED, "PodGroup", "default/g", old, new), 2.0)
    world.refusal, world.sent = None, 0
    await writing
    assert world.sent == 1
    assert world.last is not None
    written = json.loads(world.last.merge_patch)["status"]["conditions"]
    assert {one["type"] for one in written} == {"podsched.io/StartReserved", "OfAnother"}
