"""The largest pods that still fit, and fragmentation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.ask.whatif.headroom import GIB, headroom
from support.engine_world import container, pod
from support.examples import examples
from support.whatif_world import node, owned, world


def sized(cpu: int, gib: int) -> dict[str, str]:
    """What a node has to give."""
    return {"cpu": str(cpu), "memory": f"{gib}Gi", "pods": "20"}


def test_the_largest_pod_of_a_ratio_is_bounded_by_the_scarcer_resource() -> None:
    made = world([node("a", allocatable=sized(4, 8)), node("b", allocatable=sized(2, 32))])
    found = headroom(made)
    assert found.ratios[2].requests == {"cpu": 4000, "memory": 8 * GIB}
    assert found.ratios[2].node_name == "a"
    assert found.ratios[8].requests == {"cpu": 2000, "memory": 16 * GIB}
    assert found.ratios[8].stranded_cpu == pytest.approx(1 - 3 / 6)
    assert found.ratios[2].stranded_memory == pytest.approx(1 - 12 / 40)


def test_nodes_that_not_every_pod_may_use_do_not_count() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    made = world(
        [
            node("a", allocatable=sized(2, 4)),
            node("b", allocatable=sized(64, 256), taints=[taint]),
            node("c", allocatable=sized(64, 256), unschedulable=True),
        ]
    )
    found = headroom(made)
    assert (found.nodes, found.free["cpu"]) == (1, 2000)
    assert found.ratios[2].requests["cpu"] == 2000


def test_shapes_of_running_pods_say_how_many_more_fit() -> None:
    pods = [owned(f"small-{i}", "a", "1") for i in range(2)] + [owned("large", "b", "3")]
    made = world([node("a", allocatable=sized(4, 8)), node("b", allocatable=sized(4, 8)), *pods])
    small, large = headroom(made).shapes
    assert (small.requests["cpu"], small.pods, small.more, small.nodes) == (1000, 2, 3, 2)
    assert (large.more, large.times) == (0, 0.0)


def test_fragmentation_is_what_is_free_where_running_shapes_do_not_fit() -> None:
    pods = [owned("small", "a", "1"), owned("large", "b", "3")]
    made = world([node("a", allocatable=sized(4, 8)), node("b", allocatable=sized(4, 8)), *pods])
    # Free: 3 cpu on a, 1 on b. The large shape does not fit b, the small one fits everywhere.
    assert headroom(made).fragmentation["cpu"] == pytest.approx(0.5 * 1 / 4)


def test_an_empty_cluster_has_no_headroom() -> None:
    found = headroom(world([]))
    assert (found.nodes, found.shapes, found.fragmentation) == (0, (), {})
    assert found.ratios[2].requests == {}


@given(
    sizes=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 64)), min_size=1, max_size=5),
    used=st.lists(st.integers(1, 2000), max_size=5),
)
@examples(30)
def test_the_largest_pod_fits_and_no_larger_one(
    sizes: list[tuple[int, int]], used: list[int]
) -> None:
    objects: list[Any] = [
        node(f"n{i}", allocatable=sized(cpu, gib)) for i, (cpu, gib) in enumerate(sizes)
    ]
    objects += [owned(f"p{i}", f"n{i % len(sizes)}", f"{milli}m") for i, milli in enumerate(used)]
    for ratio, largest in headroom(world(objects)).ratios.items():
        milli = largest.requests.get("cpu", 0)

        def fits(cpu: int, ratio: int = ratio) -> bool:
            made = world(objects)
            memory = ratio * GIB * cpu // 1000
            requests = {"cpu": f"{cpu}m", "memory": str(memory)}
            one = pod("probe", {"containers": [container(requests)]})
            return bool(made.schedule([made.changes.submit(one)], preempt=False)[0].node_name)

        assert not milli or fits(milli)
        assert not fits(milli + 1)
