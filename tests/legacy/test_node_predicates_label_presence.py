"""CheckNodeLabelPresence: all labels there, or none."""

from __future__ import annotations

import pytest

from podsched.framework.status import Code
from podsched.legacy.node_predicates import REASON_LABELS, CheckNodeLabelPresence
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, made, rejections

STATE = cluster(
    node("both", labels={"a": "1", "b": ""}), node("one", labels={"a": "2"}), node("none")
)


@pytest.mark.parametrize(("presence", "out"), [(True, {"one", "none"}), (False, {"both", "one"})])
def test_every_label_must_be_as_asked(presence: bool, out: set[str]) -> None:
    plugin = made(CheckNodeLabelPresence, STATE, labels=("a", "b"), presence=presence)
    assert rejections(plugin, pod("p"), STATE) == dict.fromkeys(out, (REASON_LABELS,))


def test_evicting_pods_does_not_help() -> None:
    plugin = made(CheckNodeLabelPresence, STATE, labels=("a",), presence=True)
    status = filtered(plugin, pod("p"), STATE)["none"]
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
