"""A plugin of a user's that looks at other pods, those that wait among them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import ClassVar

import pytest

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, PreFilterResult
from podsched.framework.pods import PodInfo
from podsched.framework.status import unschedulable
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


class Pairs:
    """Schedules pods of a namespace once there are two of them."""

    name: ClassVar[str] = "Pairs"

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return cluster.version("Pod")

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        there = len(cluster.list("Pod", pod.namespace))
        return PreFilterResult(unschedulable(f"{there} of 2")) if there < 2 else PreFilterResult()


async def test_a_plugin_that_counts_siblings_is_asked_again_when_another_one_comes() -> None:
    profile = {"plugins": {"preFilter": {"enabled": [{"name": "Pairs"}]}}}
    world = TermWorld([profile], plugins={"Pairs": lambda args, handle: Pairs()})
    world.node("n1")
    async with world.running():
        world.pod("first")
        await asyncio.sleep(2)
        assert world.scheduled("first").message.startswith("0/1 nodes are available: 1 of 2.")
        world.pod("second")
        await asyncio.sleep(20)
        assert world.nodes_of("first", "second") == ["n1", "n1"]
        world.check()
