"""Devices on rows of a fork, on which pods were removed or added.

Dry runs of preemption remove pods: a device is free again if all consumers of its claim are among
them. Filtering with nominated pods adds these pods: they get devices before the pod to schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.in_use import ClaimKey, DevicesInUse
from podsched.plugins.dynamic_resources.model import ResourceClaim
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class Changed:
    """The effect of removed and added pods on devices.

    ``freed``: allocated claims whose devices are free then. ``first``: claims of added pods, which
    are allocated before those of the pod to schedule.
    """

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
    """Return the effect on devices of the pods by which a row differs from its base row.

    ``unallocated`` returns the claims of a pod that are not allocated yet.
    """
    if nodes.base is nodes:
        return NOT_CHANGED
    now, before = nodes.pods(row), nodes.base.pods(int(nodes.base_rows[row]))
    gone = before.keys() - now.keys()
    added = [now[uid] for uid in now.keys() - before.keys()]
    claims = (claim for pod in added for claim in unallocated(pod))
    first = {(claim.namespace, claim.name): claim for claim in claims}
    return Changed(in_use.freed_by(gone) if gone else (), tuple(first.values()))


def without_users(claims: Iterable[v1.ResourceClaim], cluster: ClusterView) -> list[ClaimKey]:
    """Return the reserved claims whose consumers are all deleted or terminating pods."""
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
