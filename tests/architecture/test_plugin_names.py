"""Code that schedules knows plugins by what they declare, never by their names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from podsched.registry import BUILT_IN

SOURCE = Path(__file__).parents[2] / "sched" / "podsched"
NAME = re.compile(rf"\b({'|'.join(BUILT_IN)})\b")


def named_plugins(source: str) -> list[str]:
    """Return the plugins whose names stand in string literals; those in docstrings do not count."""
    if not NAME.search(source):
        return []
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        f"{name}, line {node.lineno}"
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in docstrings
        for name in NAME.findall(node.value)
    ]


def test_names_in_literals_are_found_and_those_in_docstrings_are_not() -> None:
    source = '"""NodeName."""\nx = {"NodeName", "NodeNames", f"of {x} NodePorts"}  # ImageLocality'
    assert named_plugins(source) == ["NodeName, line 2", "NodePorts, line 2"]


@pytest.mark.parametrize(
    "package", ["actors", "cache", "decide", "framework", "queue", "queues", "term"]
)
def test_no_plugin_is_known_by_its_name(package: str) -> None:
    modules = list((SOURCE / package).rglob("*.py"))
    assert modules
    found = {str(path.relative_to(SOURCE)): named_plugins(path.read_text()) for path in modules}
    assert {path: names for path, names in found.items() if names} == {}
