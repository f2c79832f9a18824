"""Details of a node, a pod or a pod group, and the search for pods, for the page.

Annotations, environments and volumes are left out, because they may contain secrets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any, Final

from podsched.api.device_claims import claim_names, known_claim_names, newest_slices
from podsched.api.objects import (
    Condition,
    Device,
    Node,
    NodeCondition,
    Pod,
    PodCondition,
    PodGroup,
    ResourceClaim,
    ResourceSlice,
    seconds_of,
)
from podsched.api.pod_groups import group_key
from podsched.api.resources import CPU, MEMORY, PODS
from podsched.ask.web.board import Board
from podsched.ask.web.pod_groups import line_key
from podsched.ask.web.rows import MOST_AMOUNT, node_row, phase_of, requests_of
from podsched.ask.web.sources import Source
from podsched.lib.event_loop import Turn

#: Max pods of a node that are listed; the kubelet's default limit is 110.
MOST_PODS = 500
#: Max devices of a node that are listed, and max attributes and capacities of each.
MOST_DEVICES: Final = 256
MOST_VALUES: Final = 8
#: Driver, pool and name.
_Device = tuple[str, str, str]


def node_details(source: Source, board: Board, name: str) -> dict[str, Any] | None:
    """Return a node with its pods; None if there is none."""
    node = source.get("Node", name)
    if not isinstance(node, Node):
        return None
    keys = board.pods_on(name)
    pods = [
        (key, pod) for key in keys[:MOST_PODS] if isinstance(pod := source.get("Pod", key), Pod)
    ]
    row = node_row(node)
    devices, device_count = devices_of_node(source, board, name, pods)
    return {
        "name": name,
        "zone": row.zone,
        "state": row.state,
        "created": seconds_of(node.metadata.creation_timestamp),
        "labels": dict(sorted(node.metadata.labels.items())),
        "taints": [
            f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}"
            for t in node.spec.taints
        ],
        "conditions": _rows_of(node.status.conditions),
        "allocatable": _in_order(row.allocatable),
        "pods": [
            [key, pod.status.phase, pod.spec.priority, _in_order(requests_of(pod))]
            for key, pod in pods
        ],
        "podCount": len(keys),
        "devices": devices,
        "deviceCount": device_count,
    }


def pod_details(source: Source, board: Board, key: str) -> dict[str, Any] | None:
    """Return a pod with its conditions and latest events; None if there is none."""
    pod = source.get("Pod", key)
    if not isinstance(pod, Pod):
        return None
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return {
        "key": key,
        "phase": phase_of(pod),
        "group": group_key(pod),
        "node": spec.node_name,
        "nominated": status.nominated_node_name,
        "created": seconds_of(meta.creation_timestamp),
        "priority": spec.priority,
        "scheduler": spec.scheduler_name,
        "labels": dict(sorted(meta.labels.items())),
        "requests": _in_order(requests_of(pod)),
        "claims": claims_of_pod(source, pod),
        "gates": [gate.name for gate in spec.scheduling_gates],
        "conditions": _rows_of(status.conditions),
        "events": board.lists.events_of(f"Pod {key}"),
    }


#: Max members of a group that are listed, those without a node first.
MOST_MEMBERS = 50


def pod_group_details(source: Source, board: Board, key: str) -> dict[str, Any] | None:
    """Return a pod group with its first members and latest events; None if there is none.

    A group without a PodGroup object, known only from its members, has no conditions and no labels.
    A row of ``listed`` is key, phase, node.
    """
    line = board.groups.lines.get(key)
    if line is None:
        return None
    row, group = line.row, source.get("PodGroup", key)
    stored = group if isinstance(group, PodGroup) else PodGroup()
    members = board.members(key)
    first = nsmallest(MOST_MEMBERS, members, key=lambda member: (bool(member[1]), member[0]))
    pods = [(member, source.get("Pod", member)) for member, _ in first]
    return {
        "key": key,
        "state": row.reason,
        "message": row.message,
        "policy": row.policy,
        "priority": row.priority,
        "created": row.since,
        "waits": line.waits,
        "withNode": row.with_node,
        "members": row.members,
        "ended": len(members) - row.members,
        "topology": [one.key for one in stored.spec.scheduling_constraints.topology],
        "requests": _in_order(board.groups.requested.get(key, Counter())),
        "listed": [
            [member, phase_of(pod), pod.spec.node_name]
            for member, pod in pods
            if isinstance(pod, Pod)
        ],
        "hidden": len(members) - len(first),
        "labels": dict(sorted(stored.metadata.labels.items())),
        "conditions": _rows_of(stored.status.conditions),
        "events": board.lists.events_of(line_key(key)),
    }


def _rows_of(conditions: Iterable[Condition | NodeCondition | PodCondition]) -> list[list[Any]]:
    """Return conditions as type, status, reason, message, Unix time of the last transition."""
    return [
        [c.type, c.status, c.reason, c.message, seconds_of(c.last_transition_time)]
        for c in conditions
    ]


def _in_order(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts with cpu, memory and pods first."""
    first = (CPU, MEMORY, PODS)
    names = sorted(amounts, key=lambda n: (n not in first, n))
    return {name: min(amounts[name], MOST_AMOUNT) for name in names}


#: Max pods, and max namespaces, that are listed; all that match are counted.
LISTED = 100


async def find_pods(source: Source, board: Board, text: str, namespace: str) -> dict[str, Any]:
    """Return the first pods whose name or node's name contains a text, and all namespaces.

    A pod group whose name contains the text is one line in place of its members.

    text: compared without case; "" matches all. namespace: "" for all. The result has ``pods``, the
    rows; ``count``, the number of pods that match; ``lines``, the number of rows without a limit.
    A pod's row is key, phase, node, millicores, MiB, Unix time of creation. A group's row is
    "PodGroup " and its key, state, "", millicores and MiB of all members, Unix time of creation,
    members with a node, members, policy.
    """
    text = text.lower()
    namespaces: Counter[str] = Counter()
    groups = board.groups.lines
    collapsed = {key for key in groups if _matches(key, "", text, namespace)}
    found = [(key, True) for key in collapsed]
    count, turn = 0, Turn()
    for key, node, group in board.pods():
        namespaces[key.partition("/")[0]] += 1
        if group in collapsed:
            count += 1
        elif _matches(key, node, text, namespace):
            count += 1
            found.append((key, False))
        if turn.is_over:
            await turn.give_way()
    rows = []
    for key, is_group in nsmallest(LISTED, found):
        row = _pod_group_found(board, key) if is_group else _pod_found(source, key)
        if row is not None:  # it has not gone meanwhile
            rows.append(row)
    return {
        "count": count,
        "lines": len(found),
        "pods": rows,
        "namespaces": [[*item] for item in nsmallest(LISTED, namespaces.items())],
    }


def _matches(key: str, node: str, text: str, namespace: str) -> bool:
    """Whether a pod or group of a namespace ("": any) has a text in its name or its node's."""
    of, _, name = key.partition("/")
    return namespace in ("", of) and (text in name.lower() or text in node.lower())


def _pod_found(source: Source, key: str) -> list[Any] | None:
    pod = source.get("Pod", key)
    if not isinstance(pod, Pod):
        return None
    requests, made = requests_of(pod), seconds_of(pod.metadata.creation_timestamp)
    resources = requests.get(CPU, 0), requests.get(MEMORY, 0)
    return [key, phase_of(pod), pod.spec.node_name, *resources, made]


def _pod_group_found(board: Board, key: str) -> list[Any] | None:
    line = board.groups.lines.get(key)
    if line is None:
        return None
    row, requests = line.row, board.groups.requested.get(key, Counter())
    resources = (min(requests.get(name, 0), MOST_AMOUNT) for name in (CPU, MEMORY))
    counts = row.with_node, row.members, row.policy
    return [line_key(key), row.reason, "", *resources, row.since, *counts]


def devices_of_node(
    source: Source, board: Board, name: str, pods: Iterable[tuple[str, Pod]]
) -> tuple[list[list[Any]], int]:
    """Return the first devices in a node's own ResourceSlices, and the number of all.

    ``pods``: the node's pods by key. A row is driver, device, its attributes and capacities by
    name, and the keys of the node's pods that use it.
    """
    users: dict[_Device, list[str]] = {}
    for key, pod in pods:
        for claim in known_claim_names(pod):
            for identity in _allocated(_claim(source, pod, claim)):
                users.setdefault(identity, []).append(key)
    found = (source.get("ResourceSlice", key) for key in board.slices_of(name))
    slices = [piece for piece in found if isinstance(piece, ResourceSlice)]
    rows = []
    for piece in newest_slices(slices):
        driver, pool_name = piece.spec.driver, piece.spec.pool.name
        for device in piece.spec.devices:
            using = users.get((driver, pool_name, device.name), [])
            rows.append([driver, device.name, _values(device), using])
    return rows[:MOST_DEVICES], len(rows)


def claims_of_pod(source: Source, pod: Pod) -> list[list[Any]]:
    """Return the claims of a pod: name in the pod's spec, name of the claim, state and devices.

    The state is missing, pending or allocated; a device is driver, pool and name.
    """
    found = []
    for reference, name in claim_names(pod):
        claim = _claim(source, pod, name)
        state = "missing" if claim is None else "pending"
        if claim is not None and claim.status.HasField("allocation"):
            state = "allocated"
        devices = [list(identity) for identity in _allocated(claim)]
        found.append([reference.name, name or "", state, devices])
    return found


def _claim(source: Source, pod: Pod, name: str | None) -> ResourceClaim | None:
    found = source.get("ResourceClaim", f"{pod.metadata.namespace}/{name}") if name else None
    return found if isinstance(found, ResourceClaim) else None


def _allocated(claim: ResourceClaim | None) -> list[_Device]:
    results = claim.status.allocation.devices.results if claim is not None else ()
    return [(of.driver, of.pool, of.device) for of in results]


def _values(device: Device) -> Mapping[str, str]:
    """Return the first attributes and capacities by name without domain."""
    values: dict[str, str] = {}
    for name, attribute in sorted(device.attributes.items()):
        for _, value in attribute.ListFields():
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            values[name.rpartition("/")[2]] = shown
    values |= {name.rpartition("/")[2]: of.value for name, of in sorted(device.capacity.items())}
    return dict(list(values.items())[:MOST_VALUES])
