"""Placeholders; moves themselves are tested on real processes."""

from __future__ import annotations

from podsched.api.resources import requests_in_units
from podsched.cli.relocation import LABEL, MANAGER, placeholder
from support.engine_world import container, pod


def test_a_placeholder_takes_what_the_pod_takes_on_one_node_alone() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    spec = {
        "containers": [
            container({"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "2"}, ports=[80]),
            container({"cpu": "250m"}, image="side:1"),
        ],
        "priorityClassName": "urgent",
        "tolerations": [toleration],
        "nodeName": "old",
    }
    held = placeholder(pod("web", spec, labels={"app": "web"}), "new", 12.5)
    assert requests_in_units(held) == {
        "cpu": 1750,
        "memory": 1 << 30,
        "example.com/gpu": 2,
    }
    assert dict(held.metadata.labels) == {LABEL: MANAGER}, "no service or budget selects it"
    assert held.spec.priority_class_name == "urgent"
    assert held.spec.tolerations[0].key == "gpu"
    assert not held.spec.node_name
    assert [port.host_port for port in held.spec.containers[0].ports] == [80]
    required = held.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    [term] = required.node_selector_terms
    assert term.match_fields[0].values == ["new"]
    assert held.spec.active_deadline_seconds == 13
