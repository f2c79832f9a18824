"""A node to add is looked for among all that differ in anything that a filter reads."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.ask.explain.changes.nodes import add_node
from support.changes_world import message
from support.device_objects import device_class, devices
from support.engine_world import container, pod
from support.volume_world import claim, csi_node, volume
from support.whatif_world import node, owned, world

FEATURE = "UserNamespacesHostNetworkSupport"
GPU = "example.com/gpu"


def _features() -> tuple[list[Any], Any]:
    other = node("other")
    other.status.declared_features.append(FEATURE)
    own = {"containers": [container({"cpu": "1"})], "hostNetwork": True, "hostUsers": False}
    return [node("first"), other], pod("p", own)


def _devices_of_an_extended_resource() -> tuple[list[Any], Any]:
    objects = [node("first"), node("other"), device_class(resource=GPU), devices("other", 2)]
    return objects, pod("p", {"containers": [container({"cpu": "1", GPU: "1"})]})


def _limits_of_volumes() -> tuple[list[Any], Any]:
    driver = {"driver": "csi.example.com", "volumeHandle": "h"}
    storage = [
        claim("c", volume="v"),
        volume("v", csi=driver, claimRef={"name": "c", "namespace": "default", "uid": "uid-c"}),
        csi_node("first", {"csi.example.com": 0}),
        csi_node("other", {"csi.example.com": 1}),
    ]
    own = {
        "containers": [container({"cpu": "1"})],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }
    return [node("first"), node("other"), *map(message, storage)], pod("p", own)


@pytest.mark.parametrize("made", [_features, _devices_of_an_extended_resource, _limits_of_volumes])
def test_the_node_to_add_is_like_the_one_that_differs_in_what_the_pod_needs(made: Any) -> None:
    objects, waiting = made()
    asked = world([*objects, owned("fills", "other", cpu="4"), waiting])
    found = add_node(asked.question(asked.pending()[0]))
    assert found is not None
    assert found.node == "other"
