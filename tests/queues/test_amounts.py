"""Amounts as Kueue prints them."""

from __future__ import annotations

import pytest

from podsched.queues.amounts import amount, amount_text


@pytest.mark.parametrize(
    ("resource", "number", "text"),
    [
        ("cpu", 1000, "1"),
        ("cpu", 1500, "1500m"),
        ("cpu", 0, "0"),
        ("memory", 5 << 20, "5Mi"),
        ("memory", 1500, "1500"),
        ("memory", 10_000, "10k"),
        ("hugepages-2Mi", 4 << 21, "8Mi"),
        ("example.com/gpu", 2000, "2k"),
        ("pods", 3, "3"),
    ],
)
def test_an_amount_is_printed_in_the_canonical_form(resource: str, number: int, text: str) -> None:
    assert amount_text(resource, number) == text
    assert amount(resource, text) == number
