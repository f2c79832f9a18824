"""What a reader may rely on in every module, as far as ruff has no rule for it.

`make check` runs these with the linters.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "sched" / "podsched"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent.name != "v1")

MOST_LINES = 60
# Modules are parsed only if their text has something of the kind, which takes a tenth as long.
ONE_BACKTICK = r"(?<!`)`[^`]+`(?!`)"
RULE_CODE = r"\b[BDNPQS]\d{1,2}\b"

Finding = tuple[int, str]


def long_functions(source: str) -> Iterator[Finding]:
    """Yield the functions of more than 60 lines, with their signature and docstring."""
    if source.count("\n") <= MOST_LINES:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > MOST_LINES:
                yield node.lineno, node.name


def single_backticks(source: str) -> Iterator[Finding]:
    """Yield what docstrings have in single backticks: code stands in double ones."""
    if not re.search(ONE_BACKTICK, source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            for code in re.findall(ONE_BACKTICK, docstring):
                yield node.body[0].lineno, code


def other_loggers(source: str) -> Iterator[Finding]:
    """Yield loggers obtained otherwise than with ``get_logger("<component>")``."""
    if not re.search("logging|structlog|[gG]et_?[lL]ogger", source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if getattr(node, "module", None) in ("logging", "structlog") or "structlog" in names:
                yield node.lineno, f"import of {', '.join(names)}"
        elif isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(attr="getLogger" | "get_logger" as name):
                    yield node.lineno, name
                case ast.Name(id="get_logger") if not (
                    node.args and isinstance(node.args[0], ast.Constant)
                ):
                    yield node.lineno, "get_logger without a component"


def rule_codes(source: str) -> Iterator[Finding]:
    """Yield numbers of rules, such as Q13, that no document here defines."""
    if not re.search(RULE_CODE, source):
        return
    texts: list[Finding] = [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            texts.append((token.start[0], token.string))
    for line, text in texts:
        if "noqa" not in text:
            for code in re.findall(RULE_CODE, text):
                yield line, code


#: What changes a cluster. Trials have methods of the same names, and so have forks.
CHANGES = ("assume", "assume_many", "forget", "add_node", "update_node", "remove_node")


def changes_beside_trials(source: str) -> Iterator[Finding]:
    """Yield calls that change a cache or its columns for good."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=of)) if name in CHANGES:
                if re.search(r"(cache|columns|nodes|placed)$", ast.unparse(of)):
                    yield node.lineno, ast.unparse(node.func)


SAMPLE = '''
"""A module that shows `one` and ``two``."""

import logging
import structlog
from podsched.telemetry.logs import get_logger

log = logging.getLogger(__name__)
also = structlog.get_logger()
fine = get_logger("queue")
vague = get_logger()


self._cache.assume(pod, "n1")
trial.assume(pod, "n1")


def brief():
    """Do what Q13 says."""
    return "P9"  # as S5 has it; noise of 10E3 and v1 is none


def endless():
''' + "\n".join(f"    line = {number}" for number in range(60))


def test_a_function_of_sixty_one_lines_is_long() -> None:
    assert [name for _, name in long_functions(SAMPLE)] == ["endless"]
    assert not list(long_functions(SAMPLE.removesuffix("\n    line = 59")))


def test_single_backticks_in_a_docstring_are_found() -> None:
    assert [code for _, code in single_backticks(SAMPLE.strip())] == ["`one`"]


def test_other_ways_to_a_logger_are_found() -> None:
    lines = sorted(line for line, _ in other_loggers(SAMPLE))
    assert [SAMPLE.splitlines()[line - 1] for line in lines] == [
        "import structlog",
        "log = logging.getLogger(__name__)",
        "also = structlog.get_logger()",
        "vague = get_logger()",
    ]


def test_rule_codes_in_docstrings_strings_and_comments_are_found() -> None:
    assert sorted(code for _, code in rule_codes(SAMPLE)) == ["P9", "Q13", "S5"]


def test_changes_of_a_cache_outside_a_trial_are_found() -> None:
    assert [call for _, call in changes_beside_trials(SAMPLE)] == ["self._cache.assume"]


def found_in(module: Path, check: Callable[[str], Iterator[Finding]]) -> list[str]:
    findings = check(module.read_text())
    return [f"{module.relative_to(ROOT)}:{line}: {what}" for line, what in findings]


def everywhere(check: Callable[[str], Iterator[Finding]], *but: str) -> list[str]:
    modules = (path for path in MODULES if str(path.relative_to(SOURCE)) not in but)
    return [finding for module in modules for finding in found_in(module, check)]


def test_no_function_is_longer_than_sixty_lines() -> None:
    assert everywhere(long_functions) == []


def test_code_in_docstrings_stands_in_double_backticks() -> None:
    assert everywhere(single_backticks) == []


def test_loggers_are_obtained_in_one_way() -> None:
    # The last two set the level of Ray's own logger, and filter gRPC's.
    own = ("telemetry/logs.py", "telemetry/log_output.py")
    libraries = ("actors/ray_cluster.py", "serve/server/server.py")
    assert everywhere(other_loggers, *own, *libraries) == []


def test_rules_are_said_and_not_numbered() -> None:
    assert everywhere(rule_codes) == []


@pytest.mark.parametrize("package", ["ask", "decide"])
def test_what_is_tried_on_a_cluster_is_tried_in_a_trial(package: str) -> None:
    modules = [path for path in MODULES if (SOURCE / package) in path.parents]
    assert modules
    assert [one for path in modules for one in found_in(path, changes_beside_trials)] == []
