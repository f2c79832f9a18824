"""Details of a node or a pod, and the search for pods, for the page.

Annotations, environments and volumes are left out, because they may contain secrets.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from heapq import nsmallest
from typing import Any

from podsched.api.objects import Node, Pod, seconds_of
from podsched.api.quantity import QuantityError
from podsched.api.resources import CPU, MEMORY, PODS, allocatable_in_units
from podsched.ask.web.board import Board
from podsched.ask.web.rows import in_page_units, node_state, phase_of, requests_of, zone_of
from podsched.ask.web.sources import Source

#: Pods of a node that are listed; Kubernetes' own limit is 110.
MOST_PODS = 500


def node_details(source: Source, board: Board, name: str) -> dict[str, Any] | None:
    """Return a node with its pods; None if there is none."""
    node = source.get("Node", name)
    if not isinstance(node, Node):
        return None
    keys = board.pods_on(name)
    pods = [(key, source.get("Pod", key)) for key in keys[:MOST_PODS]]
    try:
        allocatable = in_page_units(allocatable_in_units(node.status.allocatable))
    except QuantityError:
        allocatable = {}
    return {
        "name": name,
        "zone": zone_of(node),
        "state": node_state(node),
        "created": seconds_of(node.metadata.creation_timestamp),
        "labels": dict(sorted(node.metadata.labels.items())),
        "taints": [
            f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}"
            for t in node.spec.taints
        ],
        "conditions": [
            [c.type, c.status, c.reason, c.message, seconds_of(c.last_transition_time)]
            for c in node.status.conditions
        ],
        "allocatable": _in_order(allocatable),
        "pods": [
            [key, pod.status.phase, pod.spec.priority, _in_order(requests_of(pod))]
            for key, pod in pods
            if isinstance(pod, Pod)
        ],
        "podCount": len(keys),
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
        "node": spec.node_name,
        "nominated": status.nominated_node_name,
        "created": seconds_of(meta.creation_timestamp),
        "priority": spec.priority,
        "scheduler": spec.scheduler_name,
        "labels": dict(sorted(meta.labels.items())),
        "requests": _in_order(requests_of(pod)),
        "gates": [gate.name for gate in spec.scheduling_gates],
        "conditions": [
            [c.type, c.status, c.reason, c.message, seconds_of(c.last_transition_time)]
            for c in status.conditions
        ],
        "events": board.events_of(f"Pod {key}"),
    }


def _in_order(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts with cpu, memory and pods first."""
    first = (CPU, MEMORY, PODS)
    return {name: amounts[name] for name in sorted(amounts, key=lambda n: (n not in first, n))}


#: Pods and namespaces that are listed; all that match are counted.
LISTED = 100
#: Pods looked at before other tasks have their turn: some 2 ms.
_TURN = 5000


async def find_pods(source: Source, board: Board, text: str, namespace: str) -> dict[str, Any]:
    """Return the first pods whose name or node's name contains a text, and all namespaces.

    text: in any case; "" matches all. namespace: "" for all. A row of ``pods`` is key, phase, node,
    millicores, MiB, and the Unix time of creation.
    """
    text = text.lower()
    namespaces: Counter[str] = Counter()
    found = []
    for count, (key, node) in enumerate(board.pods(), 1):
        in_namespace, _, name = key.partition("/")
        namespaces[in_namespace] += 1
        if namespace in ("", in_namespace) and (text in name.lower() or text in node.lower()):
            found.append(key)
        if not count % _TURN:
            await asyncio.sleep(0)
    rows = []
    for key in nsmallest(LISTED, found):
        pod = source.get("Pod", key)
        if not isinstance(pod, Pod):
            continue  # it has gone meanwhile
        requests = requests_of(pod)
        made = seconds_of(pod.metadata.creation_timestamp)
        resources = requests.get(CPU, 0), requests.get(MEMORY, 0)
        rows.append([key, phase_of(pod), pod.spec.node_name, *resources, made])
    shown = nsmallest(LISTED, namespaces.items())
    return {"count": len(found), "pods": rows, "namespaces": [[*item] for item in shown]}
