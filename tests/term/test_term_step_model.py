"""What a replica does as leadership comes and goes, against all that can happen to it."""

from __future__ import annotations

import pytest

from support.term_model import World, explore


def test_a_replica_keeps_the_invariants_in_every_reachable_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In whatever order things happen, and however late what was asked for comes."""
    states, complete = explore(World(), limit=200_000)
    with capsys.disabled():
        print(f"\nterms: {states} states{', which are all' if complete else ''}", end=" ")
    assert complete
