"""JSON is bounded before it is unfolded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api import json_text
from podsched.api.json_text import MAX_DEPTH, MAX_VALUES, load_json


def refuse(pairs: list[tuple[str, Any]]) -> None:
    raise AssertionError("it was unfolded")


@pytest.mark.parametrize("item", [b"{}", b"[]", b"0", b'""', b'"\\""', b'{"a":{"b":[0]}}'])
def test_text_of_too_many_values_is_refused_before_it_is_unfolded(item: bytes) -> None:
    with pytest.raises(ValueError, match="more than 50,000 values"):
        load_json(b"[" + b",".join([item] * (MAX_VALUES + 1)) + b"]", refuse)


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"]":', b"}]")])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 2, 20_000])
def test_text_of_too_many_levels_is_refused_before_it_is_unfolded(
    start: bytes, end: bytes, levels: int
) -> None:
    with pytest.raises(ValueError, match="nested more than 500 levels deep"):
        load_json(start * levels + b"1" + end * levels, refuse)


def test_many_lists_side_by_side_are_not_deep() -> None:
    assert load_json(b"[" + b",".join([b'["[["]'] * 2000) + b"]") == [["[["]] * 2000


def test_as_many_levels_as_permitted_are_read() -> None:
    content = load_json(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    assert content["a"]["a"]["a"]


def test_what_stands_within_a_string_is_no_value() -> None:
    text = '[{,"\\' * MAX_VALUES
    assert load_json(json.dumps([text, "a"]).encode()) == [text, "a"]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text('[]{},:"\\ä'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('{,"\\'), inner),
    max_leaves=30,
)


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(json_values, st.booleans(), st.data())
def test_text_is_refused_if_and_only_if_it_may_hold_too_many_values(
    value: Any, ascii_only: bool, data: st.DataObject
) -> None:
    limit = data.draw(st.integers(1, 2 * count(value)))
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "MAX_VALUES", limit)
        try:
            assert load_json(text) == value
        except ValueError:
            # An empty list or object is counted as one with a value in it.
            assert 2 * count(value) > limit
        else:
            assert count(value) <= limit


@pytest.mark.parametrize("raw", [b'"\\ud800"', b'{"\\uDFFF": 1}', '"ä"'.encode("utf-16"), b"\xff"])
def test_what_is_no_unicode_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        load_json(raw)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert load_json(b'"\\ud83d\\ude00"') == "\U0001f600"
