"""Kubernetes' warnings, sent to the client beside the answer of the current call.

REST sends each as a ``Warning`` header, gRPC as trailing metadata of that name in the same format
(RFC 7234). kubectl and sched print them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

#: Name of the header and of the metadata.
KEY: Final = "warning"
#: Max characters of a warning, which may quote the request.
_MOST_CHARACTERS: Final = 256

_told: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


def collect_warnings() -> list[str]:
    """Start collecting the warnings of a call; return the list that they are added to."""
    found: list[str] = []
    _told.set(found)
    return found


def add_warnings(*texts: str) -> None:
    """Add warnings to the current call, without duplicates."""
    found = _told.get()
    if found is not None:
        found += [text for text in dict.fromkeys(texts) if text not in found]


def header(text: str) -> str:
    """Return a warning as the value of a header."""
    return f'299 - "{_quoted(text[:_MOST_CHARACTERS])}"'


def _quoted(text: str) -> str:
    """Escape a text for a quoted string: names of unknown fields may have any character."""
    plain = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
