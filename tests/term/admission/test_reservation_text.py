"""The annotation that has a unit's reservation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podsched.api.objects import Pod
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import Workload
from podsched.queues.quota import FlavorResource
from podsched.term.admission.reservation_text import (
    RESERVATION,
    RESERVED,
    read_reservation,
    reservation_text,
    start_text,
)
from podsched.term.admission.reserved_devices import PromisedDevice

EPOCH = 1_800_000_000.0
UNIT = Workload("default/pod:a", queue="team", priority=3, seconds=50.0)
START = "2027-01-15T08:00:05Z"
GOOD = {"start": START, "usage": {"spot/cpu": 8}, "nodes": {"n0": {"pods": 1}}}


def read(text: str, said: str = f"It {start_text(START)}, reserved on nodes n0") -> Any:
    """What a pod is promised with this annotation, and this message of its condition."""
    pod = Pod()
    pod.metadata.annotations[RESERVATION] = text
    pod.status.conditions.add(type=RESERVED, status="True", message=said)
    return read_reservation(pod, UNIT)


def test_a_written_reservation_reads_back() -> None:
    made = Reservation(
        "team",
        3,
        EPOCH + 5,
        50.0,
        {FlavorResource("spot", "example.com/gpu"): 8},
        {"n0": {"cpu": 8000, "pods": 2}},
        (PromisedDevice("driver", "pool", "gpu-0", "share", (("memory", "1Gi"),)),),
    )
    assert read(reservation_text(made)) == made


@pytest.mark.parametrize(
    "change",
    [
        {"start": "soon"},
        {"start": 5},
        {"usage": {"cpu": 8}},
        {"usage": {"spot/cpu": -1}},
        {"usage": {"spot/cpu": 1 << 62}},
        {"usage": {"spot/cpu": 0.5}},
        {"nodes": ["n0"]},
        {"nodes": {"n0": None}},
        {"devices": [["driver", "pool"]]},
        {"devices": 1},
        {"devices": [["driver", "pool", "gpu-0", "share", [["memory", "abc"]]]]},
        {"devices": [["driver", "pool", "gpu-0", "share", [["memory", "-1"]]]]},
        {"devices": [["driver", "pool", "gpu-0"]] * 1_001},
    ],
    ids=lambda change: str(change)[:80],
)
def test_a_reservation_with_a_wrong_value_cannot_be_read(change: dict[str, Any]) -> None:
    assert read(json.dumps(GOOD)) is not None
    assert read(json.dumps(GOOD | change)) is None


@pytest.mark.parametrize("text", ["", "x", "null", "[]", "{}", "[" * 100_000], ids=len)
def test_a_text_that_is_no_reservation_cannot_be_read(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("start", "read_as"),
    [("2027-01-15T08:00:04Z", 5.0), ("2026-01-15", 5.0), ("2027-01-15T08:00:09Z", 9.0)],
)
def test_a_start_is_no_earlier_than_the_condition_tells(start: str, read_as: float) -> None:
    assert read(json.dumps(GOOD | {"start": start})).start == EPOCH + read_as


@pytest.mark.parametrize("said", ["", "The start at 2027-01-15T08:00:05Z is withdrawn: no room"])
def test_a_start_that_the_condition_does_not_tell_does_not_count(said: str) -> None:
    assert read(json.dumps(GOOD), said) is None
