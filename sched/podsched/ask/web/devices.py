"""The devices of a node and the claims of a pod, for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from podsched.api.device_claims import claim_names, newest_slices
from podsched.api.objects import Device, Pod, ResourceClaim, ResourceSlice
from podsched.ask.web.board import Board
from podsched.ask.web.sources import Source

#: Max devices of a node that are listed, and max attributes and capacities of each.
MOST_DEVICES: Final = 256
MOST_VALUES: Final = 8

#: Driver, pool and name.
_Device = tuple[str, str, str]


def devices_of_node(
    source: Source, board: Board, name: str, pods: Iterable[tuple[str, Pod]]
) -> tuple[list[list[Any]], int]:
    """Return the first devices in a node's own ResourceSlices, and the number of all.

    ``pods``: the node's pods by key. A row is driver, device, its attributes and capacities by
    name, and the keys of the node's pods that use it.
    """
    users: dict[_Device, list[str]] = {}
    for key, pod in pods:
        for claim in _claims(source, pod):
            for identity in _allocated(claim):
                users.setdefault(identity, []).append(key)
    slices = [piece for key in board.slices_of(name) if (piece := _slice(source, key)) is not None]
    rows = []
    for piece in newest_slices(slices):
        driver, pool_name = piece.spec.driver, piece.spec.pool.name
        for device in piece.spec.devices:
            using = users.get((driver, pool_name, device.name), [])
            rows.append([driver, device.name, _values(device), using])
    return rows[:MOST_DEVICES], len(rows)


def claims_of_pod(source: Source, pod: Pod) -> list[list[Any]]:
    """Return the claims of a pod: name in the pod's spec, name of the claim, state and devices.

    The state is missing, pending or allocated; a device is driver, pool and name.
    """
    found = []
    for reference, name in claim_names(pod):
        claim = source.get("ResourceClaim", f"{pod.metadata.namespace}/{name}") if name else None
        state, devices = "missing", []
        if isinstance(claim, ResourceClaim):
            state = "allocated" if claim.status.HasField("allocation") else "pending"
            devices = [list(identity) for identity in _allocated(claim)]
        found.append([reference.name, name or "", state, devices])
    return found


def _claims(source: Source, pod: Pod) -> Iterable[ResourceClaim]:
    names = [name for _, name in claim_names(pod) if name]
    if extended := pod.status.extended_resource_claim_status.resource_claim_name:
        names.append(extended)
    for name in names:
        claim = source.get("ResourceClaim", f"{pod.metadata.namespace}/{name}")
        if isinstance(claim, ResourceClaim):
            yield claim


def _allocated(claim: ResourceClaim) -> list[_Device]:
    results = claim.status.allocation.devices.results
    return [(of.driver, of.pool, of.device) for of in results]


def _slice(source: Source, key: str) -> ResourceSlice | None:
    found = source.get("ResourceSlice", key)
    return found if isinstance(found, ResourceSlice) else None


def _values(device: Device) -> Mapping[str, str]:
    """Return the first attributes and capacities by name without domain."""
    values: dict[str, str] = {}
    for name, attribute in sorted(device.attributes.items()):
        for _, value in attribute.ListFields():
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            values[name.rpartition("/")[2]] = shown
    values |= {name.rpartition("/")[2]: of.value for name, of in sorted(device.capacity.items())}
    return dict(list(values.items())[:MOST_VALUES])
