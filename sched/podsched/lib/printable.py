"""Makes untrusted text fit to be shown in a terminal or a log: control characters are escaped.

A stored name or message may contain escape sequences that move the cursor, change the window title,
hide preceding text, or reverse the writing direction.
"""

from __future__ import annotations

import re

# C0 controls, DEL, C1 controls, characters that set the writing direction, and surrogates, which
# cannot be encoded as UTF-8.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_KEPT = "\n\t"


def printable(text: str, keep: str = _KEPT) -> str:
    """Return the text with control characters escaped as in Python, except those in ``keep``."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def printable_line(text: str) -> str:
    """Return the text with all control characters escaped, including newlines and tabs."""
    return printable(text, "")


def shortened(text: str, most: int) -> str:
    """Return the text, cut to so many bytes of UTF-8 as kube-scheduler cuts notes of events."""
    if len(text) <= most // 4:
        return text  # A character has four bytes at most.
    raw = text.encode(errors="replace")
    if len(raw) <= most:
        return text
    return raw[: most - 4].decode(errors="ignore") + " ..."


def _escaped(character: str) -> str:
    return repr(character)[1:-1]
