"""PostFilter: finds an allocated claim that keeps its pod from nodes and that no other pod uses."""

from __future__ import annotations

import numpy as np

from podsched.api.device_claims import is_of_group
from podsched.api.node_selectors import compile_node_selector
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.plugins.dynamic_resources.failures import Failures
from podsched.plugins.dynamic_resources.pod_claims import member_uids, usable_claims
from podsched.plugins.rows.matching import match_terms
from podsched.v1 import objects_pb2 as v1


def hindering_claim(
    pod: PodInfo, cluster: ClusterView, rows: Rows, failures: Failures
) -> v1.ResourceClaim | None:
    """Return the first idle claim of the pod because of which Filter rejected some of the rows."""
    for claim in usable_claims(pod, cluster):
        if not claim.status.HasField("allocation") or not _is_idle(claim, pod, cluster):
            continue
        if _hinders(claim, cluster.nodes, rows, failures):
            return claim
    return None


def _hinders(claim: v1.ResourceClaim, nodes: NodeColumns, rows: Rows, failures: Failures) -> bool:
    """Return whether Filter rejected some of the rows because of the claim."""
    if not len(rows) or failures.is_unprepared(claim):
        return bool(len(rows))
    if not claim.status.allocation.HasField("node_selector"):
        return False
    terms = compile_node_selector(claim.status.allocation.node_selector)
    return not match_terms(terms, nodes, rows).all()


def _is_idle(claim: v1.ResourceClaim, pod: PodInfo, cluster: ClusterView) -> bool:
    """Return whether a claim is reserved only for the pod and waiting members of its PodGroup."""
    members = member_uids(pod, cluster)
    others: set[str] = set()
    for consumer in claim.status.reserved_for:
        others |= members if is_of_group(pod.pod, consumer) else {consumer.uid}
    others.discard(pod.uid)
    if not others or not others <= members:
        return not others
    nodes = cluster.nodes
    used = np.flatnonzero(nodes.alive & (nodes.pod_count > 0)).tolist()
    return all(others.isdisjoint(nodes.pods(row)) for row in used)
