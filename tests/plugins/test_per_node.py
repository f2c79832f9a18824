"""Plugins written per node, and where plugins come from."""

from __future__ import annotations

from typing import ClassVar

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, Traits, traits_of
from podsched.framework.pods import PodInfo
from podsched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from podsched.framework.verdicts import Rows
from podsched.plugins.per_node import NodeView, PerNodeFilter, PerNodeScore
from support.engine_world import container, node, pod
from support.plugin_world import cluster, filtered, info, scored


class Quota(PerNodeFilter, PerNodeScore):
    """Two pods a node at most; prefers nodes with most cpu left."""

    name: ClassVar[str] = "Quota"
    traits: ClassVar[Traits] = Traits(depends_on_feasible=False)

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status:
        if node.node.metadata.labels.get("closed"):
            return unresolvable("node(s) were closed")
        if node.name == "broken":
            return error("no answer")
        return SUCCESS if len(node.pods) < 2 else unschedulable("node(s) had two pods")

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        return SKIP if pod.name == "indifferent" else SUCCESS

    def score_node(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return (node.allocatable("cpu") - node.requested("cpu")) // 100


def running(name: str, node_name: str) -> object:
    return pod(name, {"nodeName": node_name, "containers": [container({"cpu": "500m"})]})


def test_each_node_is_asked_and_its_status_kept() -> None:
    state = cluster(
        node("free"), node("full"), node("closed", labels={"closed": "yes"}), node("broken"),
        pods=[running("a", "full"), running("b", "full")],  # type: ignore[list-item]
    )  # fmt: skip
    said = filtered(Quota(), pod("p"), state)
    assert said["free"].ok
    assert (said["full"].code, said["full"].message) == (Code.UNSCHEDULABLE, "node(s) had two pods")
    assert said["closed"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert said["broken"].code is Code.ERROR


def test_each_node_gets_its_score() -> None:
    state = cluster(node("free"), node("used"), pods=[running("a", "used")])  # type: ignore[list-item]
    assert scored(Quota(), pod("p"), state) == {"free": 40, "used": 35}
    assert scored(Quota(), pod("indifferent"), state) is None


def test_it_is_not_looked_ahead_for_it_may_look_at_single_pods() -> None:
    assert traits_of(Quota()).reads_pods
    assert info(pod("p")).cls is info(pod("q")).cls
