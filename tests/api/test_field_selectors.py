"""Field selectors."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from podsched.api.field_selectors import MAX_TERMS, parse_field_selector
from podsched.api.objects import Pod
from podsched.api.selectors import SelectorError
from support.processor_time import exceeds


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


def test_long_texts_are_not_remembered() -> None:
    """A cache counts entries: 1,000 selectors of 64 KiB would stay in memory as gigabytes."""
    tracemalloc.start()
    try:
        for number in range(30):
            parse_field_selector(f"metadata.name={number}{'k' * 60_000},spec.nodeName=n")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 << 20


def test_a_text_that_no_request_can_hold_is_refused() -> None:
    with pytest.raises(SelectorError, match="at most 65536 characters"):
        parse_field_selector("a" * 70_000)


def test_blanks_are_read_once() -> None:
    """Any caller can send them; 16,000 kept a server busy for hours."""
    began = time.thread_time()
    with pytest.raises(SelectorError, match="invalid selector"):
        parse_field_selector("metadata.name=" + " " * 1500 + "\\")
    assert not exceeds(time.thread_time() - began, 0.5)


def test_a_value_is_trimmed_and_unescaped() -> None:
    found = parse_field_selector(r" metadata.name = a\,b\=c , spec.nodeName != n ")
    assert [(t.path, t.equal, t.value) for t in found.terms] == [
        ("metadata.name", True, "a,b=c"),
        ("spec.nodeName", False, "n"),
    ]


def test_a_field_selector_has_a_bounded_number_of_terms() -> None:
    text = ",".join(["spec.nodeName!=a"] * MAX_TERMS)
    assert len(parse_field_selector(text).terms) == MAX_TERMS
    with pytest.raises(SelectorError, match="at most 50 terms"):
        parse_field_selector(text + ",spec.nodeName=b")
