"""The events that can help a pod that DynamicResources rejected, with their hints.

Rules: ``EventsToRegister`` of kube-scheduler v1.36 ``dynamicresources/dynamicresources.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from podsched.api.extended_resources import extended_claim_owner
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.pod_claims import claim_names
from podsched.v1 import objects_pb2 as v1


def dynamic_resources_events(gave_back: Callable[[v1.Pod], bool]) -> list[ClusterEventWithHint]:
    """Register for changes of nodes, claims, classes, slices and the pod's generated claims.

    ``gave_back`` returns whether a pod that lost its node may have had devices that no stored claim
    shows. In kube-scheduler the end of such an assumption is an update of the claim.
    """

    def after_pod_gone(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
        helps = old is not None and gave_back(old)
        return QueueingHint.of(helps and None not in claim_names(pod))

    def waiting() -> KeyedIndex:
        return KeyedIndex(
            _claims_of, lambda old, new: [_ANY_POD] if old is not None and gave_back(old) else []
        )

    node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    return [
        ClusterEventWithHint.on(Resource.NODE, node),
        ClusterEventWithHint.on(
            Resource.RESOURCE_CLAIM, ActionType.ALL, _after_claim_change, index=_waiting_by_claim
        ),
        # For each pod: those that have only extended resources share their class.
        ClusterEventWithHint.on(
            Resource.RESOURCE_CLAIM,
            ActionType.DELETE,
            _after_own_claim_gone,
            per_pod=True,
            pods=_owner_of_extended,
        ),
        ClusterEventWithHint.on(Resource.UNSCHEDULABLE_POD, generated, _after_pod_change),
        ClusterEventWithHint.on(
            Resource.ASSIGNED_POD, ActionType.DELETE, after_pod_gone, index=waiting
        ),
        # kube-scheduler leaves deletions out. But without a slice, a pool may be complete or valid,
        # and without a class, another may provide a resource.
        ClusterEventWithHint.on(Resource.DEVICE_CLASS, ActionType.ALL),
        ClusterEventWithHint.on(Resource.RESOURCE_SLICE, ActionType.ALL),
        # In kube-scheduler a change of a rule is an update of the slices whose devices it taints.
        ClusterEventWithHint.on(Resource.DEVICE_TAINT_RULE, ActionType.ALL),
    ]


def _waiting_by_claim() -> KeyedIndex:
    """Return an index of the waiting pods by the claims that they wait for.

    While claims are being created, thousands of pods may wait for theirs; no other claim helps
    them.
    """
    return KeyedIndex(_claims_of, _claims_changed)


#: The key of events that may help all pods whose claims exist.
_ANY_POD: Final = ("", "")


def _claims_of(pod: PodInfo) -> list[tuple[str, str]]:
    names = claim_names(pod)
    found = [(pod.namespace, name) for name in names if name is not None]
    return found if None in names else [*found, _ANY_POD]


def _claims_changed(
    old: v1.ResourceClaim | None, new: v1.ResourceClaim | None
) -> list[tuple[str, str]]:
    keys = [] if new is None else [(new.metadata.namespace, new.metadata.name)]
    if _gives_back(old, new):
        keys.append(_ANY_POD)
    return keys


def _gives_back(old: v1.ResourceClaim | None, new: v1.ResourceClaim | None) -> bool:
    """Return whether the claim's devices are free now; they may suit any pod."""
    if old is None or not old.status.HasField("allocation"):
        return False
    return new is None or not new.status.HasField("allocation")


def _owner_of_extended(
    old: v1.ResourceClaim | None, new: v1.ResourceClaim | None
) -> tuple[str, ...]:
    """Return the uid of the pod whose claim for extended resources is gone; it gets a new one."""
    owner = "" if old is None else extended_claim_owner(old)
    return (owner,) if owner else ()


def _after_own_claim_gone(
    pod: PodInfo, old: v1.ResourceClaim | None, new: v1.ResourceClaim | None
) -> QueueingHint:
    return QueueingHint.of(pod.uid in _owner_of_extended(old, new))


def _after_claim_change(
    pod: PodInfo, old: v1.ResourceClaim | None, new: v1.ResourceClaim | None
) -> QueueingHint:
    if _gives_back(old, new):
        return QueueingHint.of(None not in claim_names(pod))
    if new is None or new.metadata.namespace != pod.namespace:
        return QueueingHint.SKIP
    is_other = old is None or old.metadata.uid != new.metadata.uid or old.status != new.status
    return QueueingHint.of(is_other and new.metadata.name in claim_names(pod))


def _after_pod_change(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    return QueueingHint.of(None not in claim_names(pod))
