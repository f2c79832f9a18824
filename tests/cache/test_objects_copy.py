"""A copy of a cluster reads like it, and goes its own way from then on."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.cache import Cache
from podsched.cache.invariants import check
from podsched.cache.objects import ClusterState
from podsched.cache.trial import Trial
from support.cache_world import make_node, make_pod
from support.examples import examples
from support.topology_world import NAMESPACES, TopologyWorld

KEYS = ("pool", "topology.kubernetes.io/zone")


def read(cluster: ClusterState) -> object:
    """All that can be read of a cluster, as plain values."""
    columns = cluster.columns
    rows = columns.node_table.live_rows
    return (
        [columns.names[row] for row in columns.node_table.ordered_rows],
        [sorted(columns.pods(row)) for row in rows],
        [columns.requested(name)[rows].tolist() for name in ("cpu", "memory", "pods")],
        [columns.allocatable(name)[rows].tolist() for name in ("cpu", "memory")],
        [[columns.value(i) for i in columns.label(key)[rows].tolist()] for key in KEYS],
        [[t.key for t in columns.taints(i)] for i in columns.taint_set[rows].tolist()],
        [columns.node(row).SerializeToString(deterministic=True) for row in rows],
        [dict(columns.used_ports(row)) for row in rows],
        sorted(cluster.pods),
        [len(cluster.list(kind)) for kind in ("Namespace", "Service")],
        [cluster.get("Namespace", "", name) for name in NAMESPACES],
    )


@examples(40)
@given(seed=st.integers(0, 10_000), changes=st.integers(1, 12))
def test_what_happens_to_the_one_does_not_happen_to_the_other(seed: int, changes: int) -> None:
    world = TopologyWorld(seed)
    before = read(world.cluster)
    copy = world.cluster.copy()
    assert read(copy) == before
    for _ in range(changes):
        world.mutate()
    assert read(copy) == before, "after changes of the first"
    after = read(world.cluster)
    for row in copy.columns.node_table.live_rows.tolist():
        copy.columns.remove_node(copy.columns.names[row])
    copy.put("Service", copy.list("Namespace")[0])
    assert read(world.cluster) == after, "after changes of the copy"


def test_counters_of_a_copy_count_what_is_there() -> None:
    world = TopologyWorld(3)
    counted = next(iter(world.cluster.columns.pod_table.counters.table.of), None)

    class Everything:
        def counts(self, pod: object) -> int:
            return 1

    query = counted or Everything()
    expected = world.cluster.columns.counter(query).copy()
    copy = world.cluster.copy()
    assert np.array_equal(copy.columns.counter(query), expected)
    world.add_pod()
    assert np.array_equal(copy.columns.counter(query), expected)


def test_a_copy_of_a_cache_holds_its_pods_and_goes_its_own_way() -> None:
    cache = Cache()
    cache.apply("Node", None, make_node("n0"))
    for name, node in (("bound", "n0"), ("apart", "gone"), ("waits", "")):
        cache.apply("Pod", None, make_pod(name, node=node))
    waiting = cache.cluster.pods["default/waits"]
    cache.assume(waiting, "n0")
    copy = cache.copy()
    check(copy)
    assert copy.held == cache.held
    assert [pod.name for pod in copy.placed.on_unknown_nodes["gone"].values()] == ["apart"]
    cache.finish_binding(waiting.uid)
    cache.apply("Pod", waiting.pod, make_pod("waits", node="n0"))
    assert waiting.uid in copy.assumed
    with Trial(copy) as trial:
        trial.remove(copy.cluster.pods["default/bound"])
        trial.put_node(make_node("n1"))
        assert cache.cluster.open_trial is None
        assert len(cache.columns.node_table) == 1
        assert list(cache.columns.pods(0)) == ["uid-default-bound", waiting.uid]
    copy.apply("Node", None, make_node("gone"))
    check(cache)
    check(copy)
    assert [pod.name for pod in cache.placed.on_unknown_nodes["gone"].values()] == ["apart"]
