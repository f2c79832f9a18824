import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.config.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("0", 0.0),
        ("-1m", -60.0),
        ("+2s", 2.0),
        ("1h0m0.25s", 3600.25),
    ],
)
def test_durations_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "15", "s", "-", "1x", "1 s", "1m 30s", "١s", ".s", "1d", "300000h1s" * 9]
)
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)


def test_a_number_beyond_what_decimals_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 292 years"):
        parse_duration("9" * 1_000_000 + "h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (15, "15s"),
        (90, "1m30s"),
        (3600, "1h0m0s"),
        (0.5, "500ms"),
        (0.0015, "1.5ms"),
        (2e-6, "2µs"),
        (3e-9, "3ns"),
        (-60, "-1m0s"),
        (1.25, "1.25s"),
    ],
)
def test_durations_print_as_go_prints_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_a_printed_duration_reads_back(nanoseconds: int) -> None:
    seconds = nanoseconds / 1e9
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
