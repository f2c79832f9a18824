"""A change with which a pod would fit, and its forms for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from podsched.api.manifest import merge_patch, to_manifest
from podsched.ask.explain.explanation import reference
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1
from podsched.v1 import scheduling_pb2 as messages


class Kind(StrEnum):
    """The kinds of changes that can make a pod fit, each with its own cost."""

    REQUESTS = "requests"
    TOLERATION = "toleration"
    NODE_SELECTOR = "node-selector"
    AFFINITY = "affinity"
    SPREAD = "spread"
    PORT = "port"
    LABEL = "label"
    DEVICE_COUNT = "device-count"
    DEVICE_SELECTOR = "device-selector"
    DEVICE_CONSTRAINT = "device-constraint"
    GATES = "gates"
    PODS_GONE = "pods-gone"
    UNCORDON = "uncordon"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class ChangedClaim:
    """A claim before and after a change; ``template``: the one it was made from, "" for none."""

    before: v1.ResourceClaim
    after: v1.ResourceClaim
    template: str

    def name(self) -> str:
        """Return kind, namespace and name of the object to change."""
        meta = self.before.metadata
        if self.template:
            return f"ResourceClaimTemplate {meta.namespace}/{self.template}"
        return f"ResourceClaim {meta.namespace}/{meta.name}"

    def patch(self) -> Any:
        """Return the merge patch of the object to change."""
        patch = merge_patch(to_manifest(self.before), to_manifest(self.after))
        return {"spec": patch} if self.template else patch


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was tried: with it the pod fits ``nodes`` nodes, such as ``examples``.

    ``pod`` is the changed pod, ``claim`` a changed claim; None if it stays as it is. ``pods`` are
    deleted. ``node`` is uncordoned, or copied. ``cost`` can only be compared within the kind.
    ``exhaustive``: it is certain that no smaller change of the kind is enough.
    """

    kind: Kind
    description: str
    cost: float
    nodes: int
    examples: tuple[str, ...]
    pod: v1.Pod | None = None
    claim: ChangedClaim | None = None
    pods: tuple[PodInfo, ...] = ()
    node: str = ""
    exhaustive: bool = True

    def to_message(self, asked: v1.Pod) -> messages.Change:
        """Return the change as a message; ``asked`` is the unchanged pod."""
        found = messages.Change(
            kind=self.kind,
            description=self.description,
            cost=self.cost,
            nodes=self.nodes,
            examples=self.examples,
            pods=[reference(pod) for pod in self.pods],
            node=self.node,
            smaller_possible=not self.exhaustive,
        )
        if self.claim is not None:
            found.patched = self.claim.name()
            found.patch = yaml.safe_dump(self.claim.patch(), sort_keys=False)
        elif self.pod is not None:
            patch = merge_patch(to_manifest(asked), to_manifest(self.pod))
            found.patch = yaml.safe_dump(patch, sort_keys=False)
        return found
