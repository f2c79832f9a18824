"""The table in docs/kubernetes.md has all controllers of the leader."""

from __future__ import annotations

import re
from pathlib import Path

from podsched.config.settings import CONTROLLERS
from podsched.term import controllers

PAGE = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text()


def test_the_table_has_each_name_that_the_option_takes() -> None:
    start = PAGE.index("| `--controllers` |")
    rows = PAGE[start : PAGE.index("\n\n", start)].splitlines()[2:]
    named = [name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(CONTROLLERS.values())


def test_each_controller_has_a_name_for_the_option() -> None:
    folder = Path(controllers.__path__[0])
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    assert set(re.findall(r'^    name = "([a-z-]+)"$', source, re.MULTILINE)) == set(CONTROLLERS)
