"""What a search chooses from: the devices that a node reaches, and the requests that want some."""

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
    """A device of a complete and valid pool; ``index`` is its place in the order of trying."""

    index: int
    id: DeviceID
    device: Device
    slice: ResourceSlice
    pool: Pool


@dataclass(slots=True, eq=False)
class Alternative:
    """A request, or one of its alternatives: which devices it wants and how many.

    ``base_name`` is the request's name, ``full_name`` has the alternative's too. ``constraints``:
    which of the claim's apply. ``all_devices`` is None unless all matching devices are wanted.
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
    """A request of the pod, by its index among the requests of all claims."""

    index: int
    claim_index: int
    starts_claim: bool
    is_prioritized: bool
    alternatives: tuple[Alternative, ...]
