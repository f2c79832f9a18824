"""SelectorSpreadPriority and ServiceSpreadingPriority on cases worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.cache.objects import ClusterState
from podsched.legacy.selector_spread import (
    SelectorSpreadPriority,
    ServiceSpreadingPriority,
)
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import cluster, info, scored

ZONE = "failure-domain.beta.kubernetes.io/zone"
WEB = {"app": "web"}


def running(name: str, on: str, **labels: str) -> v1.Pod:
    return pod(name, {"nodeName": on}, labels=labels or WEB)


def service(state: ClusterState, name: str, **selector: str) -> None:
    made = v1.Service()
    made.metadata.name, made.metadata.namespace = name, "default"
    made.spec.selector.update(selector)
    state.put("Service", made)


def replica_set(state: ClusterState, **labels: str) -> None:
    made = v1.ReplicaSet()
    made.metadata.name, made.metadata.namespace = "rs", "default"
    made.spec.selector.match_labels.update(labels)
    state.put("ReplicaSet", made)


NODES = [node("a"), node("b"), node("c")]
PODS = [running("1", "a"), running("2", "a"), running("3", "a"), running("4", "b")]


def test_points_are_ten_times_max_less_count_over_max() -> None:
    state = cluster(*NODES, pods=PODS)
    service(state, "web", **WEB)
    found = scored(SelectorSpreadPriority(), pod("p", labels=WEB), state)
    assert found == {"a": 0, "b": 60, "c": 100}, "10 * (3 - 1) / 3 = 6.67"


def test_zones_count_two_thirds() -> None:
    nodes = [node(name, labels={ZONE: zone}) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    state = cluster(*nodes, node("d"), pods=PODS)
    service(state, "web", **WEB)
    found = scored(SelectorSpreadPriority(), pod("p", labels=WEB), state)
    # b: 6.67 / 3 + 0 * 2 / 3 = 2.2; c: 10 / 3 + 10 * 2 / 3; d has no zone
    assert found == {"a": 0, "b": 20, "c": 100, "d": 100}


@pytest.mark.parametrize("labels", [{}, {"app": "db"}])
def test_a_pod_that_nothing_selects_has_ten_points_everywhere(labels: dict[str, str]) -> None:
    state = cluster(*NODES, pods=PODS)
    service(state, "web", **WEB)
    service(state, "headless")
    found = scored(SelectorSpreadPriority(), pod("p", labels=labels), state)
    assert found == {"a": 100, "b": 100, "c": 100}


def test_only_pods_that_all_selectors_match_count() -> None:
    both = {**WEB, "tier": "1"}
    state = cluster(*NODES, pods=[*PODS, running("5", "b", **both)])
    service(state, "web", **WEB)
    replica_set(state, **both)
    pending = pod("p", labels=both)
    assert scored(SelectorSpreadPriority(), pending, state) == {"a": 100, "b": 0, "c": 100}
    assert scored(ServiceSpreadingPriority(), pending, state) == {"a": 0, "b": 30, "c": 100}


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    leaving, other = running("1", "a"), pod("2", {"nodeName": "b"}, labels=WEB, namespace="other")
    leaving.metadata.deletion_timestamp.seconds = 1
    state = cluster(*NODES, pods=[leaving, other])
    service(state, "web", **WEB)
    found = scored(SelectorSpreadPriority(), pod("p", labels=WEB), state)
    assert found == {"a": 100, "b": 100, "c": 100}


def test_inputs_change_with_pods_that_count_and_with_services() -> None:
    state = cluster(*NODES, pods=PODS)
    service(state, "web", **WEB)
    plugin, pending = SelectorSpreadPriority(), info(pod("p", labels=WEB))
    seen: list[Any] = [plugin.inputs(pending, state)]
    state.columns.pod_table.add(2, info(running("9", "c")))
    seen.append(plugin.inputs(pending, state))
    service(state, "more", app="web")
    seen.append(plugin.inputs(pending, state))
    assert len(set(seen)) == 3
