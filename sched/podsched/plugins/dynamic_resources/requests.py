"""Checks the requests of a pod's claims, and brings them into the form that the search reads.

Source: validateDeviceRequest and Allocate of Kubernetes v1.36 (allocator_incubating.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.choices import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.model import (
    ALL,
    EXACT_COUNT,
    MAX_RESULTS,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    Features,
    ResourceClaim,
)
from podsched.plugins.dynamic_resources.pools import Pool


class Requests:
    """Checks the claims of a pod against the devices that a node reaches."""

    def __init__(
        self,
        classes: Mapping[str, DeviceClass],
        pools: Sequence[Pool],
        candidates: Candidates,
        features: Features,
    ) -> None:
        self._classes = classes
        self._pools = pools
        self._candidates = candidates
        self._features = features

    def levels(self, claims: Sequence[ResourceClaim]) -> list[Level]:
        """Return the requests of all claims in order. Raises AllocationError."""
        levels: list[Level] = []
        for claim_index, claim in enumerate(claims):
            first = len(levels)
            for request in claim.requests:
                self._check_features(claim, request)
                levels.append(
                    Level(
                        len(levels),
                        claim_index,
                        len(levels) == first,
                        bool(request.first_available),
                        tuple(self._alternatives(claim, claim_index, request)),
                    )
                )
            _check_claim(claim, levels[first:])
        return levels

    def _check_features(self, claim: ResourceClaim, request: DeviceRequest) -> None:
        name = f"claim {claim}, request {request.name}"
        if request.first_available and not self._features.prioritized_list:
            raise AllocationError(
                f"{name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            )
        if self._features.consumable_capacity:
            return
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly.capacity is not None:
            raise AllocationError(f"{name}: {disabled}")
        for alternative in request.first_available:
            if alternative.capacity is not None:
                raise AllocationError(f"claim {claim}, subrequest {alternative.name}: {disabled}")

    def _alternatives(
        self, claim: ResourceClaim, claim_index: int, request: DeviceRequest
    ) -> Iterator[Alternative]:
        for full_name, exactly in request.alternatives():
            alternative = Alternative(
                claim,
                claim_index,
                request.name,
                full_name,
                exactly,
                self._device_class(claim, exactly),
                tuple(
                    index
                    for index, constraint in enumerate(claim.constraints)
                    if not constraint.requests
                    or {request.name, full_name}.intersection(constraint.requests)
                ),
            )
            self._count(alternative)
            yield alternative

    def _device_class(self, claim: ResourceClaim, request: ExactDeviceRequest) -> DeviceClass:
        name = f"claim {claim}, request {request.name}"
        for index, selector in enumerate(request.selectors):
            if selector is None:
                raise AllocationError(
                    f"{name}, selector #{index}: CEL expression empty (unsupported selector type?)"
                )
        if request.admin_access is not None and not self._features.admin_access:
            raise AllocationError(f"{name}: admin access is requested, but the feature is disabled")
        wanted = request.device_class_name
        if not wanted:
            raise AllocationError(f"{name}: missing device class name (unsupported request type?)")
        if wanted not in self._classes:
            raise AllocationError(
                f"{name}: could not retrieve device class {wanted}: "
                f'deviceclass.resource.k8s.io "{wanted}" not found'
            )
        return self._classes[wanted]

    def _count(self, alternative: Alternative) -> None:
        """Set the number of devices to allocate, and for the mode All the devices."""
        request = alternative.request
        if request.allocation_mode == EXACT_COUNT:
            alternative.count = request.count
        elif request.allocation_mode == ALL:
            alternative.all_devices = list(self._all_devices(alternative))
            alternative.count = len(alternative.all_devices)
        else:
            raise AllocationError(
                f"claim {alternative.claim}, request {request.name}: "
                f"unsupported count mode {request.allocation_mode}"
            )

    def _all_devices(self, alternative: Alternative) -> Iterator[Candidate]:
        for pool in self._pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"claim {alternative.claim}, request {alternative.request.name}: "
                    f"asks for all devices, but resource pool {pool} is currently {state}"
                )
            for candidate in self._candidates.devices:
                if candidate.pool is pool and self._candidates.fits(alternative, candidate, {}):
                    yield candidate


def _check_claim(claim: ResourceClaim, levels: Sequence[Level]) -> None:
    least = sum(min(alternative.count for alternative in level.alternatives) for level in levels)
    if least > MAX_RESULTS:
        raise AllocationError(
            f"claim {claim}: number of requested devices {least} exceeds "
            f"the claim limit of {MAX_RESULTS}"
        )
    for index, constraint in enumerate(claim.constraints):
        if not constraint.match_attribute and not constraint.distinct_attribute:
            raise AllocationError(
                f"claim {claim}, constraint #{index}: empty constraint "
                "(unsupported constraint type?)"
            )
