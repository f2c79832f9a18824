"""Label selectors, of manifests and as text."""

from __future__ import annotations

import tracemalloc

import pytest

from podsched.api.objects import LabelSelector
from podsched.api.selectors import (
    MAX_REQUIREMENTS,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    from_labels,
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


@pytest.mark.parametrize("text", ["-a=b", "!a/", "a" * 64, "a=-b", "a notin (b,\0)"])
def test_selector_text_of_labels_that_no_object_can_have_is_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="Invalid value"):
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


def test_long_texts_are_not_remembered() -> None:
    """A cache counts entries: 1,000 selectors of 64 KiB would stay in memory as gigabytes."""
    tracemalloc.start()
    try:
        for number in range(30):
            values = ",".join(f"v{at}" for at in range(2000))
            parse_selector(f"k{number} in ({values})")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 << 20


def test_a_text_that_no_request_can_hold_is_refused() -> None:
    with pytest.raises(SelectorError, match="at most 65536 characters"):
        parse_selector("a" * 70_000)


def test_a_selector_has_a_bounded_number_of_requirements() -> None:
    text = ",".join(f"!a{number}" for number in range(MAX_REQUIREMENTS))
    assert parse_selector(text).matches({})
    with pytest.raises(SelectorError, match="at most 100 requirements"):
        parse_selector(text + ",b")


def test_a_label_that_a_selector_requires_is_one_with_a_single_value() -> None:
    assert from_labels({"app": "web"}).required_label == ("app", "web")
    either = Selector((Requirement("app", "In", frozenset(("a", "b"))),))
    assert either.required_label is None
    assert Selector((Requirement("app", "Exists"),)).required_label is None
    assert NOTHING.required_label is None
