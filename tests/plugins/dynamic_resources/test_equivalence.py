"""What the search leaves out changes no result."""

from __future__ import annotations

from hypothesis import given, settings

from podsched.plugins.dynamic_resources.cases import run_case
from support.device_world import AttributeSelector, Document, cases


@settings(max_examples=300)
@given(cases())
def test_the_pruned_search_finds_what_the_plain_search_finds(case: Document) -> None:
    pruned = run_case(case, AttributeSelector)
    assert pruned == run_case(case, AttributeSelector, prune=False)
