"""ImageLocalityPriority: nodes that have the images of the pod's containers.

Formula: kube-scheduler v1.16 ``priorities/image_locality.go``: each image counts its size times the
share of nodes that have it; the sum, kept between 23 MiB and 1000 MiB, is worth 0 to 10 points.
Init containers do not count, nor does the number of containers.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores
from podsched.plugins.image_locality import MIN_THRESHOLD, ImageLocality

MAX_THRESHOLD: Final = 1000 * 1024 * 1024


class ImageLocalityPriority(ImageLocality):
    """Score: the sizes of the images that are already there."""

    name: ClassVar[str] = "ImageLocalityPriority"

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the images that some node has."""
        nodes = cluster.nodes
        return tuple(image for image in self.images(pod.cls) if len(nodes.image_rows(image)[0]))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0, 10, ... 100."""
        clamped = np.clip(self.image_sums(state, nodes)[rows], MIN_THRESHOLD, MAX_THRESHOLD)
        span = MAX_THRESHOLD - MIN_THRESHOLD
        return as_scores(MAX_PRIORITY * (clamped - MIN_THRESHOLD) // span)

    def image_names(self, cls: PodClass) -> list[str]:
        """Return the images of containers alone, as written."""
        return [container.image for container in cls.spec_parts.bare.containers]
