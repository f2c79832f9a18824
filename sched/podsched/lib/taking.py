"""Take what has been collected."""

from __future__ import annotations

from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def take_all(collected: dict[_Key, _Value]) -> dict[_Key, _Value]:
    """Remove and return all entries of a dict."""
    found = dict(collected)
    collected.clear()
    return found
