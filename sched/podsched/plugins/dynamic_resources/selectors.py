"""CEL selectors as the allocator calls them: on its devices, with its features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

from podsched.api import device_selectors
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler
from podsched.plugins.dynamic_resources.model import Device, Features

#: Expressions that are kept compiled, since compiling one takes as long as hundreds of evaluations;
#: and devices that are kept as selectors see them.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """A compiled CEL expression."""

    compiled: device_selectors.Selector

    def matches(self, driver: str, device: Device) -> bool:
        """Return whether the device matches. Raises EvaluationError."""
        return self.compiled.matches(_seen(driver, device))


@lru_cache(_KEPT)
def _seen(driver: str, device: Device) -> device_selectors.Device:
    """Return what selectors see of a device. Several are evaluated on it, one after another."""
    capacity = device.document.get("capacity") or {}
    return device_selectors.Device(
        driver,
        device.attributes,
        # As they are written: CEL tells 1000m from 1.
        {name: amount["value"] for name, amount in capacity.items()},
        device.allow_multiple_allocations,
    )


def selector_compiler(features: Features) -> SelectorCompiler:
    """Return what compiles selectors under feature gates."""
    gates = device_selectors.Features(features.consumable_capacity, features.list_type_attributes)
    return partial(_compile, gates)


@lru_cache(_KEPT)
def _compile(gates: device_selectors.Features, expression: str) -> DeviceSelector:
    return DeviceSelector(device_selectors.compile_selector(expression, features=gates))
