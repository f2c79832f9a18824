"""Priorities that score like a plugin of today, but on the scale of priorities.

Formulas: kube-scheduler v1.16 ``algorithm/priorities``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from podsched.config.plugin_args import NodeAffinityArgs
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Handle
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores, normalize_reduce
from podsched.plugins.image_locality import MIN_THRESHOLD, ImageLocality
from podsched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from podsched.plugins.node_affinity import NodeAffinity
from podsched.plugins.taint_toleration import TaintToleration

MAX_THRESHOLD: Final = 1000 * 1024 * 1024


class NodeAffinityPriority(NodeAffinity):
    """Score: the sum of the weights of matching preferred terms; the highest gets 10 points."""

    name: ClassVar[str] = "NodeAffinityPriority"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(NodeAffinityArgs(), handle)

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return normalize_reduce(scores)


class TaintTolerationPriority(TaintToleration):
    """Score: ``10 * (1 - count / max)`` of untolerated PreferNoSchedule taints."""

    name: ClassVar[str] = "TaintTolerationPriority"

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return normalize_reduce(scores, reverse=True)


class InterPodAffinityPriority(InterPodAffinity):
    """Score: ``10 * (sum - min) / (max - min)`` of InterPodAffinity's sums.

    ``min`` and ``max`` start at 0. So only the highest sum gets 10 points, and only if it is
    positive; 0 points need the lowest sum, or a sum of 0.
    """

    name: ClassVar[str] = "InterPodAffinityPriority"

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        lowest, highest = int(scores.min(initial=0)), int(scores.max(initial=0))
        if lowest == highest:
            return np.zeros_like(scores)
        share = (scores - lowest).astype(np.float64) / float(highest - lowest)
        return as_scores(float(MAX_PRIORITY) * share)


class ImageLocalityPriority(ImageLocality):
    """Score: the sizes of the pod's images on the node, each times the share of nodes with it.

    The sum, clamped to 23 MiB to 1000 MiB, gives 0 to 10 points. Images of init containers do not
    count, nor does the number of containers.
    """

    name: ClassVar[str] = "ImageLocalityPriority"

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        nodes = cluster.nodes
        return tuple(image for image in self.images(pod.cls) if len(nodes.image_rows(image)[0]))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        clamped = np.clip(self.image_sums(state, nodes)[rows], MIN_THRESHOLD, MAX_THRESHOLD)
        span = MAX_THRESHOLD - MIN_THRESHOLD
        return as_scores(MAX_PRIORITY * (clamped - MIN_THRESHOLD) // span)

    def image_names(self, cls: PodClass) -> list[str]:
        return [container.image for container in cls.spec_parts.bare.containers]
