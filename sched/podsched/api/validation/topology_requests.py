"""Kueue's annotations by which pods ask for levels of a Topology, and for slices.

Source: Kueue 0.20, pkg/controller/jobframework/tas_validation.go. The rules for groups of pod sets
are left out, because here these need not ask for a level.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from podsched.api import objects as o
from podsched.api.names import qualified_name
from podsched.api.queue_labels import (
    PREFERRED_LEVEL,
    REQUIRED_LEVEL,
    SLICE_LAYERS,
    SLICE_LEVEL,
    SLICE_SIZE,
    UNCONSTRAINED,
)
from podsched.api.slice_layers import MOST_LAYERS, read_slice_layers
from podsched.api.validation.place import Place
from podsched.lib.go_bools import GO_BOOLS

_LEVELS: Final = (REQUIRED_LEVEL, PREFERRED_LEVEL, UNCONSTRAINED)
_ALL: Final = frozenset((*_LEVELS, SLICE_LEVEL, SLICE_SIZE, SLICE_LAYERS))
_ONE_LEVEL: Final = "must not contain more than one topology annotation: [{}]".format(
    ", ".join(f'"{name}"' for name in _LEVELS)
)
#: Digits of a size that an int32 holds whatever they are.
_SIZE_DIGITS: Final = 9


def validate_topology_request(at: Place, metadata: o.ObjectMeta) -> None:
    """Check what pods ask for; ``metadata``: theirs, or that of a template or PodGroup."""
    found, at = metadata.annotations, at("annotations")
    if _ALL.isdisjoint(found):
        return
    asked = {name: found[name] for name in _LEVELS if name in found}
    if len(asked) > 1:
        at.invalid(asked, _ONE_LEVEL)
    for name in (REQUIRED_LEVEL, PREFERRED_LEVEL, SLICE_LEVEL):
        if name in found:
            at[name].rule(found[name], qualified_name)
    if found.get(UNCONSTRAINED, "true") not in GO_BOOLS:
        at[UNCONSTRAINED].invalid(found[UNCONSTRAINED], "must be a boolean value")
    _check_size(at[SLICE_SIZE], found)
    if SLICE_LAYERS in found:
        _check_layers(at[SLICE_LAYERS], found)


def _check_size(at: Place, found: Mapping[str, str]) -> None:
    """Check the size of slices, which needs their level and is needed by it."""
    text = found.get(SLICE_SIZE)
    if text is None:
        if SLICE_LEVEL in found:
            at.required(f"must be set when '{SLICE_LEVEL}' is specified")
        return
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _SIZE_DIGITS):
        at.invalid(text, "must be a numeric value")
    elif int(text) < 1:
        at.invalid(text, "must be greater than or equal to 1")
    if SLICE_LEVEL not in found:
        at.forbidden(f"may not be set when '{SLICE_LEVEL}' is not specified")


def _check_layers(at: Place, found: Mapping[str, str]) -> None:
    """Check slices within slices, which take the place of the other annotations for slices."""
    for other in (SLICE_LEVEL, SLICE_SIZE):
        if other in found:
            at.forbidden(f"may not be set when '{other}' is specified")
    text = found[SLICE_LAYERS]
    layers = read_slice_layers(text)
    if layers is None:
        at.invalid(text, "must be a valid JSON array")
        return
    if not 1 <= len(layers) <= MOST_LAYERS:
        at.invalid(text, "topology constraints must contain between 1 and 3 entries")
        return
    names = [layer.topology for layer in layers]
    for index, layer in enumerate(layers):
        each = at[index]
        each("topology").rule(layer.topology, qualified_name)
        each("size").least(layer.size, 1)
        first = names.index(layer.topology)
        if first < index:
            each("topology").duplicate(f"{layer.topology} (also at index {first})")
    for index, (above, layer) in enumerate(pairwise(layers), 1):
        if layer.size > 0 and above.size % layer.size:
            reason = f"must evenly divide the parent layer size {above.size}"
            at[index]("size").invalid(layer.size, reason)
