"""Quantities are exact."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api import quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", 1610612736),
        ("107374182400000m", 107374182400),
        ("7740000000n", Fraction(774, 100)),
        ("6452674.56k", 6452674560),
        ("2000000E3", 2000000000),
        ("1e-3", Fraction(1, 1000)),
        ("1E", 10**18),
        ("100E", 10**20),
        ("1Ei", 2**60),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+2k", 2000),
        ("-1.5", Fraction(-3, 2)),
        ("110.0", 110),
    ],
)
def test_a_quantity_is_read_exactly(text: str, expected: Fraction | int) -> None:
    assert quantity.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "K", "1K", "1ki", "1e", "1EE", "--1", "1.2.3", "1m1", "1_000", "٣"]
)
def test_what_is_not_a_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.parse(text)


@pytest.mark.parametrize("tail", ["!", "", "x" * 100])
def test_a_text_longer_than_any_quantity_is_refused_whatever_it_holds(tail: str) -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.parse("1" * 50_000 + tail)


def test_digits_are_matched_in_one_way_only() -> None:
    """Otherwise a text that fails at its end takes quadratic time: this one would take minutes."""
    assert quantity._SYNTAX.fullmatch("1" * 1_000_000 + "!") is None


def test_no_amount_has_more_digits_than_can_be_printed() -> None:
    """Python prints at most 4,300: sums of the largest amounts stay far below."""
    assert quantity.format_decimal(10 * quantity.parse("1e999"))
    for text in ("1e9999", "1e1000", "1e-1000"):
        with pytest.raises(quantity.QuantityError):
            quantity.parse(text)


def test_values_are_rounded_up_away_from_zero() -> None:
    assert quantity.value("1m") == 1
    assert quantity.value("1001m") == 2
    assert quantity.value("-1001m") == -2
    assert quantity.milli_value("1u") == 1


def test_what_is_finer_than_a_nano_counts_as_one() -> None:
    assert quantity.parse("0.0000000001") == Fraction(1, 10**9)


def test_integers_saturate_at_the_bounds_of_int64() -> None:
    assert quantity.value("100E") == quantity.MAX_INT64
    assert quantity.milli_value("9223372036854775807") == quantity.MAX_INT64


@given(st.integers(-(10**15), 10**15), st.sampled_from(["n", "u", "m", "", "k", "M", "G", "T"]))
def test_what_is_formatted_reads_back_the_same(number: int, suffix: str) -> None:
    amount = quantity.parse(f"{number}{suffix}")
    assert quantity.parse(quantity.format_decimal(amount)) == amount


@given(st.integers(0, 10**6), st.integers(0, 6))
def test_a_decimal_point_and_an_exponent_say_the_same(number: int, places: int) -> None:
    digits = str(number).rjust(places + 1, "0")
    pointed = f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}"
    assert quantity.parse(pointed) == quantity.parse(f"{number}e-{places}")


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("2000m", "2"),
        ("0.1", "100m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("1.2Gi", "1288490188800m"),
        ("-1.3Ki", "-1331200m"),
        ("1e3", "1e3"),
        ("1000", "1k"),
        ("1500M", "1500M"),
        ("0", "0"),
        ("-1", "-1"),
        ("1n", "1n"),
    ],
)
def test_a_quantity_has_one_canonical_form(written: str, canonical: str) -> None:
    assert quantity.canonical(written) == canonical
