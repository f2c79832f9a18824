"""ImageLocalityPriority: nodes that have the images of the pod's containers.

Formula: kube-scheduler v1.16 ``priorities/image_locality.go``: each image counts its size times the
share of nodes that have it; the sum, kept between 23 MiB and 1000 MiB, is worth 0 to 10 points.
Init containers do not count, nor does the number of containers.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Final, cast

import numpy as np

from podsched.framework.nodes import ClusterView, NodeColumns, normalized_image_name
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.plugins.legacy.points import MAX_PRIORITY, as_scores
from podsched.plugins.without_args import WithoutArgs

MIN_THRESHOLD: Final = 23 * 1024 * 1024
MAX_THRESHOLD: Final = 1000 * 1024 * 1024


class ImageLocalityPriority(WithoutArgs):
    """Score: the sizes of the images that are already there."""

    name: ClassVar[str] = "ImageLocalityPriority"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True, reads_pods=False, depends_on_feasible=False
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the images that some node has."""
        nodes = cluster.nodes
        return tuple(image for image in _images(pod.cls) if len(nodes.image_rows(image)[0]))

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return how many nodes there are, and how many of them have each image."""
        nodes = cluster.nodes
        spread = tuple(len(nodes.image_rows(image)[0]) for image in _images(pod.cls))
        return (int(np.count_nonzero(nodes.alive)) if any(spread) else 0, spread)

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Store (image, share of the nodes that have it) for each image that a node has."""
        nodes = cluster.nodes
        total = int(np.count_nonzero(nodes.alive))
        counted = ((image, len(nodes.image_rows(image)[0])) for image in _images(pod.cls))
        state.data[self.name] = [(image, count / total) for image, count in counted if count]
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0, 10, ... 100."""
        sums = np.zeros(nodes.size, dtype=np.int64)
        for image, share in state.data[self.name]:
            holders, sizes = nodes.image_rows(image)
            sums[holders] += (sizes.astype(np.float64) * share).astype(np.int64)
        clamped = np.clip(sums[rows], MIN_THRESHOLD, MAX_THRESHOLD)
        span = MAX_THRESHOLD - MIN_THRESHOLD
        return as_scores(MAX_PRIORITY * (clamped - MIN_THRESHOLD) // span)


def _images(cls: PodClass) -> tuple[str, ...]:
    compiled = cls.compiled.get(ImageLocalityPriority.name)
    if compiled is None:
        names = (normalized_image_name(c.image) for c in cls.spec.containers if c.image)
        compiled = cls.compiled[ImageLocalityPriority.name] = tuple(names)
    return cast(tuple[str, ...], compiled)
