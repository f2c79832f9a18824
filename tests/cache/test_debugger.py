"""The comparison of the cache with the informer's store, and the dump."""

from __future__ import annotations

from podsched.cache.cache import Cache
from podsched.cache.debugger import Mismatch, compare_nodes, compare_pods, dump_nodes
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1
from support.cache_world import make_node, make_pod


def cache_with(*nodes: v1.Node) -> Cache:
    cache = Cache(schedulers={"mine"})
    for node in nodes:
        cache.apply("Node", None, node)
    return cache


def pod(name: str, node: str = "", version: str = "1", scheduler: str = "mine") -> v1.Pod:
    made = make_pod(name, node=node)
    made.metadata.resource_version = version
    made.spec.scheduler_name = scheduler
    return made


def came(cache: Cache, message: v1.Pod) -> PodInfo:
    """The informer reports a pod; what the queue would be given."""
    cache.apply("Pod", None, message)
    return cache.cluster.pods[f"default/{message.metadata.name}"]


def test_a_cache_that_holds_what_the_store_holds_matches_it() -> None:
    node, running, waiting = make_node("n0"), pod("running", "n0"), pod("waiting")
    cache = cache_with(node)
    came(cache, running)
    queued = came(cache, waiting)
    finished = make_pod("finished", node="n0", phase="Succeeded")
    assert not compare_nodes(cache, {"n0": node})
    assert not compare_pods(cache, [running, waiting, finished], [queued])


def test_nodes_that_either_side_lacks_or_has_in_another_version_are_named() -> None:
    newer = make_node("n1")
    newer.metadata.resource_version = "2"
    cache = cache_with(make_node("n0"), make_node("n1"))
    found = compare_nodes(cache, {"n1": newer, "n2": make_node("n2")})
    assert found == Mismatch(missed=("n2",), redundant=("n0",), different=("n1",))


def test_pods_that_either_side_lacks_are_named() -> None:
    cache = cache_with(make_node("n0"))
    came(cache, pod("gone", "n0"))
    forgotten = came(cache, pod("forgotten"))
    found = compare_pods(cache, [pod("bound", "n0"), pod("pending")], [forgotten])
    assert found == Mismatch(
        missed=("default/bound", "default/pending"),
        redundant=("default/forgotten", "default/gone"),
    )


def test_a_pod_on_another_node_or_in_another_version_is_different() -> None:
    cache = cache_with(make_node("n0"), make_node("n1"))
    came(cache, pod("moved", "n0"))
    stale = came(cache, pod("stale"))
    found = compare_pods(cache, [pod("moved", "n1"), pod("stale", version="2")], [stale])
    assert found == Mismatch(different=("default/moved", "default/stale"))


def test_pods_being_tried_or_bound_and_those_of_other_schedulers_are_no_mismatch() -> None:
    cache = cache_with(make_node("n0"))
    tried, bound = came(cache, pod("tried")), came(cache, pod("bound"))
    cache.assume(bound, "n0")
    stored = [pod("tried", version="2"), pod("bound", version="2"), pod("other", scheduler="other")]
    assert not compare_pods(cache, stored, [], in_flight=[tried])
    assert not compare_pods(cache, [stored[0]], [], in_flight=[tried])


def test_the_dump_shows_usage_pods_and_nominations_of_each_node() -> None:
    cache = cache_with(make_node("n0"))
    cache.assume(came(cache, pod("p")), "n0")
    cache.nominate(came(cache, pod("q")), "n0")
    (node,) = dump_nodes(cache)
    assert (node.name, node.deleted) == ("n0", False)
    assert node.requested == {"cpu": 100, "memory": 0, "pods": 1}
    assert node.allocatable == {"cpu": 4000, "memory": 32 << 30, "pods": 110}
    assert node.pods == (
        "name: p, namespace: default, uid: uid-default-p, phase: , nominated node: , assumed",
    )
    assert [text.split(",")[0] for text in node.nominated] == ["name: q"]


def test_the_dump_names_deleted_nodes_that_still_have_pods() -> None:
    cache = cache_with()
    came(cache, pod("p", "gone"))
    (node,) = dump_nodes(cache)
    assert (node.name, node.deleted, len(node.pods)) == ("gone", True, 1)


def test_a_node_that_goes_while_it_is_being_dumped_is_left_out() -> None:
    cache = cache_with(make_node("n0"), make_node("n1"))
    dump = dump_nodes(cache)
    first = next(dump)
    other = {"n0": "n1", "n1": "n0"}[first.name]
    cache.apply("Node", make_node(other), None)
    assert list(dump) == []
