"""Reads what devices a pod needs: those of its claims, and those for extended resources.

Deciding and reserving both read the needs. Pods with equal specs of claims share an evaluation,
unless earlier attempts failed because of the specs or the allocations (``failures``).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np

from podsched.api.extended_resources import classes_by_resource, may_be_devices
from podsched.api.node_selectors import NodeTerms, compile_node_selector
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import NOTHING_READ
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.devices import Devices, KnownClaims, KnownDevices
from podsched.plugins.dynamic_resources.extended_claims import (
    Provided,
    extended_claim,
    may_need_devices,
    provided,
)
from podsched.plugins.dynamic_resources.failures import Failures
from podsched.plugins.dynamic_resources.model import ResourceClaim
from podsched.plugins.dynamic_resources.node_search import PodNeeds
from podsched.plugins.dynamic_resources.pod_claims import (
    CLASS,
    ClaimUnusableError,
    has_claims,
    member_uids,
    usable_claims,
)
from podsched.plugins.dynamic_resources.reservation import in_flight
from podsched.v1 import objects_pb2 as v1


class NeedsReader:
    """Reads the needs of pods from the objects of the cluster and the assumed allocations."""

    def __init__(self, devices: KnownDevices) -> None:
        self._devices = devices
        self._claims = KnownClaims()
        #: ``DeviceFilter`` and ``ClaimBinding`` note failures here.
        self.failures = Failures()
        #: The last result of ``resource_classes``, with the version and the cluster.
        self._classes: tuple[int, ClusterView, Mapping[str, str]] | None = None

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the specs of the claims to allocate, and the nodes of the allocated ones.

        So pods whose claims have equal specs share an evaluation.
        """
        if not needs_devices(pod):
            return NOTHING_READ
        try:
            claims = usable_claims(pod, cluster)
            parts = tuple([self._part(pod, claim, cluster) for claim in claims])
        except ClaimUnusableError:
            return pod.uid
        extended = self.provided(pod, cluster)
        if not extended:
            return parts
        spec = extended_claim(pod.cls, extended).serialized
        namespace = pod.namespace if spec in self.failures.specs else ""
        return parts, extended, spec, namespace

    def _part(self, pod: PodInfo, claim: v1.ResourceClaim, cluster: ClusterView) -> Hashable:
        """Return the part of the projection for one claim. Raises ClaimUnusableError."""
        assumed = _assumed_for(pod, claim, cluster)
        known = claim if assumed is None else assumed
        if known.status.HasField("allocation"):
            where = known.status.allocation.node_selector
            failed = self.failures.is_unprepared(known)
            return assumed is None, failed, where.SerializeToString(deterministic=True)
        spec = self._claims.spec(claim)
        return (spec, claim.metadata.name) if spec in self.failures.specs else spec

    def resource_classes(self, cluster: ClusterView) -> Mapping[str, str]:
        """Return the DeviceClass that provides each extended resource, by the resource's name."""
        version = cluster.version(CLASS)
        if self._classes is None or self._classes[:2] != (version, cluster):
            self._classes = version, cluster, classes_by_resource(cluster.list(CLASS))
        return self._classes[2]

    def provided(self, pod: PodInfo, cluster: ClusterView) -> tuple[Provided, ...]:
        """Return the requested resources that devices can provide."""
        if not may_need_devices(pod):
            return ()
        return provided(pod, self.resource_classes(cluster))

    def is_concerned(self, pod: PodInfo, cluster: ClusterView) -> bool:
        """Return whether the pod has claims, or may get one for extended resources."""
        return has_claims(pod) or bool(self.provided(pod, cluster))

    def _of_claims(self, pod: PodInfo, cluster: ClusterView) -> PodNeeds:
        """Return the current needs of the pod's claims. Raises ClaimUnusableError."""
        allocated: list[NodeTerms] = []
        assumed_names: list[str] = []
        binding_failed = False
        new: list[v1.ResourceClaim] = []
        for claim in usable_claims(pod, cluster):
            assumed = _assumed_for(pod, claim, cluster)
            if assumed is not None:
                assumed_names.append(claim.metadata.name)
                claim = assumed
            if not claim.status.HasField("allocation"):
                new.append(claim)
                continue
            binding_failed |= self.failures.is_unprepared(claim)
            if claim.status.allocation.HasField("node_selector"):
                allocated.append(compile_node_selector(claim.status.allocation.node_selector))
        devices = self._devices.of(cluster)
        claims = tuple(map(self._claims.read, new))
        for wanted in claims:
            _check_classes(wanted, devices)
        return PodNeeds(
            tuple(allocated),
            claims,
            tuple(map(self._claims.spec, new)),
            tuple(assumed_names),
            devices,
            binding_failed=binding_failed,
        )

    def by_row(self, pod: PodInfo, cluster: ClusterView) -> PodNeeds:
        """Return the pod's current needs, with a variant for each set of resources some node lacks.

        Raises ClaimUnusableError.
        """
        needs, extended = self._of_claims(pod, cluster), self.provided(pod, cluster)
        if not extended:
            return needs
        nodes = cluster.nodes
        lacking = np.zeros(nodes.size, dtype=np.int64)
        for bit, one in enumerate(extended):
            lacking[nodes.allocatable(one.resource) == 0] |= 1 << bit
        variants: list[PodNeeds] = []
        variant = np.zeros(nodes.size, dtype=np.int64)
        for bits in np.unique(lacking[nodes.alive]).tolist():
            if bits:
                of_bits = tuple(one for bit, one in enumerate(extended) if bits >> bit & 1)
                variants.append(_without(needs, pod, of_bits))
                variant[lacking == bits] = len(variants)
        known = {one.resource for one in extended}
        for name, amount in pod.cls.requests.items():
            if amount and name not in known and may_be_devices(name):
                variant[nodes.allocatable(name) == 0] = -1
        return replace(needs, variants=tuple(variants), variant=variant)

    def on_row(self, pod: PodInfo, cluster: ClusterView, row: int) -> PodNeeds:
        """Return the pod's current needs on the node of a row. Raises ClaimUnusableError."""
        needs, extended = self._of_claims(pod, cluster), self.provided(pod, cluster)
        nodes = cluster.nodes
        lacking = tuple(one for one in extended if not nodes.allocatable(one.resource)[row])
        return _without(needs, pod, lacking) if lacking else needs


def needs_devices(pod: PodInfo) -> bool:
    """Return whether the pod has claims, or requests resources that devices may provide."""
    return has_claims(pod) or may_need_devices(pod)


def _assumed_for(
    pod: PodInfo, claim: v1.ResourceClaim, cluster: ClusterView
) -> v1.ResourceClaim | None:
    """Return the claim with the allocation that is assumed for the pod or its PodGroup, or None.

    Raises ClaimUnusableError if the allocation is assumed for another pod.
    """
    assumed = in_flight(claim, cluster)
    if assumed is not None and not _is_for(pod, assumed, cluster):
        raise ClaimUnusableError(
            f"resource claim {claim.metadata.namespace}/{claim.metadata.name} "
            "is in the process of being allocated"
        )
    return assumed


def _is_for(pod: PodInfo, assumed: v1.ResourceClaim, cluster: ClusterView) -> bool:
    """Return whether an assumed claim is for the pod or another member of its group."""
    consumers = {consumer.uid for consumer in assumed.status.reserved_for}
    return pod.uid in consumers or bool(consumers & member_uids(pod, cluster))


def _check_classes(claim: ResourceClaim, devices: Devices) -> None:
    """Raise ClaimUnusableError if a request names a class that does not exist."""
    for request in claim.requests:
        for name, exactly in request.alternatives():
            if exactly.device_class_name not in devices.classes:
                text = f"request {name}: device class {exactly.device_class_name} does not exist"
                raise ClaimUnusableError(text)


def _without(needs: PodNeeds, pod: PodInfo, lacking: tuple[Provided, ...]) -> PodNeeds:
    """Return the needs on a node without some of the resources."""
    made = extended_claim(pod.cls, lacking)
    return replace(
        needs,
        claims=(*needs.claims, made.for_pod(pod)),
        specs=(*needs.specs, made.serialized),
        lacking=lacking,
    )
