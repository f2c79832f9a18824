"""ServiceAntiAffinity on cases worked by hand: 10 * (total - count) / total."""

from __future__ import annotations

from podsched.legacy.selector_spread import ServiceAntiAffinity
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import cluster, made, scored

WEB = {"app": "web"}
NODES = [
    node("a", labels={"rack": "1"}),
    node("b", labels={"rack": "1"}),
    node("c", labels={"rack": "2"}),
    node("d"),
]


def test_racks_with_few_pods_of_the_first_service_are_preferred() -> None:
    pods = [pod(f"p{on}{n}", {"nodeName": on}, labels=WEB) for on in "ac" for n in range(2)]
    pods += [pod(f"more{n}", {"nodeName": "b"}, labels=WEB) for n in range(3)]
    state = cluster(*NODES, pods=pods)
    for name, selector in (("web", WEB), ("z-last", {"app": "other"})):
        service = v1.Service()
        service.metadata.name, service.metadata.namespace = name, "default"
        service.spec.selector.update(selector)
        state.put("Service", service)
    plugin = made(ServiceAntiAffinity, state, label="rack")
    found = scored(plugin, pod("p", labels=WEB), state)
    # 7 pods: rack 1 has 5, 10 * 2 / 7 = 2.86; rack 2 has 2, 10 * 5 / 7 = 7.14; d has no rack
    assert found == {"a": 20, "b": 20, "c": 70, "d": 0}


def test_without_pods_of_the_service_every_labelled_node_has_ten_points() -> None:
    state = cluster(*NODES)
    plugin = made(ServiceAntiAffinity, state, label="rack")
    assert scored(plugin, pod("p", labels=WEB), state) == {"a": 100, "b": 100, "c": 100, "d": 0}
