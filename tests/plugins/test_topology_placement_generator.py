"""The domains of a group whose members have nodes already."""

from __future__ import annotations

from podsched.framework.pod_groups import PodGroup
from podsched.framework.status import error
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
