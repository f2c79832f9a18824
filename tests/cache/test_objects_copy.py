"""A copy of a cluster reads like it, and goes its own way from then on."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.objects import ClusterState
from support.examples import examples
from support.topology_world import NAMESPACES, TopologyWorld

KEYS = ("pool", "topology.kubernetes.io/zone")


def read(cluster: ClusterState) -> object:
    """All that can be read of a cluster, as plain values."""
    columns = cluster.columns
    rows = columns.live_rows
    return (
        [columns.names[row] for row in columns.ordered_rows],
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
    for row in copy.columns.live_rows.tolist():
        copy.columns.remove_node(copy.columns.names[row])
    copy.put("Service", copy.list("Namespace")[0])
    assert read(world.cluster) == after, "after changes of the copy"


def test_counters_of_a_copy_count_what_is_there() -> None:
    world = TopologyWorld(3)
    counted = next(iter(world.cluster.columns.queries), None)

    class Everything:
        def counts(self, pod: object) -> int:
            return 1

    query = counted or Everything()
    expected = world.cluster.columns.counter(query).copy()
    copy = world.cluster.copy()
    assert np.array_equal(copy.columns.counter(query), expected)
    world.add_pod()
    assert np.array_equal(copy.columns.counter(query), expected)
