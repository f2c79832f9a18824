"""Keys stay in order, however they come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.serve.server import kind_objects
from podsched.serve.server.kind_objects import KeyOrder

keys = st.text("abc", max_size=3)


@given(st.sets(keys), st.lists(st.one_of(keys, st.none()), max_size=60), st.integers(1, 5))
def test_keys_are_those_that_came_and_did_not_go_in_order(
    first: set[str], changes: list[str | None], most: int
) -> None:
    """None: they are asked for in between."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kind_objects, "MAX_UNMERGED", most)
        order, expected = KeyOrder(first), set(first)
        for key in changes:
            if key is None:
                assert list(order.in_order()) == sorted(expected)
            elif key in expected:
                expected.remove(key)
                order.remove(key)
            else:
                expected.add(key)
                order.add(key)
        assert list(order.in_order()) == sorted(expected)
