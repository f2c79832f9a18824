"""ImageLocality: its formula on cases worked by hand."""

from __future__ import annotations

from podsched.api.objects import Pod
from podsched.plugins.image_locality import ImageLocality
from support.engine_world import node, pod
from support.plugin_world import cluster, info, scored

MIB = 1024 * 1024


def running(*images: str) -> Pod:
    containers = [{"name": f"c{i}", "image": image} for i, image in enumerate(images)]
    return pod("p", {"containers": containers})


def test_an_image_counts_its_size_times_the_share_of_nodes_that_have_it() -> None:
    state = cluster(node("has", images=["app:1"]), node("has not"))
    spread = 300 * MIB // 2
    expected = 100 * (spread - 23 * MIB) // (977 * MIB)
    assert scored(ImageLocality(), running("app:1"), state) == {"has": expected, "has not": 0}


def test_a_name_without_a_tag_means_latest() -> None:
    state = cluster(node("n", images=["tiny:latest", "base:2"]))
    two = running("tiny", "base:2")
    expected = 100 * (905 * MIB - 23 * MIB) // (2 * 1000 * MIB - 23 * MIB)
    assert scored(ImageLocality(), two, state) == {"n": expected}


def test_the_number_of_nodes_is_among_the_inputs_when_an_image_is_somewhere() -> None:
    plugin, wanted = ImageLocality(), info(running("app:1"))
    state = cluster(node("a", images=["app:1"]))
    before = plugin.inputs(wanted, state)
    state.columns.add_node(node("b"))
    assert plugin.inputs(wanted, state) != before
