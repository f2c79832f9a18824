"""CEL selectors as the allocator calls them: on its devices, with its features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

from podsched.api import device_selectors
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler
from podsched.plugins.dynamic_resources.model import Device, Features

#: Expressions that are kept compiled: compiling one takes as long as hundreds of evaluations.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """A compiled CEL expression."""

    compiled: device_selectors.Selector

    def matches(self, driver: str, device: Device) -> bool:
        """Return whether the device matches. Raises EvaluationError."""
        return self.compiled.matches(
            device_selectors.Device(
                driver,
                device.attributes,
                # As they are written: CEL tells 1000m from 1.
                {
                    name: capacity["value"]
                    for name, capacity in (device.document.get("capacity") or {}).items()
                },
                device.allow_multiple_allocations,
            )
        )


def selector_compiler(features: Features) -> SelectorCompiler:
    """Return what compiles selectors under feature gates."""
    gates = device_selectors.Features(features.consumable_capacity, features.list_type_attributes)
    return partial(_compile, gates)


@lru_cache(_KEPT)
def _compile(gates: device_selectors.Features, expression: str) -> DeviceSelector:
    return DeviceSelector(device_selectors.compile_selector(expression, features=gates))
