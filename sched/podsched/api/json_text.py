"""Parse JSON of others, with limits that are checked before parsing.

Three bytes of text, ``{},``, become 64 in memory as an object of Python, 280 as a message, and four
times as much again in what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

from podsched.lib.bounded_text import separators

#: Values that one text may hold, keys not counted: an object has at most 1,000 items in most of its
#: lists, and some ten values in each.
MAX_VALUES: Final = 50_000
#: Levels of one text. Storable objects have far fewer, and Python's parser has room for some 900.
MAX_DEPTH: Final = 500
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def load_json(
    raw: bytes, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse JSON. Raises ValueError, also for too many values and for too many levels.

    Text that is not Unicode, such as half a surrogate pair, is refused: nothing could be answered
    that quotes it.
    """
    text = raw.decode()
    if number_of_values(raw, MAX_VALUES) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    content = json.loads(text, object_pairs_hook=object_pairs_hook)
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(content, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("not Unicode text, it has half a surrogate pair") from None
    return content


def number_of_values(raw: bytes, most: int) -> int:
    """Return an upper bound for the number of values in JSON.

    A bound above ``most`` leaves out what is in strings.
    """
    # An estimate, which costs a millisecond for each megabyte.
    found = separators(raw)
    return 1 + (found if found < most else separators(_without_strings(raw)))


def _depth(raw: bytes) -> int:
    """Return the number of levels of JSON."""
    brackets = (_STEPS[byte] for byte in _without_strings(raw) if byte in _STEPS)
    return max(accumulate(brackets), default=0)


def _without_strings(text: bytes) -> bytes:
    """Return the text outside of string literals."""
    return b"".join(text.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
