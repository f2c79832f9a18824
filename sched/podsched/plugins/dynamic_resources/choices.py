"""The data of a search: the devices that a node reaches, and the requests for devices."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.plugins.dynamic_resources.model import (
    Device,
    DeviceClass,
    DeviceID,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from podsched.plugins.dynamic_resources.pools import Pool


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A device of a complete and valid pool; ``index``: its place in the order of tries."""

    index: int
    id: DeviceID
    device: Device
    slice: ResourceSlice
    pool: Pool


@dataclass(slots=True, eq=False)
class Alternative:
    """A request of a claim, or one alternative of a request with ``firstAvailable``.

    ``base_name``: the request's name; ``full_name``: "request/alternative" for an alternative.
    ``constraints``: the indexes of the claim's constraints that apply. ``count``: the number of
    devices to allocate. ``all_devices``: the devices to allocate with the allocation mode All, else
    None.
    """

    claim: ResourceClaim
    claim_index: int
    base_name: str
    full_name: str
    request: ExactDeviceRequest
    device_class: DeviceClass
    constraints: tuple[int, ...]
    count: int = 0
    all_devices: list[Candidate] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A request of the pod with its alternatives (one, unless it has ``firstAvailable``).

    ``index``: among the requests of all claims, which is the order of the search.
    """

    index: int
    claim_index: int
    starts_claim: bool
    is_prioritized: bool
    alternatives: tuple[Alternative, ...]
