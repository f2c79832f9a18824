"""PodToleratesNodeNoExecuteTaints: other effects do not count."""

from __future__ import annotations

import pytest

from podsched.legacy.node_predicates import REASON_TAINTS, PodToleratesNodeNoExecuteTaints
from support.engine_world import node, pod
from support.plugin_world import cluster, rejections


@pytest.mark.parametrize(
    ("effect", "tolerated", "rejected"),
    [("NoExecute", False, True), ("NoExecute", True, False), ("NoSchedule", False, False)],
)
def test_only_untolerated_no_execute_taints_reject(
    effect: str, tolerated: bool, rejected: bool
) -> None:
    state = cluster(node("n", taints=[{"key": "k", "effect": effect}]))
    tolerations = [{"key": "k", "operator": "Exists"}] if tolerated else []
    found = rejections(
        PodToleratesNodeNoExecuteTaints(), pod("p", {"tolerations": tolerations}), state
    )
    assert found == ({"n": (REASON_TAINTS,)} if rejected else {})
