"""Compute the effects of applying manifests, and record the parts of the cluster they depend on.

A plan has the writes and, for every pod to schedule, the decision. Before it is carried out, these
are checked:

* an object to be written must still be absent, or unchanged except for its status;
* a node that a pod goes to, or that a victim leaves, must be unchanged, and so must all its pods.
  *Fingerprints* of the fields that plugins read are compared, so that heartbeats do not matter;
* everything else may have changed if the decisions, which are made again, are still the same.

Source of the idea: optimistic concurrency over a shared state (Schwarzkopf et al., Omega, EuroSys
2013), with the granularity of what was read instead of that of whole machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from podsched.api.conditions import is_finished
from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Node, Pod, PodDisruptionBudget, object_key
from podsched.api.resources import is_resize_infeasible
from podsched.ask.whatif.deciding import Outcome
from podsched.ask.whatif.evacuation import Move, schedule_all
from podsched.ask.whatif.world import World
from podsched.cache.pod_class import relevant_spec
from podsched.framework.nodes import PREFER_AVOID_PODS
from podsched.v1.objects_pb2 import ContainerStatus, PodStatus

#: Hex digits of a fingerprint (64 bits). The probability that any two of a million objects have the
#: same one is 1 in 37 million.
_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Decision:
    """The node of a pod ("" if none, with the reason), and the victims of its preemption."""

    pod: str
    node: str
    victims: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The result of scheduling: the decisions, and the outcomes for victims."""

    decisions: tuple[Decision, ...]
    moves: tuple[Move, ...] = ()
    failed: bool = False

    @property
    def touched(self) -> set[str]:
        """The names of the nodes that the decisions change."""
        return {decision.node for decision in self.decisions if decision.node}


def forecast(world: World, new: Sequence[Pod]) -> Forecast:
    """Schedule new pods together with pending ones, in the queue's order; changes the world.

    Returns the result for the new pods.
    """
    infos = [world.changes.submit(pod) for pod in new]
    ours = {info.uid for info in infos}
    waiting = [pod for pod in world.pending() if pod.uid not in ours]
    outcomes, moves = schedule_all(world, world.profiles.in_queue_order([*waiting, *infos]))
    decisions = (_decision(one) for one in outcomes if one.pod.uid in ours or one.victims)
    return Forecast(tuple(decisions), tuple(moves), any(one.failed for one in outcomes))


def _decision(outcome: Outcome) -> Decision:
    victims = tuple(sorted(victim.key for victim in outcome.victims))
    return Decision(outcome.pod.key, outcome.node_name, victims, outcome.message)


def reference(obj: AnyObject) -> str:
    """Return the name of an object in a plan: Pod/default/web, Node/a."""
    return f"{kind_of(obj).name}/{object_key(obj)}"


def fingerprints(objects: Iterable[AnyObject]) -> dict[str, str]:
    """Return a fingerprint of the parts of each object that decisions read, by reference.

    Ended pods have none, because a scheduler ignores them.
    """
    return {
        reference(obj): fingerprint(obj)
        for obj in objects
        if not (isinstance(obj, Pod) and is_finished(obj))
    }


def fingerprint(obj: AnyObject) -> str:
    """Return a value that changes only if a field that decisions read changes."""
    read = deepcopy(obj)
    meta = read.metadata
    for name in ("resource_version", "generation", "managed_fields", "creation_timestamp"):
        meta.ClearField(name)
    if isinstance(read, Node):
        _strip_node(read)
    elif isinstance(read, Pod):
        _strip_pod(read)
    elif isinstance(read, PodDisruptionBudget):
        allowed = read.status.disruptions_allowed
        read.ClearField("status")
        read.status.disruptions_allowed = allowed
    return hashlib.sha256(read.SerializeToString(deterministic=True)).hexdigest()[:_LENGTH]


def _strip_node(node: Node) -> None:
    """Remove fields that kubelets update and plugins do not read: conditions, addresses, ..."""
    avoided = node.metadata.annotations.get(PREFER_AVOID_PODS)
    node.metadata.ClearField("annotations")
    if avoided:
        node.metadata.annotations[PREFER_AVOID_PODS] = avoided
    # A node without a spec must have the same fingerprint as one whose spec is empty.
    node.spec.SetInParent()
    for taint in node.spec.taints:
        taint.ClearField("time_added")
    for field, _ in node.status.ListFields():
        if field.name not in ("allocatable", "images", "declared_features"):
            node.status.ClearField(field.name)


def _strip_pod(pod: Pod) -> None:
    """Remove the parts of a pod's spec and status that plugins do not read."""
    infeasible = is_resize_infeasible(pod)
    kept, reported = relevant_spec(pod.spec), PodStatus()
    reported.CopyFrom(pod.status)
    kept.node_name = pod.spec.node_name
    pod.spec.CopyFrom(kept)
    pod.metadata.ClearField("annotations")
    pod.ClearField("status")
    pod.status.nominated_node_name = reported.nominated_node_name
    # During an in-place resize, requests depend on these parts of the status.
    for field in ("container_statuses", "init_container_statuses"):
        getattr(pod.status, field).extend(
            ContainerStatus(
                name=status.name,
                resources=status.resources,
                allocated_resources=status.allocated_resources,
            )
            for status in getattr(reported, field)
            if status.HasField("resources")
        )
    if reported.HasField("resources"):
        pod.status.resources.CopyFrom(reported.resources)
    pod.status.allocated_resources.update(reported.allocated_resources)
    if infeasible:
        pod.status.conditions.add(type="PodResizePending", reason="Infeasible")


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return how objects differ from what was read: "changed", "gone" or "new", by reference."""
    found = {}
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            found[name] = "gone"
        elif name not in before:
            found[name] = "new"
        elif before[name] != now[name]:
            found[name] = "changed"
    return found


def on_nodes(objects: Iterable[AnyObject], names: set[str]) -> set[str]:
    """Return the references of nodes and of the pods on them."""
    return {
        reference(obj)
        for obj in objects
        if (isinstance(obj, Node) and obj.metadata.name in names)
        or (isinstance(obj, Pod) and obj.spec.node_name in names and not is_finished(obj))
    }
