"""Text of strangers, made fit for a terminal or a log line.

A name or a message that somebody has stored may hold escape sequences, which move the cursor,
change the title or hide what stands before them, or turn the direction of writing.
"""

from __future__ import annotations

import re

# C0, DEL, C1, what turns the direction of writing, and surrogates, which no encoding takes.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_KEPT = "\n\t"


def printable(text: str, keep: str = _KEPT) -> str:
    """Return the text with control characters as escapes; those in ``keep`` stay as they are."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def printable_line(text: str) -> str:
    """Return the text as part of one line, newlines escaped, too."""
    return printable(text, "")


def _escaped(character: str) -> str:
    return repr(character)[1:-1]
