"""The unit tests mirror the source tree: a module's tests are found by its name.

The tests of ``sched/podsched/a/b.py`` are ``tests/a/test_b.py``, or several files by topic:
``tests/a/test_b_<topic>.py``. Those of a package as a whole are ``tests/a/test_a_<topic>.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "sched" / "podsched"
TESTS = ROOT / "tests"

#: Folders of tests that no single module stands for.
ELSEWHERE = {
    "architecture": "of the source tree",
    "conformance": "of recorded decisions of a real control plane",
    "docs": "of the documents",
    "fuzz": "of whatever strangers may send or write",
    "integration": "of promises that several processes keep together",
    "plugins_example": "of deploy/examples/plugin",
    "scenarios": "of behaviour as users see it",
    "support": "what tests share",
}

#: Files that no module stands for, though their folder mirrors one.
EXCEPTIONS = {
    "cli/test_readme.py": "the README's commands need the cluster of tests/cli",
}


def stands_for(test: Path, source: Path) -> Path | None:
    """Return the module or package that the test file is named after; None when there is none.

    ``test`` is relative to the folder of the tests. The longest name wins.
    """
    package = source / test.parent
    words = test.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    for name in names:
        if (package / f"{name}.py").is_file():
            return package / f"{name}.py"
        if (package / name).is_dir():
            return package / name
        if name == package.name and package.is_dir():
            return package
    return None


def test_a_test_file_is_found_by_the_name_of_its_module(tmp_path: Path) -> None:
    (tmp_path / "term" / "cycle").mkdir(parents=True)
    (tmp_path / "term" / "cycle" / "waiting_pods.py").touch()
    (tmp_path / "term" / "cycle" / "waiting.py").touch()

    def found(test: str) -> str | None:
        path = stands_for(Path(test), tmp_path)
        return path and str(path.relative_to(tmp_path))

    assert found("term/cycle/test_waiting_pods.py") == "term/cycle/waiting_pods.py"
    assert found("term/cycle/test_waiting_pods_at_scale.py") == "term/cycle/waiting_pods.py"
    assert found("term/cycle/test_waiting_long.py") == "term/cycle/waiting.py"
    assert found("term/test_cycle_of_pods.py") == "term/cycle", "of a package"
    assert found("term/test_term_at_scale.py") == "term", "of the package"
    assert found("term/test_waiting_pods.py") is None, "in another folder"
    assert found("term/cycle/test_wait.py") is None, "of half a word"
    assert found("queue/test_queue.py") is None, "of no package"


def unit_tests() -> list[Path]:
    files = (path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
    return sorted(path for path in files if path.parts[0] not in ELSEWHERE)


@pytest.mark.parametrize("test", unit_tests(), ids=str)
def test_every_unit_test_is_named_after_a_module(test: Path) -> None:
    if str(test) in EXCEPTIONS:
        assert stands_for(test, SOURCE) is None, "no exception any more"
    else:
        assert stands_for(test, SOURCE), (
            f"no module or package of sched/podsched/{test.parent} is called like tests/{test}"
        )


def test_the_exceptions_exist() -> None:
    assert not [name for name in (*ELSEWHERE, *EXCEPTIONS) if not (TESTS / name).exists()]
