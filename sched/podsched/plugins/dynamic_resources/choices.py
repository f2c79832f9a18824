"""The data of a search: the devices that a node reaches, and the requests for devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsched.plugins.dynamic_resources.model import (
    Amount,
    Device,
    DeviceClass,
    DeviceID,
    ExactDeviceRequest,
    InUse,
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
    in_use: InUse | None = None

    @property
    def is_allocated(self) -> bool:
        """Whether the device is allocated exclusively."""
        return self.in_use is not None and self.in_use.exclusive > 0

    @property
    def consumed(self) -> Mapping[str, Amount] | None:
        """The capacity that allocated shares consume of the device; None without shares."""
        return None if self.in_use is None else self.in_use.capacity


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
