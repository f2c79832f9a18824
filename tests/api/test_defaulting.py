"""What new objects of kinds other than Pod are given."""

from __future__ import annotations

import pytest

from podsched.api.defaulting import default_object
from podsched.api.objects import Lease, LeaseSpec, Namespace, Node
from podsched.api.priorities import PriorityClasses

NOW = 1_700_000_000.75
UID = "0b1f6c7e-0000-4000-8000-000000000001"


@pytest.mark.parametrize("kind", [Namespace, Node])
def test_objects_of_the_cluster_have_no_namespace(kind: type[Namespace] | type[Node]) -> None:
    item = kind()
    item.metadata.name = "one"
    default_object(item, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert item.metadata.namespace == ""


def test_a_namespace_can_be_selected_by_its_name() -> None:
    item = Namespace()
    item.metadata.name = "shop"
    default_object(item, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert item.metadata.labels["kubernetes.io/metadata.name"] == "shop"


def test_a_node_that_says_only_its_capacity_offers_all_of_it() -> None:
    node = Node()
    node.status.capacity["cpu"] = "4"
    default_object(node, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert dict(node.status.allocatable) == {"cpu": "4"}


def test_a_lease_is_not_appointed_to_where_nobody_appoints() -> None:
    lease = Lease()
    lease.spec.holder_identity = "me"
    lease.spec.strategy, lease.spec.preferred_holder = "OldestEmulationVersion", "another"
    default_object(lease, now=0, uid="u", priority_classes=PriorityClasses())
    assert lease.spec == LeaseSpec(holder_identity="me")
