"""The benchmark of the scheduling queue."""

from __future__ import annotations

from podsched.lab.bench.queueing import run_queue


def test_the_event_that_helps_ten_pods_moves_ten() -> None:
    measured = run_queue(2_000)
    assert measured.helped == 10
    assert measured.microseconds.keys() == {
        "add",
        "pop",
        "return as unschedulable",
        "event that helps no pod",
        "event that helps 10 pods",
    }
