"""Warnings of the call under way."""

from __future__ import annotations

from podsched.serve.server.call_warnings import add_warnings, collect_warnings, header


def test_a_call_has_the_warnings_that_came_within_it_each_once() -> None:
    before = collect_warnings()
    add_warnings("a")
    within = collect_warnings()
    for text in ("b", "c", "b"):
        add_warnings(text)
    assert (before, within) == (["a"], ["b", "c"])


def test_a_header_holds_any_text_and_not_much_of_it() -> None:
    assert header('line\r\n"\u20ac') == '299 - "line\\\\r\\\\n\\"\\\\u20ac"'
    assert len(header("x" * 999)) < 300
