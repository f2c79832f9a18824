"""The domains of a group whose members have nodes already."""

from __future__ import annotations

import sys
from typing import Any

from podsched.framework.pod_groups import PodGroup
from podsched.framework.status import Status, error
from podsched.plugins.topology_placement_generator import TopologyPlacementGenerator
from support.engine_world import node, pod
from support.plugin_world import cluster, info

UNCLEAR = "cannot determine domain for already scheduled pods: "


def test_members_in_two_domains_are_an_error_that_names_both() -> None:
    nodes = cluster(node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}))
    placed = [info(pod("p", {"nodeName": "n1"})), info(pod("q", {"nodeName": "n2"}))]
    found = TopologyPlacementGenerator().generate_placements(
        PodGroup("default/g", topology_key="zone"), placed, nodes
    )
    assert found == error(f"{UNCLEAR}more than 1 domain found for pod group: a, b")


def test_members_in_no_domain_are_an_error_that_names_one_of_them() -> None:
    nodes = cluster(node("n1"), node("n2", labels={"zone": "b"}))
    placed = [info(pod("p", {"nodeName": "n1"}))]
    found = TopologyPlacementGenerator().generate_placements(
        PodGroup("default/g", topology_key="zone"), placed, nodes
    )
    assert found == error(f"{UNCLEAR}no topology domain found for pod default/p")


def test_preferred_domains_within_required_ones_are_not_compared_with_each_of_them() -> None:
    many, calls = 200, 0

    def called(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    labels = [{"rack": f"rack-{n}", "host": f"host-{n}"} for n in range(many)]
    nodes = cluster(*(node(f"n{n}", labels=of) for n, of in enumerate(labels)))
    group = PodGroup("default/g", topology_key="rack", preferred_topology=("host",))
    sys.setprofile(called)
    try:
        found = TopologyPlacementGenerator().generate_placements(group, (), nodes)
    finally:
        sys.setprofile(None)
    assert not isinstance(found, Status)
    alone = [frozenset((f"n{n}",)) for n in range(many)]
    assert [(one.level, one.node_names) for one in found] == [
        (level, names) for level in (0, 1) for names in alone
    ]
    assert calls < 20 * many
