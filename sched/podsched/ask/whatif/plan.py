"""Compute what applying manifests would do, and on which parts of the cluster that depends.

A plan has the writes and, for every pod to schedule, the decision. Before it is carried out, these
are checked:

* an object to be written must still be absent, or have the resourceVersion that was read;
* a node that a pod goes to, or that a victim leaves, must be unchanged with all its pods. Compared
  are *fingerprints* of what plugins read, so that heartbeats do not matter;
* everything else may change if the decisions stay the same, which are made again to find out.

Source of the idea: optimistic concurrency over a shared state (Schwarzkopf et al., Omega, EuroSys
2013), with the granularity of what was read instead of that of whole machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from podsched.api.conditions import is_finished
from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Node, Pod, PodDisruptionBudget
from podsched.ask.whatif.evacuation import Move, schedule_all
from podsched.ask.whatif.world import Outcome, World
from podsched.cache.pod_class import relevant_spec
from podsched.framework.nodes import PREFER_AVOID_PODS

#: Characters of a fingerprint: two objects out of a million are mixed up once in 300,000 plans.
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
    infos = [world.submit(pod) for pod in new]
    ours = {info.uid for info in infos}
    waiting = [pod for pod in world.pending() if pod.uid not in ours]
    outcomes, moves = schedule_all(world, world.in_queue_order([*waiting, *infos]))
    decisions = (_decision(one) for one in outcomes if one.pod.uid in ours or one.victims)
    return Forecast(tuple(decisions), tuple(moves), any(one.failed for one in outcomes))


def _decision(outcome: Outcome) -> Decision:
    victims = tuple(sorted(victim.key for victim in outcome.victims))
    return Decision(outcome.pod.key, outcome.node_name, victims, outcome.message)


def reference(obj: AnyObject) -> str:
    """Return the name of an object in a plan: Pod/default/web, Node/a."""
    meta = obj.metadata
    namespace = f"{meta.namespace}/" if meta.namespace else ""
    return f"{kind_of(obj).name}/{namespace}{meta.name}"


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
    """Return a value that changes only with the parts of the object that decisions read."""
    read = type(obj)()
    read.CopyFrom(obj)  # type: ignore[arg-type]
    meta = read.metadata
    for name in ("resource_version", "generation", "managed_fields", "creation_timestamp"):
        meta.ClearField(name)
    if isinstance(read, Node):
        _keep_of_node(read)
    elif isinstance(read, Pod):
        _keep_of_pod(read)
    elif isinstance(read, PodDisruptionBudget):
        allowed = read.status.disruptions_allowed
        read.ClearField("status")
        read.status.disruptions_allowed = allowed
    return hashlib.sha256(read.SerializeToString(deterministic=True)).hexdigest()[:_LENGTH]


def _keep_of_node(node: Node) -> None:
    """Remove what heartbeats and kubelets change in a node: conditions, addresses, versions."""
    avoided = node.metadata.annotations.get(PREFER_AVOID_PODS)
    node.metadata.ClearField("annotations")
    if avoided:
        node.metadata.annotations[PREFER_AVOID_PODS] = avoided
    # A spec that was emptied is as good as none.
    node.spec.SetInParent()
    for taint in node.spec.taints:
        taint.ClearField("time_added")
    for field, _ in node.status.ListFields():
        if field.name not in ("allocatable", "images", "declared_features"):
            node.status.ClearField(field.name)


def _keep_of_pod(pod: Pod) -> None:
    """Remove a pod's reported status, and the parts of its spec that plugins do not read."""
    kept, nominated = relevant_spec(pod.spec), pod.status.nominated_node_name
    kept.node_name = pod.spec.node_name
    resized = list(pod.status.container_statuses)
    pod.spec.CopyFrom(kept)
    pod.metadata.ClearField("annotations")
    pod.ClearField("status")
    pod.status.nominated_node_name = nominated
    for status in resized:
        if status.HasField("resources"):
            pod.status.container_statuses.add(name=status.name).resources.CopyFrom(status.resources)


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
