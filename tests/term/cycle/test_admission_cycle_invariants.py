"""What holds in any history of queues: see ``support.random_queues``, which runs longer ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.random_queues import run


@given(seed=st.integers(0, 1_000_000))
@examples(40, deadline=None)
def test_usage_is_permitted_and_counted_and_no_unit_is_forgotten(seed: int) -> None:
    """Also while leaders die, and jobs, nodes and quotas change."""
    run(seed, 60, backfills=False)


@given(seed=st.integers(0, 1_000_000))
@examples(40, deadline=None)
def test_promised_starts_are_kept_or_withdrawn_for_a_reason(seed: int) -> None:
    run(seed, 60, backfills=True)


@pytest.mark.parametrize("seed", [4, 6, 12])
def test_a_history_with_backfill_has_promised_starts(seed: int) -> None:
    assert run(seed, 150).promises.made > 0
