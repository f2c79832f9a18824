"""ImageLocality: nodes that have the pod's images score higher (kube-scheduler v1.36).

Formula (``framework/plugins/imagelocality``)::

    sum   = sum of size * nodes with the image / all nodes, over the pod's images on the node
    score = 100 * (clamp(sum, 23 MiB, max) - 23 MiB) / (max - 23 MiB)
    max   = 1000 MiB * number of containers and init containers

The share of nodes keeps pods from gathering on the few nodes that have a rare image.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from podsched.framework.nodes import ClusterView, Int64s, NodeColumns, normalized_image_name
from podsched.framework.plugin import MAX_NODE_SCORE, CycleState, Traits
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.plugins.without_args import WithoutArgs

#: In bytes.
MIN_THRESHOLD = 23 * 1024 * 1024
MAX_CONTAINER_THRESHOLD = 1000 * 1024 * 1024


class ImageLocality(WithoutArgs):
    """Score: the sizes of the pod's images that the node has."""

    name: ClassVar[str] = "ImageLocality"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True,
        reads_pods=False,
        depends_on_feasible=False,
        reads_requests=False,
        reads_labels=False,
        projects_placed_pods=False,
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the pod's images that some node has, and the number of containers."""
        nodes = cluster.nodes
        held = tuple(image for image in self.images(pod.cls) if len(nodes.image_rows(image)[0]))
        return (held, _containers(pod.cls)) if held else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return how many nodes there are, and how many of them have each image."""
        nodes = cluster.nodes
        spread = tuple(len(nodes.image_rows(image)[0]) for image in self.images(pod.cls))
        return (int(np.count_nonzero(nodes.alive)) if any(spread) else 0, spread)

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Store (image, share of the nodes that have it) for each image that a node has."""
        nodes = cluster.nodes
        total = int(np.count_nonzero(nodes.alive))
        counted = ((image, len(nodes.image_rows(image)[0])) for image in self.images(pod.cls))
        state.data[self.name] = [(image, count / total) for image, count in counted if count]
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0..100; 0 for a node with none of the images."""
        if not state.data[self.name]:
            return np.zeros(len(rows), dtype=np.int64)
        highest = MAX_CONTAINER_THRESHOLD * _containers(pod.cls)
        sums = self.image_sums(state, nodes)[rows]
        clamped = np.minimum(np.maximum(sums, MIN_THRESHOLD), highest)
        return MAX_NODE_SCORE * (clamped - MIN_THRESHOLD) // (highest - MIN_THRESHOLD)

    def image_sums(self, state: CycleState, nodes: NodeColumns) -> Int64s:
        """Return the formula's sum for each row, in bytes, shape ``(size,)``."""
        present: list[tuple[str, float]] = state.data[self.name]
        sums = np.zeros(nodes.size, dtype=np.int64)
        for image, share in present:
            holders, sizes = nodes.image_rows(image)
            # Truncated for each image, as in kube-scheduler's ``scaledImageScore``.
            sums[holders] += (sizes.astype(np.float64) * share).astype(np.int64)
        return sums

    def images(self, cls: PodClass) -> tuple[str, ...]:
        """Return the normalized names of the pod's images, repetitions included."""
        compiled = cls.shape.without_labels.compiled
        found: tuple[str, ...] | None = compiled.get(self.name)
        if found is None:
            names = self.image_names(cls)
            found = tuple(normalized_image_name(name) for name in names if name)
            compiled[self.name] = found
        return found

    def image_names(self, cls: PodClass) -> list[str]:
        """Return the images of init containers, containers and image volumes, as written."""
        spec = cls.spec_parts.bare
        names = [c.image for c in (*spec.init_containers, *spec.containers)]
        return names + [v.image.reference for v in cls.volumes if v.HasField("image")]


def _containers(cls: PodClass) -> int:
    """Return the number of containers; image volumes do not count, as in kube-scheduler."""
    spec = cls.spec_parts.bare
    return len(spec.containers) + len(spec.init_containers)
