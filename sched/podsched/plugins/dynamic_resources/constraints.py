"""Constraints on the attributes of a claim's devices; devices are added one by one, or refused.

Both kinds are monotonic: if a device is refused, it is still refused after more devices were added.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any, Protocol

from podsched.plugins.dynamic_resources.model import Device, Fault, Features
from podsched.v1 import objects_pb2 as v1

#: The values of an attribute with their type; several if it is a list, none if it is unknown.
Values = frozenset[tuple[str, Any]]

_LISTS = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}
_SCALARS = frozenset(_LISTS.values())


class Constraint(Protocol):
    """A constraint and the devices that were added to it; they are removed in reverse order."""

    def add(self, request: str, values: Values) -> bool:
        """Add a device with these values; return False, and do not add it, if it is refused.

        ``request``: the request's name, without that of an alternative.
        """

    def remove(self, request: str) -> None:
        """Remove the last device."""

    def state(self) -> Hashable:
        """Return a value; if it is equal, the same further devices are refused."""


class MatchAttribute:
    """matchAttribute: all devices have a value in common."""

    def __init__(self) -> None:
        self._common: list[Values] = []

    def add(self, request: str, values: Values) -> bool:
        if self._common:
            values &= self._common[-1]
            if not values:
                return False
        self._common.append(values)
        return True

    def remove(self, request: str) -> None:
        self._common.pop()

    def state(self) -> Hashable:
        return self._common[-1] if self._common else None


class DistinctAttribute:
    """distinctAttribute: no two devices have a value in common."""

    def __init__(self) -> None:
        self._seen: list[Values] = []

    def add(self, request: str, values: Values) -> bool:
        if self._seen and (not values or any(values & other for other in self._seen)):
            return False
        self._seen.append(values)
        return True

    def remove(self, request: str) -> None:
        self._seen.pop()

    def state(self) -> Hashable:
        return frozenset(self._seen)


class DistinctAttributeOfLatest:
    """distinctAttribute with Fault.DISTINCT: of each request only the latest device counts."""

    def __init__(self) -> None:
        self._latest: dict[str, Values] = {}
        self._count = 0

    def add(self, request: str, values: Values) -> bool:
        others = self._latest.values()
        if self._count and others and (not values or any(values & other for other in others)):
            return False
        self._latest[request] = values
        self._count += 1
        return True

    def remove(self, request: str) -> None:
        self._latest.pop(request, None)
        self._count -= 1

    def state(self) -> Hashable:
        raise NotImplementedError("depends on the order of the devices")


def make_constraint(constraint: v1.DeviceConstraint, faults: Collection[Fault]) -> Constraint:
    """Return the constraint without devices."""
    if constraint.match_attribute:
        return MatchAttribute()
    return DistinctAttributeOfLatest() if Fault.DISTINCT in faults else DistinctAttribute()


def attribute_values(
    constraint: v1.DeviceConstraint, device: Device, driver: str, features: Features
) -> Values | None:
    """Return the values of a constraint's attribute; None if the device lacks the attribute.

    An attribute without a domain is the driver's own.
    """
    name = constraint.match_attribute or constraint.distinct_attribute
    domain, _, identifier = name.partition("/")
    attribute = device.view.attributes.get(name)
    if attribute is None and identifier and domain == driver:
        attribute = device.view.attributes.get(identifier)
    if attribute is None:
        return None
    for kind, value in attribute.items():
        if kind in _SCALARS and value is not None:
            return frozenset([(kind, value)])
        if kind in _LISTS and features.list_type_attributes:
            return frozenset((_LISTS[kind], item) for item in value)
    return frozenset()
