"""Which changes of a node's networks are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import Node
from podsched.api.validation import validate

ONE, OTHER, SIX = "10.0.0.0/24", "10.0.1.0/24", "fd00::/64"
BOTH = {"pod_cidr": ONE, "pod_cidrs": [ONE, SIX]}


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({}, BOTH, True),
        ({"pod_cidr": ONE}, {"pod_cidr": ONE, "pod_cidrs": [ONE]}, True),
        ({"pod_cidr": ONE}, {"pod_cidr": OTHER}, False),
        ({"pod_cidr": ONE}, {"pod_cidr": ONE, "pod_cidrs": [OTHER]}, False),
        (BOTH, {"pod_cidr": ONE, "pod_cidrs": [OTHER, SIX]}, False),
        ({"pod_cidrs": [ONE]}, {}, False),
    ],
)
def test_the_networks_of_a_node_stay_once_they_are_set(
    old: dict[str, Any], new: dict[str, Any], allowed: bool
) -> None:
    """A node that takes the network of another one would get the packets for its pods."""
    before, after = (Node(metadata={"name": "a"}, spec=spec) for spec in (old, new))
    found = [error.path for error in validate(KINDS["Node"], after, before)]
    assert found == ([] if allowed else ["spec.podCIDRs"])
