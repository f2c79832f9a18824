"""Compiles CEL selectors of devices with the allocator's feature gates."""

from __future__ import annotations

from functools import lru_cache, partial

from podsched.api import device_selectors
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler
from podsched.plugins.dynamic_resources.model import Features

#: Max compiled expressions that are kept; Kubernetes keeps 10. Compiling one takes as long as
#: hundreds of evaluations. The largest take 3.6 MB, usual ones 30 KB.
_KEPT = 64


def selector_compiler(features: Features) -> SelectorCompiler:
    """Return a function that compiles selectors with these feature gates."""
    gates = device_selectors.Features(features.consumable_capacity, features.list_type_attributes)
    return partial(_compile, gates)


@lru_cache(_KEPT)
def _compile(gates: device_selectors.Features, expression: str) -> device_selectors.Selector:
    return device_selectors.compile_selector(expression, features=gates)
