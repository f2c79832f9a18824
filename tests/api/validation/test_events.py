"""Events: what core/v1 takes, and what events.k8s.io/v1 takes of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from podsched.api.objects import Event
from podsched.api.validation import validate
from podsched.api.validation.events import validate_new_event, validate_new_event_update
from podsched.api.validation.place import errors_of


def new_event(change: Callable[[Event], object] = lambda event: None) -> Event:
    event = Event(
        reason="Scheduled",
        action="Binding",
        type="Normal",
        reporting_controller="example/scheduler",
        reporting_instance="one",
    )
    event.metadata.name, event.metadata.namespace = "web.1", "default"
    event.involved_object.namespace, event.involved_object.name = "default", "web"
    event.event_time.seconds = 1
    change(event)
    return event


def _series(count: int) -> Callable[[Event], object]:
    return lambda event: event.series.CopyFrom(Event(series={"count": count}).series)  # type: ignore[arg-type]


def test_what_a_scheduler_writes_is_taken_by_both_groups() -> None:
    assert validate("Event", new_event()) == errors_of(validate_new_event, new_event()) == []


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (lambda e: setattr(e, "action", ""), ["action: Required value"]),
        (
            lambda e: setattr(e, "reporting_instance", "x" * 129),
            ['reportingInstance: Invalid value: "": can have at most 128 characters'],
        ),
        (
            lambda e: setattr(e, "message", "é" * 513),
            ['message: Invalid value: "": can have at most 1024 characters'],
        ),
        (
            lambda e: setattr(e.involved_object, "namespace", ""),
            [],
        ),
        (
            lambda e: (e.ClearField("event_time"), setattr(e.involved_object, "namespace", "x")),
            ['involvedObject.namespace: Invalid value: "x": does not match event.namespace'],
        ),
        (lambda e: (e.ClearField("event_time"), setattr(e, "action", "")), []),
    ],
)
def test_an_event_with_a_time_says_who_reports_what(
    change: Callable[[Event], object], texts: list[str]
) -> None:
    assert [str(error) for error in validate("Event", new_event(change))] == texts


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (lambda e: e.ClearField("event_time"), ["eventTime: Required value"]),
        (lambda e: setattr(e, "type", "Odd"), ['type: Invalid value: "": has invalid value: Odd']),
        (lambda e: setattr(e, "count", 1), ['count: Invalid value: "": needs to be unset']),
        (
            lambda e: setattr(e.source, "host", "n1"),
            ['source: Invalid value: "": needs to be unset'],
        ),
        (
            _series(1),
            [
                'series.count: Invalid value: "": should be at least 2',
                "series.lastObservedTime: Required value",
            ],
        ),
    ],
)
def test_a_new_event_of_the_newer_group_has_nothing_of_the_older(
    change: Callable[[Event], object], texts: list[str]
) -> None:
    assert [str(error) for error in errors_of(validate_new_event, new_event(change))] == texts


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (
            lambda e: e.series.last_observed_time.FromSeconds(2),
            ['series.count: Invalid value: "": should be at least 2'],
        ),
        (lambda e: setattr(e, "message", "b"), ['message: Invalid value: "b": field is immutable']),
        (
            lambda e: e.event_time.FromSeconds(2),
            ['eventTime: Invalid value: "1970-01-01T00:00:02Z": field is immutable'],
        ),
        (
            lambda e: setattr(e.related, "kind", "Node"),
            ['related: Invalid value: {"kind":"Node"}: field is immutable'],
        ),
    ],
)
def test_nothing_but_the_series_changes_through_the_newer_group(
    change: Callable[[Event], object], texts: list[str]
) -> None:
    old = new_event()
    found = [str(error) for error in errors_of(validate_new_event_update, new_event(change), old)]
    assert found == texts


def test_a_series_goes_on() -> None:
    def counted(event: Event) -> None:
        event.series.count = 2
        event.series.last_observed_time.seconds = 2

    assert errors_of(validate_new_event_update, new_event(counted), new_event()) == []
