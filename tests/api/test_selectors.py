"""Selectors over labels, fields and nodes."""

from __future__ import annotations

import pytest

from podsched.api.field_selectors import parse_field_selector
from podsched.api.objects import LabelSelector, NodeSelector, Pod
from podsched.api.selectors import (
    SelectorError,
    compile_node_selector,
    compile_selector,
    parse_selector,
)


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a=b", {"a": "b"}, True),
        ("a==b,c!=d", {"a": "b"}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (x, y)", {"a": "y"}, True),
        ("a notin (x,y)", {"a": "y"}, False),
        ("a notin (x,y)", {}, True),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "six"}, False),
        ("a<5", {"a": "-6"}, True),
        ("a=", {"a": ""}, True),
        ("app.kubernetes.io/name=web , tier", {"app.kubernetes.io/name": "web"}, False),
    ],
)
def test_selector_text_matches_as_in_kubernetes(
    text: str, labels: dict[str, str], matches: bool
) -> None:
    assert parse_selector(text).matches(labels) == matches


@pytest.mark.parametrize("text", ["a in x", "a in (", "a,,b", "=b", "a b", "a,", "a>x", "a in ()b"])
def test_broken_selector_text_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_selector(text)


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not compile_selector(None).matches({"a": "b"})
    assert compile_selector(LabelSelector()).matches({"a": "b"})


def test_equal_selectors_are_one_object() -> None:
    one, other = LabelSelector(match_labels={"a": "1", "b": "2"}), LabelSelector()
    other.match_labels["b"] = "2"
    other.match_expressions.add(key="a", operator="In", values=["1"])
    assert compile_selector(one) is compile_selector(other)


def test_a_label_selector_with_an_unknown_operator_is_refused() -> None:
    selector = LabelSelector()
    selector.match_expressions.add(key="a", operator="Near", values=["b"])
    with pytest.raises(SelectorError):
        compile_selector(selector)


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


def test_field_selectors_compare_what_a_manifest_shows() -> None:
    pod = Pod()
    pod.spec.node_name, pod.status.phase = "n1", "Running"
    assert parse_field_selector("spec.nodeName=n1,status.phase!=Failed").matches(pod)
    assert not parse_field_selector("spec.nodeName=").matches(pod)
    assert parse_field_selector("spec.hostNetwork=false").matches(pod)


@pytest.mark.parametrize("text", ["spec.nodename=n1", "spec=x", "spec.containers=x"])
def test_a_field_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="field label not supported"):
        parse_field_selector(text).matches(Pod())
