"""ImageLocalityPriority on cases worked by hand: 10 * (sum - 23 MiB) / 977 MiB."""

from __future__ import annotations

from podsched.api.objects import Pod
from podsched.legacy.rescaled_priorities import ImageLocalityPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, info, scored


def running(*images: str, init: str = "") -> Pod:
    containers = [{"name": f"c{i}", "image": image} for i, image in enumerate(images)]
    first = [{"name": "init", "image": init}] if init else []
    return pod("p", {"containers": containers, "initContainers": first})


def test_an_image_counts_its_size_times_the_share_of_nodes_that_have_it() -> None:
    state = cluster(node("has", images=["base:2"]), node("has not"))
    found = scored(ImageLocalityPriority(), running("base:2"), state)
    assert found == {"has": 40, "has not": 0}, "10 * (900 / 2 - 23) / 977 = 4.37"


def test_the_number_of_containers_does_not_count() -> None:
    state = cluster(node("n", images=["base:2", "app:1"]))
    found = scored(ImageLocalityPriority(), running("base:2", "app:1"), state)
    assert found == {"n": 100}, "1200 MiB are more than 1000"


def test_init_containers_do_not_count() -> None:
    state = cluster(node("n", images=["base:2"]))
    assert scored(ImageLocalityPriority(), running("tiny", init="base:2"), state) == {"n": 0}


def test_the_number_of_nodes_is_among_the_inputs() -> None:
    plugin, wanted = ImageLocalityPriority(), info(running("app:1"))
    state = cluster(node("a", images=["app:1"]))
    before = plugin.inputs(wanted, state)
    state.columns.add_node(node("b"))
    assert plugin.inputs(wanted, state) != before
