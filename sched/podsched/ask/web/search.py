"""Pods by a part of their name or of their node's, and the namespaces that have pods."""

from __future__ import annotations

import asyncio
from collections import Counter
from heapq import nsmallest
from typing import Any

from podsched.api.objects import Pod, seconds_of
from podsched.api.resources import CPU, MEMORY
from podsched.ask.web.board import Board
from podsched.ask.web.rows import phase_of, requests_of
from podsched.ask.web.sources import Source

#: Pods and namespaces that are listed; all that match are counted.
LISTED = 100
#: Pods looked at before other tasks have their turn: some 2 ms.
_TURN = 5000


async def find_pods(source: Source, board: Board, text: str, namespace: str) -> dict[str, Any]:
    """Return the first pods whose name, or whose node's, has a text, and all namespaces.

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
