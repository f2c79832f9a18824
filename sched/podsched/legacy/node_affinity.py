"""NodeAffinityPriority: nodes that the pod's preferred node affinity matches.

Formula: kube-scheduler v1.16 ``priorities/node_affinity.go``: the sum of the weights of the terms
that match; the highest sum is worth 10 points.
"""

from __future__ import annotations

from typing import ClassVar

from podsched.config.plugin_args import NodeAffinityArgs
from podsched.framework.plugin import CycleState, Handle
from podsched.framework.verdicts import Scores
from podsched.legacy.points import normalize_reduce
from podsched.plugins.node_affinity import NodeAffinity


class NodeAffinityPriority(NodeAffinity):
    """NodeAffinity's Score, on the scale of priorities."""

    name: ClassVar[str] = "NodeAffinityPriority"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(NodeAffinityArgs(), handle)

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Map the highest sum to 10 points."""
        return normalize_reduce(scores)
