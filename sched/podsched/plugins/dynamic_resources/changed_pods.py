"""Devices on rows of a fork, where some pods were taken away and others were added.

Dry runs of preemption take pods away: a device is free again if all consumers of its claim are
among them. Nominated pods are added: they get devices before the pod that is decided on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.in_use import ClaimKey, DevicesInUse
from podsched.plugins.dynamic_resources.model import ResourceClaim
from podsched.plugins.dynamic_resources.pod_claims import (
    CLAIM,
    ClaimUnusableError,
    usable_claims,
)
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class Changed:
    """``freed``: the claims whose devices are free; ``first``: those that are allocated first."""

    freed: Collection[ClaimKey]
    first: Collection[ResourceClaim]

    def __bool__(self) -> bool:
        return bool(self.freed or self.first)


NOT_CHANGED = Changed((), ())


def changed(
    nodes: NodeColumns,
    row: int,
    in_use: DevicesInUse,
    unallocated: Callable[[PodInfo], Iterable[ResourceClaim]],
) -> Changed:
    """Return what differs on a row from its base row.

    ``unallocated`` returns the claims of a pod that are not allocated yet.
    """
    if nodes.base is nodes:
        return NOT_CHANGED
    now, before = nodes.pods(row), nodes.base.pods(int(nodes.base_rows[row]))
    gone = before.keys() - now.keys()
    come = [now[uid] for uid in now.keys() - before.keys()]
    first = {(of.namespace, of.name): of for pod in come for of in unallocated(pod)}
    return Changed(in_use.freed_by(gone) if gone else (), tuple(first.values()))


def without_users(claims: Iterable[v1.ResourceClaim], cluster: ClusterView) -> list[ClaimKey]:
    """Return the allocated claims that had users, of which none is left or will stay."""
    return [
        (claim.metadata.namespace, claim.metadata.name)
        for claim in claims
        if claim.status.reserved_for
        and not any(
            _stays(claim.metadata.namespace, consumer, cluster)
            for consumer in claim.status.reserved_for
        )
    ]


def _stays(
    namespace: str, consumer: v1.ResourceClaimConsumerReference, cluster: ClusterView
) -> bool:
    if consumer.api_group or consumer.resource != "pods":
        return True
    pod: v1.Pod | None = cluster.get("Pod", namespace, consumer.name)
    if pod is None or pod.metadata.uid != consumer.uid:
        return False
    return not pod.metadata.HasField("deletion_timestamp")


def unallocated_claims(pod: PodInfo, cluster: ClusterView) -> list[v1.ResourceClaim]:
    """Return the claims of a pod that are neither allocated nor about to be; none if one is bad."""
    try:
        claims = usable_claims(pod, cluster)
    except ClaimUnusableError:
        return []
    assumed = cluster.assumed(CLAIM)
    now = (assumed.get(of.metadata.namespace, of.metadata.name) for of in claims)
    return [of for of in now if of is not None and not of.status.HasField("allocation")]
