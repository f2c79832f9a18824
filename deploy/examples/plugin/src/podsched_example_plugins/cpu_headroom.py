"""CpuHeadroom: a share of each node's CPU stays free; nodes with more of it left score higher.

A columnar plugin: it computes on all rows it is asked about at once. That is what makes a plugin
fast enough for thousands of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from podsched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from podsched.framework.nodes import Int64s, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts

REASON = "node(s) had too little CPU headroom"
DEFAULT_PERCENT = 10


class CpuHeadroom:
    """Filter: with the pod, ``percent`` of the allocatable CPU are still free. Score: what is."""

    name: ClassVar[str] = "CpuHeadroom"
    #: It reads sums over the pods of a node, which spares asking it anew for each of many pods.
    traits: ClassVar[Traits] = Traits(reads_pods=False)

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        """``args`` is what the configuration's pluginConfig says: ``{"percent": 0..100}``.

        Raises ValueError for anything else; the scheduler then does not start and says why.
        """
        given = dict(args or {})
        percent = given.pop("percent", DEFAULT_PERCENT)
        if given:
            raise ValueError(f"unknown arguments: {', '.join(sorted(given))}")
        if isinstance(percent, bool) or not isinstance(percent, int) or not 0 <= percent <= 100:
            raise ValueError(f"percent: {percent!r} is not a whole number from 0 to 100")
        self._percent = percent

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject the rows on which too little would stay free."""
        allocatable = nodes.allocatable("cpu")[rows]
        free = _free_after(pod, nodes, rows)
        verdicts = Verdicter(len(rows))
        verdicts.flag(100 * free < self._percent * allocatable, Code.UNSCHEDULABLE, REASON)
        return verdicts.done()

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return the share of the CPU that would stay free, from 0 to 100."""
        allocatable = np.maximum(nodes.allocatable("cpu")[rows], 1)
        return np.maximum(_free_after(pod, nodes, rows), 0) * MAX_NODE_SCORE // allocatable

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Try a rejected pod again when pods leave or shrink and when nodes appear or grow."""
        pods = ClusterEvent(Resource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        nodes = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        return [ClusterEventWithHint(pods), ClusterEventWithHint(nodes)]


def _free_after(pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Int64s:
    """Milli-CPU that would be free with the pod there; negative where it does not fit."""
    taken = nodes.requested("cpu")[rows] + pod.cls.requests.get("cpu", 0)
    return nodes.allocatable("cpu")[rows] - taken
