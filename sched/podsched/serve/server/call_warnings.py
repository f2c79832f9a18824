"""What the call under way tells its client beside the answer: Kubernetes' warnings.

Whichever face it comes through: REST has a ``Warning`` header for each, gRPC trailing metadata of
this name in the same form (RFC 7234), which commands print.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

#: The header, and the key of the metadata.
KEY: Final = "warning"
#: Characters of a warning, which may quote what the client has sent.
_MOST_CHARACTERS: Final = 256

_told: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


def collect_warnings() -> list[str]:
    """Return where the warnings of the call that begins here are collected."""
    found: list[str] = []
    _told.set(found)
    return found


def add_warnings(*texts: str) -> None:
    """Warn the client of the call under way, once of the same."""
    found = _told.get()
    if found is not None:
        found += [text for text in dict.fromkeys(texts) if text not in found]


def header(text: str) -> str:
    """Return a warning as a header says it."""
    return f'299 - "{_quoted(text[:_MOST_CHARACTERS])}"'


def _quoted(text: str) -> str:
    """Return a text as a header may quote it: names of unknown fields may hold any character."""
    plain = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
