"""EvenPodsSpreadPriority on cases worked by hand."""

from __future__ import annotations

from podsched.legacy.even_pods_spread import EvenPodsSpreadPriority
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import cluster, scored

WEB = {"app": "web"}
NODES = [
    node("a", labels={"zone": "1"}),
    node("b", labels={"zone": "2"}),
    node("c", labels={"zone": "3"}),
    node("d"),
]


def pending(when: str = "ScheduleAnyway") -> v1.Pod:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": WEB},
    }
    return pod("p", {"topologySpreadConstraints": [constraint]}, labels=WEB)


def test_the_rest_of_the_pods_is_divided_by_the_most_there_is() -> None:
    pods = [pod(f"a{n}", {"nodeName": "a"}, labels=WEB) for n in range(3)]
    pods.append(pod("b", {"nodeName": "b"}, labels=WEB))
    state = cluster(*NODES, pods=pods)
    # counts 3, 1, 0 of 4: rest 1, 3, 4; 10 * 1 / 4 = 2.5, 10 * 3 / 4 = 7.5; d has no zone
    found = scored(EvenPodsSpreadPriority(), pending(), state)
    assert found == {"a": 20, "b": 70, "c": 100, "d": 0}


def test_equal_counts_are_worth_ten_points() -> None:
    found = scored(EvenPodsSpreadPriority(), pending(), cluster(*NODES))
    assert found == {"a": 100, "b": 100, "c": 100, "d": 0}


def test_pods_without_such_constraints_are_skipped() -> None:
    state = cluster(*NODES)
    assert scored(EvenPodsSpreadPriority(), pending("DoNotSchedule"), state) is None
    assert scored(EvenPodsSpreadPriority(), pod("p"), state) is None
