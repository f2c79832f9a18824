"""Lines and JSON of files that anybody may have written."""

from __future__ import annotations

import io

import pytest

from podsched.lib.bounded_text import SizeExceeded, bounded_lines, parse_json


def test_lines_come_with_their_ends() -> None:
    assert list(bounded_lines(io.BytesIO(b"a\n\nb"))) == [b"a\n", b"\n", b"b"]


def test_a_line_that_never_ends_is_too_much() -> None:
    with pytest.raises(SizeExceeded, match="more than 1 MiB in a line"):
        list(bounded_lines(io.BytesIO(bytes(3 << 20)), max_line=1 << 20))


def test_lines_that_never_end_are_too_much() -> None:
    with pytest.raises(SizeExceeded, match="in all"):
        list(bounded_lines(io.BytesIO(b"a\n" * 100), max_total=100))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"[]," * 100 + b"[]]", "more than 100 values"),
        (b'{"t": Infinity}', "Infinity is not a number"),
        (b'{"t": NaN}', "NaN is not a number"),
        (b"\xff", "can't decode"),
        (b'["\\ud800"]', "surrogates not allowed"),
    ],
)
def test_what_is_not_plain_json_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_json(text, max_values=100 if b"[]" in text else 1_000_000)


def test_json_is_read() -> None:
    assert parse_json(b'{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    assert parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"
