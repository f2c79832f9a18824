"""Reads servers' warnings from trailing metadata, one entry each in HTTP's format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_KEY: Final = "warning"
#: Code, agent and text (RFC 7234, 5.5).
_WARNING: Final = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def warnings_in(metadata: Iterable[tuple[str, str | bytes]] | None) -> Iterator[str]:
    """Yield the warnings in a call's trailing metadata."""
    for key, value in metadata or ():
        if key == _KEY and isinstance(value, str) and (found := _WARNING.match(value)):
            yield re.sub(r"\\(.)", r"\1", found[1])
