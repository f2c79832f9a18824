"""Text of strangers on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.lib.printable import printable, printable_line, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\tc", "a\nb\tc"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31mred\x7f", "\\x9b31mred\\x7f"),
        ("over\rwritten\x00", "over\\rwritten\\x00"),
        ("\u202ekcab", "\\u202ekcab"),
        ("caf\u00e9 \U0001f680", "caf\u00e9 \U0001f680"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_in_a_line_newlines_are_control_characters() -> None:
    assert printable_line("a\nb\t") == "a\\nb\\t"


@given(st.text())
def test_nothing_that_moves_the_cursor_is_left(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown if c not in "\n\t")


def test_a_text_of_so_many_bytes_is_left_alone() -> None:
    assert shortened("x" * 1024, 1024) == "x" * 1024


def test_a_longer_text_is_cut_and_ends_in_dots() -> None:
    assert shortened("x" * 1025, 1024) == "x" * 1020 + " ..."


def test_a_cut_does_not_split_a_character() -> None:
    cut = shortened("x" + "ä" * 600, 1024)
    assert len(cut.encode()) <= 1024
    assert cut == "x" + "ä" * 509 + " ..."
