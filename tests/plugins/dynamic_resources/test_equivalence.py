"""What the search leaves out changes no result."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings

from podsched.plugins.dynamic_resources import search
from podsched.plugins.dynamic_resources.cases import run_case
from support.device_world import AttributeSelector, Document, cases


@settings(max_examples=300)
@given(cases())
def test_the_pruned_search_finds_what_the_plain_search_finds(case: Document) -> None:
    """Also if failed states are remembered from the first one on, and devices are counted."""
    plain = run_case(case, AttributeSelector, prune=False)
    assert run_case(case, AttributeSelector) == plain
    with patch.object(search, "_EASY", 0):
        assert run_case(case, AttributeSelector) == plain
