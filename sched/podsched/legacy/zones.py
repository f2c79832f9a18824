"""The zone of each row, as region and zone together.

Rule: kube-scheduler v1.16 ``pkg/util/node`` GetZoneKey; the labels of today count as well.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsched.framework.nodes import ABSENT, Int64s, NodeColumns
from podsched.framework.verdicts import Rows

_REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")

NO_ZONE: Final = -1


def zone_ids(nodes: NodeColumns, rows: Rows) -> NDArray[np.intp]:
    """Return for each row the number of its zone, 0 and up; NO_ZONE without region and zone."""
    region, zone = _value(nodes, rows, _REGION), _value(nodes, rows, _ZONE)
    none = nodes.value_id("")
    # Added, because the id of a value that no node has is negative: "|" would set all bits.
    pairs = (region << np.int64(32)) + zone
    _, ids = np.unique(pairs, return_inverse=True)
    return np.where((region == none) & (zone == none), NO_ZONE, ids.reshape(-1))


def _value(nodes: NodeColumns, rows: Rows, keys: tuple[str, str]) -> Int64s:
    """Return the ids of the first label's values, else of the second's, else of ""."""
    first, second = (nodes.label(key)[rows].astype(np.int64) for key in keys)
    found = np.where(first != ABSENT, first, second)
    return np.where(found != ABSENT, found, nodes.value_id(""))
