"""Decides whether a pod fits its node, as kubelets do before they start a pod.

A scheduler with current information binds no such pod, but pods may be bound by hand or by several
independent schedulers. Source: pkg/kubelet/lifecycle/predicate.go of Kubernetes 1.36; extended
resources that the node does not have, or that the pod has a claim for, are ignored.

Pure: tracks the resources that pods use on each node, in order of arrival.
"""

from __future__ import annotations

from typing import NamedTuple

from podsched.api.objects import Node, Pod
from podsched.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    readable_allocatable,
    readable_requests,
)
from podsched.lib.groups import Grouped

_FIRST = (PODS, CPU, MEMORY, EPHEMERAL_STORAGE)


class Rejection(NamedTuple):
    """Reason and message of a rejected pod's status."""

    reason: str
    message: str


class _Held(NamedTuple):
    """The requests of an admitted pod."""

    uid: str
    requests: dict[str, int]


class Admission:
    """The resources of admitted pods on each node, in the units of ``api.resources``."""

    def __init__(self) -> None:
        self._held = Grouped[str, str, _Held]()

    def add_running(self, key: str, pod: Pod) -> None:
        """Count a pod that its node already runs, even if it does not fit."""
        self._hold(key, pod, _requests(pod))

    def admit(self, key: str, pod: Pod, node: Node) -> Rejection | None:
        """Count a pod, or return why it does not fit its node."""
        requests = _requests(pod)
        if self._is_held(key, pod):
            self._hold(key, pod, requests)  # it may have been resized
            return None
        capacity = readable_allocatable(node)
        there = self._held.of(pod.spec.node_name).values()
        for name in sorted(requests, key=_order):
            wanted, used = requests[name], sum(held.requests.get(name, 0) for held in there)
            if wanted and name in capacity and used + wanted > capacity[name]:
                return Rejection(
                    f"OutOf{name}",
                    f"Pod was rejected: Node didn't have enough resource: {name}, "
                    f"requested: {wanted}, used: {used}, capacity: {capacity[name]}",
                )
        self._hold(key, pod, requests)
        return None

    def release(self, key: str) -> None:
        """Release the resources of a pod that was deleted or has finished."""
        self._held.remove(key)

    def _is_held(self, key: str, pod: Pod) -> bool:
        node = self._held.group_of(key)
        return node is not None and self._held.of(node)[key].uid == pod.metadata.uid

    def _hold(self, key: str, pod: Pod, requests: dict[str, int]) -> None:
        self._held.move(key, pod.spec.node_name, _Held(pod.metadata.uid, requests))


def _order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _requests(pod: Pod) -> dict[str, int]:
    """Return what a pod takes of its node, without what it has a claim for."""
    claimed = pod.status.extended_resource_claim_status.request_mappings
    requests = {**readable_requests(pod), PODS: 1}
    for of in claimed:
        requests.pop(of.resource_name, None)
    return requests
