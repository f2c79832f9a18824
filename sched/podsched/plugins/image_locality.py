"""ImageLocality: nodes that have the pod's images score higher (kube-scheduler v1.36).

Each image counts its size times the share of nodes that have it; the sum is scaled between 23 MiB
and 1000 MiB per container to 0..100.
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

MIN_THRESHOLD = 23 * 1024 * 1024
MAX_CONTAINER_THRESHOLD = 1000 * 1024 * 1024


class ImageLocality(WithoutArgs):
    """Score: the sizes of the images that are already there."""

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
        """Return the images that some node has, and how many containers share the limit."""
        nodes = cluster.nodes
        there = tuple(image for image in self.images(pod.cls) if len(nodes.image_rows(image)[0]))
        return (there, _containers(pod.cls)) if there else ()

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
        """Return for all rows the sizes of the images there, each times its share, in bytes."""
        present: list[tuple[str, float]] = state.data[self.name]
        sums = np.zeros(nodes.size, dtype=np.int64)
        for image, share in present:
            holders, sizes = nodes.image_rows(image)
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
    spec = cls.spec_parts.bare
    return len(spec.containers) + len(spec.init_containers)
