"""NodeResourcesFit's score of placements: MostAllocated over the sums of each placement's nodes.

As in kube-scheduler v1.36, it is MostAllocated for every scoring strategy, and is not normalised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.api.resources import CPU, MEMORY
from podsched.framework.nodes import NodeColumns
from podsched.framework.pod_groups import TriedPlacement
from podsched.framework.verdicts import Rows, Scores
from podsched.plugins.node_resources.resource_amounts import ResourceColumn, WeightedResource
from podsched.plugins.node_resources.scoring_strategies import most_allocated


def score_placements(
    nodes: NodeColumns, tried: Sequence[TriedPlacement], resources: Sequence[WeightedResource]
) -> Scores:
    """Return the scores of the placements, 0 to 100, shape ``(len(tried),)``."""
    rows = [one.placement.rows(nodes) for one in tried]
    return most_allocated([_column(nodes, tried, rows, resource) for resource in resources])


def _column(
    nodes: NodeColumns,
    tried: Sequence[TriedPlacement],
    rows: Sequence[Rows],
    resource: WeightedResource,
) -> ResourceColumn:
    name = resource.name
    source = nodes.nonzero_requested(name) if name in (CPU, MEMORY) else nodes.requested(name)
    used = np.array([source[some].sum() for some in rows], dtype=np.int64)
    added = [sum(pod.cls.amounts.scored.get(name, 0) for pod, _ in one.pods) for one in tried]
    allocatable = nodes.allocatable(name)
    total = np.array([allocatable[some].sum() for some in rows], dtype=np.int64)
    return ResourceColumn(resource.weight, used, used + np.array(added, dtype=np.int64), total)
