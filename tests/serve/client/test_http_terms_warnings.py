"""Warnings in a call's metadata."""

from __future__ import annotations

from podsched.serve.client.http_terms import warnings_in


def test_the_text_of_each_warning_is_read_and_nothing_else() -> None:
    metadata = (
        ("x-request-id", "abc"),
        ("warning", '299 - "say \\\\ and \\"no\\""'),
        ("warning", "299 - without quotes"),
        ("warning", b"bytes"),
        ("warning", '199 agent "b" "Tue, 15 Nov 1994"'),
    )
    assert [*warnings_in(metadata)] == ['say \\ and "no"', "b"]
    assert [*warnings_in(None)] == []
