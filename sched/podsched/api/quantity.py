"""Kubernetes' quantities ("100m", "1.5Gi", "2E3"), read exactly.

Values are exact fractions; nothing passes through floating point. As in Kubernetes
(k8s.io/apimachinery/pkg/api/resource) what is finer than a nano is rounded up (away from zero),
``value`` and ``milli_value`` round up likewise, and integers saturate at the bounds of int64.

Non-goal: keeping the suffix; messages keep the string as it was written.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
_NANO = 10**9
#: Longest text that is read. Digits cost more than linear time to convert, and every text is
#: remembered; the longest quantity of any use has some 30 characters.
MAX_LENGTH = 128
# Each digit can be matched in one way only: with "[0-9]+[.]?[0-9]*" a text that fails at its end
# would be tried at every split of its digits.
_SYNTAX = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([A-Za-z]{0,2}|[eE][+-]?[0-9]{1,3})")
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NAMES_OF_BITS = {0: ""} | {bits: suffix for suffix, bits in BINARY.items()}
_NAMES_OF_EXPONENTS = {exponent: suffix for suffix, exponent in DECIMAL.items()}
#: Suffixes that need no rounding: (factor, divisor).
_EXACT: dict[str, tuple[int, int]] = (
    {suffix: (10**exponent, 1) for suffix, exponent in DECIMAL.items() if exponent >= 0}
    | {suffix: (2**bits, 1) for suffix, bits in BINARY.items()}
    | {"m": (1, 1000)}
)
_EXACT_LETTERS = "".join({letter for suffix in _EXACT for letter in suffix})
_CACHE = 1 << 16


class QuantityError(ValueError):
    """The text is not a quantity: a fault of its author."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )


@lru_cache(_CACHE)
def parse(text: str) -> Fraction:
    """Return the exact value. Raises QuantityError."""
    match = _SYNTAX.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise QuantityError(text)
    sign, digits, suffix = match.groups()
    whole, point, decimals = digits.partition(".")
    if not point and suffix in _EXACT and not sign:
        # Most quantities: no decimals, nothing finer than a milli. A quarter of the time.
        times, parts = _EXACT[suffix]
        number = int(whole)
        return Fraction(number * times) if parts == 1 else Fraction(number, parts)
    number = int((whole + decimals) or "0")
    scale = -len(decimals)
    if suffix in BINARY:
        scaled = Fraction(number * 2 ** BINARY[suffix], 10 ** len(decimals))
    else:
        scaled = _scaled(number, scale + _decimal_exponent(text, suffix))
    magnitude = Fraction(_ceil(scaled * _NANO), _NANO)
    return -magnitude if sign == "-" else magnitude


@lru_cache(_CACHE)
def canonical(text: str) -> str:
    """Return the quantity as Kubernetes writes it: the largest suffix without decimals.

    The family of the suffix stays, binary or decimal. Raises QuantityError.
    """
    value = parse(text)
    suffix = text.lstrip("+-0123456789.")
    if suffix in BINARY and abs(value) >= 1024:
        number = _int64_away_from_zero(value)
        bits = 0
        while bits < 60 and number % 1024 == 0:
            number, bits = number // 1024, bits + 10
        return f"{number}{_NAMES_OF_BITS[bits]}"
    scaled = value * _NANO
    number, exponent = scaled.numerator, -9
    while number and exponent < 18 and number % 1000 == 0:
        number, exponent = number // 1000, exponent + 3
    if not number:
        return "0"
    if len(suffix) > 1 and suffix[0] in "eE" and suffix[-1].isdigit():
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_NAMES_OF_EXPONENTS[exponent]}"


def _exactly(text: str, factor: int) -> int | None:
    """Return the value times a factor, rounded up; None unless it can be read at a glance."""
    digits = text.rstrip(_EXACT_LETTERS)
    exact = _EXACT.get(text[len(digits) :])
    # Without the regular expression, in half the time: a pod's own amounts are read once each.
    if exact is None or len(text) > MAX_LENGTH or not (digits.isascii() and digits.isdecimal()):
        return None
    times, parts = exact
    return min(-(-int(digits) * times * factor // parts), MAX_INT64)


def _decimal_exponent(text: str, suffix: str) -> int:
    if suffix in DECIMAL:
        return DECIMAL[suffix]
    if len(suffix) > 1 and suffix[0] in "eE" and suffix[-1].isdigit():
        return int(suffix[1:])
    raise QuantityError(text)


def _scaled(number: int, exponent: int) -> Fraction:
    return Fraction(number * 10**exponent) if exponent >= 0 else Fraction(number, 10**-exponent)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _int64_away_from_zero(value: Fraction) -> int:
    if value < 0:
        return max(-_ceil(-value), -MAX_INT64)
    return min(_ceil(value), MAX_INT64)


@lru_cache(_CACHE)
def value(text: str) -> int:
    """Return the value rounded up to an integer (bytes, pods, devices). Raises QuantityError."""
    exact = _exactly(text, 1)
    return _int64_away_from_zero(parse(text)) if exact is None else exact


@lru_cache(_CACHE)
def milli_value(text: str) -> int:
    """Return the value in thousandths, rounded up (millicores). Raises QuantityError."""
    exact = _exactly(text, 1000)
    return _int64_away_from_zero(parse(text) * 1000) if exact is None else exact


def format_decimal(amount: Fraction | int) -> str:
    """Return the shortest decimal form without a fraction: 500m, 2, 3k; rounded up to nanos."""
    nanos = _ceil(abs(Fraction(amount)) * _NANO)
    sign = "-" if amount < 0 else ""
    if nanos == 0:
        return "0"
    for suffix, exponent in reversed(DECIMAL.items()):
        unit = 10 ** (exponent + 9)
        if nanos % unit == 0:
            return f"{sign}{nanos // unit}{suffix}"
    raise AssertionError("one nano divides every number of nanos")


def format_quantity(amount: Fraction | int) -> str:
    """Return the shorter of the decimal and the binary form: 128M, 3Gi, 1500m."""
    decimal = format_decimal(amount)
    if amount and Fraction(amount).denominator == 1:
        for suffix, bits in reversed(BINARY.items()):
            whole, rest = divmod(int(amount), 1 << bits)
            if not rest:
                return min(decimal, f"{whole}{suffix}", key=len)
    return decimal


def as_int64(value: int) -> int:
    """Return a sum as Go's int64 holds it after an overflow."""
    if _MIN_INT64 <= value <= MAX_INT64:
        return value
    return (value - _MIN_INT64) % (1 << 64) + _MIN_INT64
