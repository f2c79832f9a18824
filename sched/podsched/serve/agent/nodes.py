"""Makes the Node objects of hollow nodes, from a shape or manifests, and repairs their conditions.

Pure: Node messages in and out, ``now`` in Unix seconds. An existing node of the same name is
adopted; only the label of hollow nodes and conditions without a current reporter (Unknown, or a
missing Ready) change. A Ready=False of another writer is kept, so that NotReady nodes can be
simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from podsched import __version__
from podsched.api.codec import write
from podsched.api.conditions import FALSE, NODE_READY, TRUE, UNKNOWN
from podsched.api.hollow_nodes import (
    DEVICES_ANNOTATION,
    HOLLOW_LABEL,
    HOLLOW_TEXT,
    BadDevicesError,
    is_hollow,
    slices_of,
)
from podsched.api.node_labels import ARCH, BETA_OF, HOSTNAME, OS, ZONE
from podsched.api.objects import Node, NodeCondition, copy_of, timestamp
from podsched.config.settings import AgentSettings

COUNT_ANNOTATION = "podsched.io/count"
#: Max nodes per manifest: each uses memory here, in etcd and in every replica.
MAX_COPIES = 100_000
SILENCE_ANNOTATION = "podsched.io/silence"
_STANDARD_LABELS = {OS: "linux", ARCH: "amd64"}

_READY = (TRUE, "KubeletReady", HOLLOW_TEXT)
_HEALTHY = {
    NODE_READY: _READY,
    "MemoryPressure": (
        FALSE,
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    "DiskPressure": (FALSE, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": (FALSE, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


class BadNode(ValueError):
    """An invalid node manifest."""


class AgentError(Exception):
    """The API rejected a node that the agent was to register."""


def nodes_of_settings(settings: AgentSettings) -> list[Node]:
    """Return the nodes of the settings: prefix0000, prefix0001, ..., with zones in turn."""
    nodes = []
    for index in range(settings.nodes):
        node = Node()
        node.metadata.name = f"{settings.node_name_prefix}{index:04d}"
        if settings.node_devices:
            node.metadata.annotations[DEVICES_ANNOTATION] = ",".join(settings.node_devices)
        if settings.zones:
            node.metadata.labels[ZONE] = settings.zones[index % len(settings.zones)]
        node.status.capacity["cpu"] = settings.node_cpu
        node.status.capacity["memory"] = settings.node_memory
        node.status.capacity["pods"] = str(settings.node_pods)
        nodes.append(node)
    return nodes


def nodes_of_manifests(manifests: Iterable[Node]) -> list[Node]:
    """Return the nodes of manifests, each as many times as its annotation says.

    Raises ``BadNode`` if a count is not a number, devices are named in a wrong way, or two nodes
    have the same name.
    """
    nodes: dict[str, Node] = {}
    for manifest in manifests:
        for node in _copies(manifest):
            if node.metadata.name in nodes:
                raise BadNode(f'node "{node.metadata.name}" occurs twice')
            nodes[node.metadata.name] = node
    return list(nodes.values())


def _copies(manifest: Node) -> Iterable[Node]:
    name = manifest.metadata.name
    try:
        slices_of(manifest)
    except BadDevicesError as why:
        raise BadNode(f'node "{name}": {DEVICES_ANNOTATION}: {why}') from why
    text = manifest.metadata.annotations.get(COUNT_ANNOTATION)
    if text is None:
        yield _copy(manifest, name)
        return
    if not (text.isascii() and text.isdigit()):
        raise BadNode(f'node "{name}": {COUNT_ANNOTATION} must be a number, not "{text[:40]}"')
    if len(text) > 9 or int(text) > MAX_COPIES:
        raise BadNode(f'node "{name}": {COUNT_ANNOTATION} must be at most {MAX_COPIES}')
    for index in range(int(text)):
        node = _copy(manifest, f"{name}-{index}")
        del node.metadata.annotations[COUNT_ANNOTATION]
        node.metadata.labels[HOSTNAME] = node.metadata.name
        yield node


def _copy(manifest: Node, name: str) -> Node:
    node = copy_of(manifest)
    node.metadata.name = name
    return node


def registration(node: Node, now: float) -> Node:
    """Return a copy of a node as its kubelet registers it, with labels, capacity and conditions."""
    new = _copy(node, node.metadata.name)
    labels = new.metadata.labels
    for key, value in {**_STANDARD_LABELS, HOSTNAME: node.metadata.name}.items():
        if key not in labels:
            labels[key] = value
    for stable, beta in BETA_OF.items():
        labels[beta] = labels[stable]
    labels[HOLLOW_LABEL] = "true"
    status = new.status
    if not status.node_info.kubelet_version:
        # kubectl shows it as the node's VERSION.
        status.node_info.kubelet_version = f"hollow-{__version__}"
    for filled, given in (
        (status.capacity, node.status.allocatable),
        (status.allocatable, node.status.capacity),
    ):
        if not filled:
            filled.update(dict(given))
    given_conditions = {condition.type for condition in status.conditions}
    for type_ in _HEALTHY:
        if type_ not in given_conditions:
            status.conditions.append(_healthy(type_, now))
    return new


def repair(node: Node, now: float, *, resumed: bool = False) -> dict[str, Any]:
    """Return the merge patch that a node needs; empty if none.

    It sets the label of hollow nodes and the conditions of ``repaired_conditions``.
    """
    patch: dict[str, Any] = {}
    if not is_hollow(node):
        patch["metadata"] = {"labels": {HOLLOW_LABEL: "true"}}
    if conditions := repaired_conditions(node, now, resumed=resumed):
        patch["status"] = {"conditions": [write(condition) for condition in conditions]}
    return patch


def repaired_conditions(node: Node, now: float, *, resumed: bool) -> list[NodeCondition]:
    """Return all conditions as a reporting node would set them; empty if none needs a repair.

    ``resumed``: the node reports again after a silence and becomes Ready in any case.
    """
    found = {condition.type: condition for condition in node.status.conditions}
    ready = found.get(NODE_READY)
    wrong = [c.type for c in found.values() if c.status == UNKNOWN and c.type in _HEALTHY]
    if ready is None or (resumed and ready.status != TRUE and NODE_READY not in wrong):
        wrong.append(NODE_READY)
    if not wrong:
        return []
    kept = [condition for condition in node.status.conditions if condition.type not in wrong]
    return kept + [_healthy(type_, now) for type_ in wrong]


def _healthy(type_: str, now: float) -> NodeCondition:
    status, reason, message = _HEALTHY[type_]
    stamp = timestamp(now, whole=True)
    return NodeCondition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_heartbeat_time=stamp,
        last_transition_time=stamp,
    )


def is_silent(node: Node) -> bool:
    """Return whether the node simulates a failure: no heartbeats, and its pods do not change."""
    return node.metadata.annotations.get(SILENCE_ANNOTATION) == "true"
