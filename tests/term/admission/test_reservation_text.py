"""The annotation that has a unit's reservation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import Workload
from podsched.queues.quota import FlavorResource
from podsched.term.admission.reservation_text import parse_reservation, reservation_text
from podsched.term.admission.reserved_devices import PromisedDevice

EPOCH = 1_800_000_000.0
UNIT = Workload("default/pod:a", queue="team", priority=3, seconds=50.0)
GOOD = {"start": "2027-01-15T08:00:05Z", "usage": {"spot/cpu": 8}, "nodes": {"n0": {"pods": 1}}}


def test_a_written_reservation_reads_back() -> None:
    made = Reservation(
        "team",
        3,
        5.0,
        50.0,
        {FlavorResource("spot", "example.com/gpu"): 8},
        {"n0": {"cpu": 8000, "pods": 2}},
        (PromisedDevice("driver", "pool", "gpu-0", "share", (("memory", "1Gi"),)),),
    )
    assert parse_reservation(reservation_text(made, GOOD["start"]), UNIT, EPOCH) == made


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
    ],
    ids=str,
)
def test_a_reservation_with_a_wrong_value_cannot_be_read(change: dict[str, Any]) -> None:
    assert parse_reservation(json.dumps(GOOD), UNIT, EPOCH) is not None
    assert parse_reservation(json.dumps(GOOD | change), UNIT, EPOCH) is None


@pytest.mark.parametrize("text", ["", "x", "null", "[]", "{}", "[" * 100_000], ids=len)
def test_a_text_that_is_no_reservation_cannot_be_read(text: str) -> None:
    assert parse_reservation(text, UNIT, EPOCH) is None
