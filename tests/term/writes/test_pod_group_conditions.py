"""The conditions of PodGroups are made into patches when they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from podsched.framework.pod_groups import pod_group
from podsched.term.writes import group_conditions
from podsched.term.writes.pod_group_conditions import PodGroupConditions, QueueCondition
from podsched.v1 import api_pb2
from support.queues import cluster_queue, gang
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


async def test_a_condition_that_a_later_one_replaces_before_it_is_sent_becomes_no_patch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, sent, made = TermWorld(), list[api_pb2.PatchRequest](), list[str]()
    cluster_queue(world, "team", {"cpu": 1})
    gang(world, "g", "team", 1, cpu=1)
    make = group_conditions._conditions_patch

    def noted(*parts: object) -> api_pb2.PatchRequest:
        made.append("patch")
        return make(*parts)  # type: ignore[arg-type]

    async def patch(requests: Sequence[api_pb2.PatchRequest]) -> Sequence[api_pb2.BatchResult]:
        sent.extend(requests)
        return [api_pb2.BatchResult() for _ in requests]

    monkeypatch.setattr(group_conditions, "_conditions_patch", noted)
    async with world.running():
        cluster = world.state.cache.cluster
        conditions = PodGroupConditions(cluster, patch, wall=lambda: 1_800_000_000.0)
        group = pod_group(cluster, "default/g")
        assert group is not None and world.ended is not None
        world.ended.cancel()  # The term writes conditions of its own.
        await asyncio.sleep(0)
        made.clear()
        conditions.write_conditions(group, [QueueCondition("Custom", "False", "Pending", "waits")])
        conditions.write_conditions(
            group, [QueueCondition("Admitted", "True", "Admitted", "admitted")]
        )
        conditions.write_conditions(
            group, [QueueCondition("Custom", "True", "Reserved", "reserved")]
        )
        assert conditions.condition(group, "Custom") == ("True", "Reserved", "reserved")
        assert made == []
        task = asyncio.create_task(conditions.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
    [one] = sent
    assert made == ["patch"]
    written = json.loads(one.merge_patch)["status"]["conditions"]
    found = {it["type"]: it["reason"] for it in written}
    assert (found["Custom"], found["Admitted"]) == ("Reserved", "Admitted")
