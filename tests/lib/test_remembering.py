from __future__ import annotations

from podsched.lib.remembering import remember_short

asked: list[str] = []


@remember_short(entries=2, longest=3)
def doubled(text: str) -> str:
    """Return the text twice."""
    asked.append(text)
    return text + text


def test_results_of_short_texts_are_remembered_and_those_of_long_ones_are_not() -> None:
    asked.clear()
    assert [doubled(text) for text in ("abc", "abcd") * 2] == ["abcabc", "abcdabcd"] * 2
    assert asked == ["abc", "abcd", "abcd"]


def test_no_more_results_are_remembered_than_there_are_entries() -> None:
    asked.clear()
    for text in ("x", "y", "z", "x"):
        doubled(text)
    assert asked == ["x", "y", "z", "x"]
