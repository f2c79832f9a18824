"""An outcome's groups say of every row what the row's own status says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.framework.filter_outcome import EXCLUDED, PASSED, FilterOutcome
from podsched.framework.status import Code, unresolvable
from podsched.framework.verdicts import Reason

REASONS = ((Reason(Code.UNSCHEDULABLE, "short"), Reason(Code.ERROR, "broken")),) * 2
ROWS = st.lists(st.tuples(st.sampled_from((EXCLUDED, PASSED, 0, 1)), st.sampled_from((1, 2, 3))))
UNIFORM = st.tuples(st.sampled_from((PASSED, 1)), st.integers(1, 5)).map(
    lambda p: [(p[0], 1)] * p[1]
)


@given(ROWS | UNIFORM)
def test_every_row_is_in_the_one_group_of_its_plugin_and_its_status(
    rows: list[tuple[int, int]],
) -> None:
    outcome = FilterOutcome(
        np.arange(len(rows)) + 100,
        np.array([plugin for plugin, _ in rows], dtype=np.int16),
        np.array([word for _, word in rows], dtype=np.uint64),
        ("First", "Second"),
        REASONS,
        unresolvable("left out"),
    )
    found = {
        place: (group.plugin, group.status)
        for group in outcome.groups
        for place in group.places.tolist()
    }
    assert found == {i: (plugin, outcome.status(i)) for i, (plugin, _) in enumerate(rows)}
    assert sum(len(group.places) for group in outcome.groups) == len(rows)
    named = [(group.plugin, group.status) for group in outcome.groups]
    assert len(named) == len(set(named))
