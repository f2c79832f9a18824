"""Collects warnings for the client of the current call, as in Kubernetes.

REST sends each as a ``Warning`` header, gRPC as trailing metadata of that name in the same format
(RFC 7234). kubectl and sched print them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

#: Name of the header and of the metadata key.
KEY: Final = "warning"
#: Max characters of a warning, which may quote the request.
_MAX_CHARACTERS: Final = 256

_collected: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


def collect_warnings() -> list[str]:
    """Start collecting the warnings of a call; return the list that they are added to."""
    found: list[str] = []
    _collected.set(found)
    return found


def add_warnings(*texts: str) -> None:
    """Add warnings to the current call, without duplicates."""
    found = _collected.get()
    if found is not None:
        found += [text for text in dict.fromkeys(texts) if text not in found]


def header(text: str) -> str:
    """Return a warning as the value of a header."""
    return f'299 - "{_quoted(text[:_MAX_CHARACTERS])}"'


def _quoted(text: str) -> str:
    """Escape a text for a quoted string: names of unknown fields may have any character."""
    plain = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
