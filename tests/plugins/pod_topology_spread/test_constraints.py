"""The selectors of Services that match a pod, found by one of their labels."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import Service
from podsched.plugins.pod_topology_spread.constraints import ServiceSelectors
from support.engine_world import pod
from support.plugin_world import cluster, info

labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), max_size=3)
services = st.lists(st.tuples(st.sampled_from(["default", "other"]), labels), max_size=6)


def service(name: str, namespace: str, selector: Mapping[str, str]) -> Service:
    return Service(
        metadata={"name": name, "namespace": namespace}, spec={"selector": dict(selector)}
    )


@given(services=services, later=services, of_pod=labels)
def test_all_services_of_the_namespace_whose_selectors_match_are_merged(
    services: list[tuple[str, dict[str, str]]],
    later: list[tuple[str, dict[str, str]]],
    of_pod: dict[str, str],
) -> None:
    state, selectors = cluster(), ServiceSelectors()
    wanted = info(pod("p", labels=of_pod))
    so_far: list[tuple[str, dict[str, str]]] = []
    for added in (services, later):
        for namespace, selector in added:
            state.put("Service", service(f"s{len(so_far)}", namespace, selector))
            so_far.append((namespace, selector))
        plain: dict[str, str] = {}
        for namespace, selector in so_far:
            if namespace == "default" and all(of_pod.get(k) == v for k, v in selector.items()):
                plain |= selector
        assert selectors.merged(wanted, state) == plain


def test_a_service_that_comes_later_counts_and_one_that_has_gone_no_more() -> None:
    state, selectors = cluster(), ServiceSelectors()
    wanted = info(pod("p", labels={"app": "x"}))
    assert selectors.merged(wanted, state) == {}
    state.put("Service", service("s", "default", {"app": "x"}))
    assert selectors.merged(wanted, state) == {"app": "x"}
    state.delete("Service", "default", "s")
    assert selectors.merged(wanted, state) == {}
