"""NodeName: a pod that names its node fits no other."""

from __future__ import annotations

from podsched.plugins import node_name
from podsched.plugins.node_name import NodeName
from support.engine_world import node, pod
from support.plugin_world import cluster, info, rejections


def test_a_pod_that_names_its_node_fits_no_other() -> None:
    state = cluster(node("a"), node("b"))
    assert rejections(NodeName(), pod("p", {"nodeName": "b"}), state) == {"a": (node_name.REASON,)}
    assert rejections(NodeName(), pod("p"), state) == {}
    assert len(rejections(NodeName(), pod("p", {"nodeName": "c"}), state)) == 2


def test_pods_of_one_class_may_name_different_nodes() -> None:
    one, other = info(pod("p", {"nodeName": "a"})), info(pod("q", {"nodeName": "b"}))
    assert one.cls is other.cls
    state = cluster()
    assert NodeName().inputs(one, state) != NodeName().inputs(other, state)
