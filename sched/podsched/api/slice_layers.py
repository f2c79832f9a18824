"""Slices within slices, as the annotation ``SLICE_LAYERS`` asks for them."""

from __future__ import annotations

from typing import Final, NamedTuple

from podsched.lib.bounded_text import parse_json

#: More layers are refused when a pod is made.
MOST_LAYERS: Final = 3
_SIZES: Final = range(-(2**31), 2**31)


class SliceLayer(NamedTuple):
    """The label of a Topology's level, and how many pods of a slice share one of its domains."""

    topology: str
    size: int


def read_slice_layers(text: str) -> tuple[SliceLayer, ...] | None:
    """Return the layers in an annotation, the widest first; None if they cannot be read.

    As in Go, a missing level is "", and a missing size 0.
    """
    try:
        found = parse_json(text.encode(), MOST_LAYERS * 100)
    except ValueError:
        return None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        return None
    layers = tuple(SliceLayer(one.get("topology", ""), one.get("size", 0)) for one in found)
    sound = all(type(name) is str and type(size) is int and size in _SIZES for name, size in layers)
    return layers if sound else None
