"""Placements that cannot hold a group by sums alone are left out, and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.cache import Cache
from podsched.config.load import default_config
from podsched.decide.placement_bounds import PlacementBounds
from podsched.decide.runtime.plugin_handle import Chance, PluginHandle
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pod_groups import Placement
from podsched.framework.pods import PodInfo
from podsched.registry import factories
from support.engine_pods import pod_info
from support.engine_world import node


def member(name: str, cpu: int) -> PodInfo:
    requests = {"cpu": str(cpu)} if cpu else {}
    return pod_info(
        name, {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}
    )


def fits(free: list[int], requests: list[int], needed: int) -> bool:
    """Whether ``needed`` of the requests fit on nodes, by trying all: a plain reading."""
    if not needed:
        return True
    return any(
        fits([*free[:i], room - request, *free[i + 1 :]], requests[n + 1 :], needed - 1)
        for n, request in enumerate(requests)
        for i, room in enumerate(free)
        if request <= room
    )


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.data(),
)
def test_a_placement_that_holds_the_members_is_never_left_out(
    free: list[int], requests: list[int], data: st.DataObject
) -> None:
    needed = data.draw(st.integers(1, len(requests)))
    cache = Cache()
    for number, cpu in enumerate(free):
        allocatable = {"cpu": str(cpu), "memory": "1Gi", "pods": "9"}
        cache.placed.add_node(node(f"n{number}", allocatable=allocatable))
    profile = default_config().profiles[0]
    runtime = ProfileRuntime(profile, factories(), PluginHandle(cache.cluster, Chance(1)))
    members = [member(f"p{n}", cpu) for n, cpu in enumerate(requests)]
    bounds = PlacementBounds(runtime, cache.columns, members, needed)
    placement = Placement("all", frozenset(f"n{n}" for n in range(len(free))))
    if fits(free, requests, needed):
        assert bounds.may_hold(placement)
    if sum(sorted(requests)[:needed]) > sum(free):
        assert not bounds.may_hold(placement)
