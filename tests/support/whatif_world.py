"""Small clusters for tests of what would happen if."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podsched.api.objects import AnyObject, PodDisruptionBudget
from podsched.ask.whatif.world import World
from podsched.config.load import load_config
from podsched.registry import factories
from podsched.v1 import objects_pb2 as v1
from support.engine_world import container, node, pod

__all__ = ["budget", "node", "owned", "world"]


def world(objects: Sequence[AnyObject], config: Mapping[str, Any] | None = None) -> World:
    """A world of objects, with the default configuration."""
    return World.of_objects(objects, load_config(dict(config or {})), factories())


def owned(
    name: str, node_name: str = "", cpu: str = "1", *, owner: str = "web", **parts: Any
) -> v1.Pod:
    """A pod with a label app and a controller of that name; none for an owner of ""."""
    metadata: dict[str, Any] = {"labels": {"app": owner}} | parts.pop("metadata", {})
    if owner:
        kind = parts.pop("kind", "ReplicaSet")
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}"}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    spec = {"containers": [container({"cpu": cpu})], **parts}
    made = pod(name, spec, **metadata)
    made.spec.node_name = node_name
    return made


def budget(app: str, **spec: Any) -> PodDisruptionBudget:
    """A budget without a status for the pods with a label app."""
    item = PodDisruptionBudget()
    item.metadata.name, item.metadata.namespace = app, "default"
    item.spec.selector.match_labels["app"] = app
    for name, value in spec.items():
        setattr(item.spec, name, value)
    return item
