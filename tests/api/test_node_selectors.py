"""Node selectors."""

from __future__ import annotations

import tracemalloc

import pytest

from podsched.api.node_selectors import compile_node_selector
from podsched.api.objects import NodeSelector


def node_selector(*terms: tuple[str, str, list[str]]) -> NodeSelector:
    selector = NodeSelector()
    for key, operator, values in terms:
        term = selector.node_selector_terms.add()
        target = term.match_fields if key == "metadata.name" else term.match_expressions
        target.add(key=key, operator=operator, values=values)
    return selector


def test_one_matching_node_term_is_enough() -> None:
    terms = compile_node_selector(
        node_selector(("zone", "In", ["a"]), ("metadata.name", "In", ["n7"]))
    )
    assert terms.matches({"zone": "a"}, "n1")
    assert terms.matches({}, "n7")
    assert not terms.matches({"zone": "b"}, "n1")


def test_an_empty_node_term_matches_no_node() -> None:
    selector = NodeSelector()
    selector.node_selector_terms.add()
    assert not compile_node_selector(selector).matches({}, "n1")


@pytest.mark.parametrize(
    ("operator", "label", "matches"),
    [("Gt", "11", True), ("Gt", "10", False), ("Lt", "9", True), ("Gt", "1_1", False)],
)
def test_gt_and_lt_compare_whole_numbers(operator: str, label: str, matches: bool) -> None:
    terms = compile_node_selector(node_selector(("gen", operator, ["10"])))
    assert terms.matches({"gen": label}, "n") == matches


def test_an_invalid_node_term_spoils_only_itself() -> None:
    selector = node_selector(("gen", "Gt", ["many"]), ("zone", "Exists", []))
    assert compile_node_selector(selector).matches({"zone": "", "gen": "3"}, "n")
    assert not compile_node_selector(selector).matches({"gen": "3"}, "n")


def test_large_selectors_are_not_remembered() -> None:
    """A cache counts entries: 16,384 selectors of 1 MB would stay in memory."""
    tracemalloc.start()
    try:
        for number in range(20):
            compile_node_selector(node_selector(("k", "In", [f"{number}" * 50_000])))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 19
