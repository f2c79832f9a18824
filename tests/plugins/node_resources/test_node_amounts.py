"""What is computed of whole columns equals what is computed of rows picked out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.config.plugin_args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP
from podsched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from podsched.plugins.node_resources.fit import NodeResourcesFit
from podsched.plugins.node_resources.node_amounts import MAX_ALLOCATABLE, NodeAmounts
from support.engine_world import container, node, pod
from support.examples import examples

CPU = st.sampled_from(["1", "3900m", "32", "7"])
#: The last two are too large to be exact, and nothing at all.
MEMORY = st.sampled_from(["1Gi", "1000001Ki", "128Gi", "3T"])
ODD_MEMORY = st.sampled_from(["64Ti", "0"])
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "1m", "333m", "2"]),
        "memory": st.sampled_from(["0", "1", "333Mi", "2Gi", "1000003"]),
        "example.com/gpu": st.just("1"),
    },
)


def nodes_of(cache: Cache, amounts: list[tuple[str, str]]) -> None:
    for at, (cpu, memory) in enumerate(amounts):
        allocatable = {"cpu": cpu, "memory": memory, "pods": "3", "example.com/gpu": str(at % 2)}
        cache.placed.add_node(node(f"n{at}", allocatable=allocatable))


def info(cache: Cache, number: int, requests: dict[str, str]) -> PodInfo:
    message = pod(f"p{number}", {"containers": [container(requests)]})
    return make_pod_info(message, cache.classes)


def made(cache: Cache) -> list[Any]:
    handle = SimulatedHandle(cache.cluster)
    return [
        NodeResourcesFit(NodeResourcesFitArgs(), handle),
        NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs(), handle),
    ]


def check(cache: Cache, plugins: list[Any], pending: PodInfo) -> None:
    """Both ways over all rows with a node, and over some of them.

    A plugin that has not been asked about whole columns computes with integers.
    """
    nodes, rows = cache.columns, np.flatnonzero(cache.columns.alive)
    for plugin, fresh in zip(plugins, made(cache), strict=True):
        state = CycleState()
        some = rows[1::2]
        if hasattr(plugin, "pre_filter"):
            plugin.pre_filter(state, pending, cache.cluster)
            all_of_them = plugin.filter_all(state, pending, nodes)
            alone = fresh.filter(state, pending, nodes, rows)
            assert alone.reasons == all_of_them.reasons
            if alone.reasons:
                assert alone.bits.tolist() == all_of_them.bits[rows].tolist()
            few, of_some = (one.filter(state, pending, nodes, some) for one in (plugin, fresh))
            assert few.reasons == of_some.reasons and few.bits.tolist() == of_some.bits.tolist()
        if plugin.pre_score(state, pending, cache.cluster, rows) is SKIP:
            continue
        whole = plugin.score_all(state, pending, nodes)
        assert fresh.score(state, pending, nodes, rows).tolist() == whole[rows].tolist()
        assert plugin.score(state, pending, nodes, some).tolist() == whole[some].tolist()


@examples(60)
@given(
    st.lists(st.tuples(CPU, MEMORY), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), REQUESTS), max_size=12),
    st.tuples(CPU, ODD_MEMORY),
    st.integers(1, 7),
)
def test_verdicts_and_scores_are_the_same_while_pods_and_nodes_come_and_go(
    amounts: list[tuple[str, str]],
    pods: list[tuple[int, dict[str, str]]],
    odd: tuple[str, str],
    between: int,
) -> None:
    """``between``: pods from one look to the next, on few rows or on more."""
    cache = Cache()
    nodes_of(cache, amounts)
    plugins = made(cache)
    for number, (at, requests) in enumerate(pods):
        pending = info(cache, number, requests)
        if number % between == 0:
            check(cache, plugins, pending)
        cache.assume(pending, f"n{at % len(amounts)}")
    nodes_of(cache, [*amounts, odd])
    check(cache, plugins, info(cache, 98, {"cpu": "1m", "memory": "1"}))
    cache.placed.remove_node("n0")
    check(cache, plugins, info(cache, 99, {"cpu": "1m", "memory": "1"}))


def test_the_least_that_nodes_have_left_is_looked_for_again_when_room_was_given_back() -> None:
    cache, room = Cache(), NodeAmounts()
    nodes_of(cache, [("4", "4Gi"), ("4", "4Gi")])
    room.refresh(cache.columns)
    pending = info(cache, 1, {"cpu": "2"})
    cache.assume(pending, "n0")
    room.refresh(cache.columns)
    assert room.least()[0] == 2000
    cache.forget(pending)
    room.refresh(cache.columns)
    assert room.least()[0] == 2000
    assert room.least_again()[0] == 4000


@pytest.mark.parametrize("whole", [1, 7, 3900, 10**9 + 7, MAX_ALLOCATABLE - 1])
def test_quotients_of_floats_are_rounded_as_those_of_integers(whole: int) -> None:
    """Around each number of percent, where a wrong rounding would show."""
    around = [whole * percent // 100 + by for percent in range(101) for by in (-1, 0, 1)]
    parts = np.array([part for part in around if 0 <= part <= whole], dtype=np.int64)
    floats = np.floor(parts.astype(np.float64) * 100 / np.float64(whole))
    assert floats.astype(np.int64).tolist() == (parts * 100 // whole).tolist()
