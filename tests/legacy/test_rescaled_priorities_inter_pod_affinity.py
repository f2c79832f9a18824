"""InterPodAffinityPriority on cases worked by hand: 10 * (sum - min) / (max - min), from 0."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.legacy.rescaled_priorities import InterPodAffinityPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, made, scored

HOSTNAME = "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(app: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}


def running(name: str, on: str, app: str, **affinity: Any) -> Any:
    return pod(name, {"nodeName": on, "affinity": affinity}, labels={"app": app})


def wanting(**weights: int) -> Any:
    terms = {
        "podAffinity": {app: w for app, w in weights.items() if w > 0},
        "podAntiAffinity": {app: -w for app, w in weights.items() if w < 0},
    }
    affinity = {
        kind: {PREFERRED: [{"weight": w, "podAffinityTerm": term(app)} for app, w in of.items()]}
        for kind, of in terms.items()
    }
    return pod("p", {"affinity": affinity}, labels={"app": "web"})


NODES = [node(name, labels={HOSTNAME: name}) for name in ("x", "y", "z")]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"db": 8, "cache": 5}, {"x": 10, "y": 6, "z": 0}),  # sums 8, 5, 0: 10 * 5 / 8 = 6.25
        ({"db": -8, "cache": -5}, {"x": 0, "y": 3, "z": 10}),  # -8, -5, 0: min -8, max 0
        ({"db": 4, "cache": -4}, {"x": 10, "y": 0, "z": 5}),
    ],
)
def test_minimum_and_maximum_begin_at_zero(
    weights: dict[str, int], expected: dict[str, int]
) -> None:
    state = cluster(*NODES, pods=[running("a", "x", "db"), running("b", "y", "cache")])
    found = scored(made(InterPodAffinityPriority, state), wanting(**weights), state)
    assert found == {name: 10 * points for name, points in expected.items()}


def test_where_all_nodes_are_equally_near_they_still_have_points() -> None:
    pods = [running(f"a{name}", name, "db") for name in ("x", "y", "z")]
    state = cluster(*NODES, pods=pods)
    found = scored(made(InterPodAffinityPriority, state), wanting(db=3), state)
    assert found == {"x": 100, "y": 100, "z": 100}, "min is 0, not 3: today it would be 0"


def test_required_affinity_of_others_counts_with_the_symmetric_weight() -> None:
    hard = {REQUIRED: [term("web")]}
    soft = {PREFERRED: [{"weight": 2, "podAffinityTerm": term("web")}]}
    pods = [running("a", "x", "db", podAffinity=hard), running("b", "y", "db", podAffinity=soft)]
    state = cluster(*NODES, pods=pods)
    plugin = made(InterPodAffinityPriority, state, hard_pod_affinity_weight=4)
    found = scored(plugin, pod("p", labels={"app": "web"}), state)
    assert found == {"x": 100, "y": 50, "z": 0}
