"""A cache for functions of texts that strangers send."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

_Text = TypeVar("_Text", str, bytes)
_Result = TypeVar("_Result")


def remember_short(
    entries: int, longest: int
) -> Callable[[Callable[[_Text], _Result]], Callable[[_Text], _Result]]:
    """Cache the results for texts of at most ``longest`` characters or bytes, as ``lru_cache``.

    Caches count entries, whatever their size: with long ones, thousands would take all memory.
    """

    def decorated(function: Callable[[_Text], _Result]) -> Callable[[_Text], _Result]:
        remembered = lru_cache(entries)(function)

        @wraps(function)
        def call(text: _Text) -> _Result:
            return remembered(text) if len(text) <= longest else function(text)

        return call

    return decorated
