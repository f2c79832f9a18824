"""Checks the requests of a pod's claims, and brings them into the form that the search reads.

Source: validateDeviceRequest and Allocate of Kubernetes v1.36 (allocator_incubating.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Candidates, Level
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


def make_levels(claims: Sequence[ResourceClaim], candidates: Candidates) -> list[Level]:
    """Return the requests of all claims in order. Raises AllocationError."""
    levels: list[Level] = []
    for claim_index, claim in enumerate(claims):
        first = len(levels)
        for request in claim.requests:
            _check_features(claim, request, candidates.features)
            alternatives = tuple(
                _alternative(claim, claim_index, request.name, full_name, exactly, candidates)
                for full_name, exactly in request.alternatives()
            )
            is_prioritized = bool(request.first_available)
            levels.append(Level(len(levels), claim_index, is_prioritized, alternatives))
        _check_claim(claim, levels[first:])
    return levels


def _check_features(claim: ResourceClaim, request: DeviceRequest, features: Features) -> None:
    name = f"claim {claim}, request {request.name}"
    if request.first_available and not features.prioritized_list:
        raise AllocationError(
            f"{name}: has subrequests, but the DRAPrioritizedList feature is disabled"
        )
    if features.consumable_capacity:
        return
    disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    if request.exactly.capacity is not None:
        raise AllocationError(f"{name}: {disabled}")
    for alternative in request.first_available:
        if alternative.capacity is not None:
            raise AllocationError(f"claim {claim}, subrequest {alternative.name}: {disabled}")


def _alternative(
    claim: ResourceClaim,
    claim_index: int,
    base_name: str,
    full_name: str,
    request: ExactDeviceRequest,
    candidates: Candidates,
) -> Alternative:
    """Return the alternative with the number of devices to allocate, or for the mode All these."""
    constraints = tuple(
        index
        for index, constraint in enumerate(claim.constraints)
        if not constraint.requests or {base_name, full_name}.intersection(constraint.requests)
    )
    of_class = _device_class(claim, request, candidates)
    made = Alternative(
        claim, claim_index, base_name, full_name, request, of_class, constraints, request.count
    )
    if request.allocation_mode == ALL:
        made.all_devices = list(_all_devices(made, candidates))
        made.count = len(made.all_devices)
    elif request.allocation_mode != EXACT_COUNT:
        raise AllocationError(
            f"claim {claim}, request {request.name}: "
            f"unsupported count mode {request.allocation_mode}"
        )
    return made


def _device_class(
    claim: ResourceClaim, request: ExactDeviceRequest, candidates: Candidates
) -> DeviceClass:
    name = f"claim {claim}, request {request.name}"
    if None in request.selectors:
        raise AllocationError(
            f"{name}, selector #{request.selectors.index(None)}: "
            "CEL expression empty (unsupported selector type?)"
        )
    if request.admin_access is not None and not candidates.features.admin_access:
        raise AllocationError(f"{name}: admin access is requested, but the feature is disabled")
    wanted = request.device_class_name
    if not wanted:
        raise AllocationError(f"{name}: missing device class name (unsupported request type?)")
    if wanted not in candidates.classes:
        raise AllocationError(
            f"{name}: could not retrieve device class {wanted}: "
            f'deviceclass.resource.k8s.io "{wanted}" not found'
        )
    return candidates.classes[wanted]


def _all_devices(alternative: Alternative, candidates: Candidates) -> Iterator[Candidate]:
    for pool in candidates.pools:
        if pool.incomplete or pool.invalid:
            state = "being updated" if pool.incomplete else "invalid"
            raise AllocationError(
                f"claim {alternative.claim}, request {alternative.request.name}: "
                f"asks for all devices, but resource pool {pool} is currently {state}"
            )
        for candidate in candidates.devices:
            if candidate.pool is pool and candidates.needs(alternative, candidate) is not None:
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
