"""Events of one source about one object: how many are taken."""

from __future__ import annotations

import pytest

from podsched.api.objects import Event
from podsched.serve.server.errors import ApiError
from podsched.serve.server.expiry import BURST, EVERY, KEPT, EventRates


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def event(name: str = "web", source: str = "scheduler") -> Event:
    message = Event()
    message.source.component = source
    message.involved_object.kind = "Pod"
    message.involved_object.name = name
    return message


def taken(rates: EventRates, message: Event, count: int) -> int:
    """Return how many of these Events are taken."""
    found = 0
    for _ in range(count):
        try:
            rates.admit(message)
            found += 1
        except ApiError:
            continue
    return found


def test_a_source_that_reports_in_a_loop_is_refused_after_a_burst() -> None:
    rates = EventRates(Clock())
    assert taken(rates, event(), 100) == BURST
    with pytest.raises(ApiError, match="scheduler reports too many Events") as refused:
        rates.admit(event())
    assert refused.value.retry_after == EVERY


def test_other_objects_and_other_sources_are_not_affected() -> None:
    rates = EventRates(Clock())
    taken(rates, event(), 100)
    assert taken(rates, event("other"), 1) == 1
    assert taken(rates, event(source="agent"), 1) == 1


def test_tokens_come_back_with_time() -> None:
    clock = Clock()
    rates = EventRates(clock)
    taken(rates, event(), 100)
    clock.now = 2 * EVERY
    assert taken(rates, event(), 100) == 2


def test_only_so_many_buckets_are_kept() -> None:
    rates = EventRates(Clock())
    taken(rates, event(), 100)
    for number in range(KEPT):
        rates.admit(event(f"pod-{number}"))
    assert taken(rates, event(), 1) == 1


def test_buckets_of_long_names_take_no_more_memory() -> None:
    rates = EventRates(Clock())
    rates.admit(event("x" * 50_000, source="y" * 50_000))
    assert len(repr(rates._full_at)) < 1000
