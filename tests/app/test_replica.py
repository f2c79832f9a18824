"""Who a replica is."""

from __future__ import annotations

from podsched.app.replica import unique_identity


def test_two_processes_of_one_name_are_never_taken_for_each_other() -> None:
    first, second = unique_identity("replica-1"), unique_identity("replica-1")
    assert first != second
    assert first.rpartition("_")[0] == second.rpartition("_")[0] == "replica-1"
