"""Reading a history from its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podsched.lab.chaos.history import load
from podsched.lab.chaos.records import HistoryError, decode, encode
from support.chaos_history import good_story


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_history_is_read_as_it_was_recorded(tmp_path: Path) -> None:
    story = good_story()
    path = written(tmp_path / "h", *map(encode, story.records))
    assert load(path) == story.history


def test_half_a_line_at_the_end_of_a_run_that_was_killed_is_left_out(tmp_path: Path) -> None:
    story = good_story()
    path = written(tmp_path / "h", *map(encode, story.records))
    with path.open("a") as file:
        file.write('{"revision": {"at": 1')
    assert load(path) == story.history


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ((), "it is empty"),
        (("{}",), "line 1: not an object with one key"),
        (('{"begin":{"version":2}}', "x"), "line 2: not JSON"),
        (('{"begin":{"version":9}}',), "line 1: it has version 9; this sched reads 2"),
        (('{"settled":{"at":1}}',), 'line 1: the first line is no "begin"'),
        (('{"begin":{"version":2}}',) * 2, "line 2: a second beginning"),
        (('{"begin":{"version":2}}', '{"other":{}}'), 'line 2: unknown record "other"'),
        (('{"begin":{"version":2}}', '{"end":{"at":"x"}}'), "line 2: end.at: "),
        (('{"begin":{"version":2}}', '{"end":{"at":NaN}}'), "line 2: end.at: "),
        (('{"begin":{"version":2}}', '{"end":{"at":1e9}}'), "line 2: end.at: "),
        (('{"begin":{"version":2}}', "[" * 200_000), "line 2: not JSON: nested too deeply"),
        (
            (
                '{"begin":{"version":2}}',
                '{"revision":{"at":1,"number":1,"changes":[{"key":"pods/a/b","object":5}]}}',
            ),
            "line 2: revision.changes.0.object: Value error, 5 is not an object",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(
    tmp_path: Path, lines: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(HistoryError) as failed:
        load(written(tmp_path / "h", *lines))
    assert str(failed.value).startswith(problem)


def test_a_mistake_of_a_million_characters_is_told_in_a_line() -> None:
    change = {"key": "pods/a/b", "object": "x" * 10**6}
    with pytest.raises(HistoryError, match="is not an object") as failed:
        decode(json.dumps({"revision": {"at": 1, "number": 1, "changes": [change]}}))
    assert len(str(failed.value)) < 200
