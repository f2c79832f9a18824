"""Everybody installs what a lock says: who reads the README, who develops, and CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock")
LOCKS = {"demo": "requirements.lock", "test": "requirements-dev.lock",
         "check": "requirements-dev.lock"}  # fmt: skip
#: Stands for Python, and so for pip: writes down how it is called, and fails if it has an answer.
STAND_IN = """#!/bin/sh
case "$*" in
*platform*) echo "Python 3.15.0 on Linux x86_64" ;;
*" install "*) echo "$*" >> installed; if [ -e answer ]; then cat answer; exit 1; fi ;;
esac
"""
#: Stands for a Python of another version, and notes that it was to make an environment.
PRETENDER = """#!/bin/sh
if [ "$1" = -m ]; then touch environment; exit 0; fi
exec {python} -c "import sys; sys.version_info = (*{version}, 0); $2"
"""
NO_WHEEL = """\
Collecting protobuf==7.36.2
ERROR: Could not find a version that satisfies the requirement ray==2.60.0 (from versions: none)
ERROR: No matching distribution found for ray==2.60.0
"""
NO_INDEX = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /simple/ray/
ERROR: Could not find a version that satisfies the requirement ray==2.60.0 (from versions: none)
ERROR: No matching distribution found for ray==2.60.0
"""
OTHER_HASH = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    ray==2.60.0: Expected sha256 0 Got 1
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose environment has a stand-in for Python."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    for name, text in {"python": STAND_IN, "sched": "#!/bin/sh\n", "pytest": "#!/bin/sh\n"}.items():
        program = tmp_path / ".venv" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # What a make above this one, such as that of `make test`, hands on is not for this one.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=environment, capture_output=True, text=True
    )


def installations(clone: Path) -> list[str]:
    """How pip was asked to install something, by which options."""
    calls = (clone / "installed").read_text().splitlines()
    return [re.sub(r"^.* install ", "", call) for call in calls]


def lines_after(text: str, heading: str) -> list[str]:
    return [line.strip() for line in text.split(heading)[1].splitlines()]


def ci() -> list[str]:
    return lines_after((ROOT / ".ci" / "run").read_text(), '/.."\n')


def test_ci_runs_the_commands_of_the_readme_and_the_checks() -> None:
    readme = lines_after((ROOT / "README.md").read_text(), "## Two commands")
    assert ci() == [*(line for line in readme if re.fullmatch(r"make \w+", line)), "make check"]


@pytest.mark.parametrize("command", LOCKS)
def test_a_command_installs_what_its_lock_says_and_nothing_else(command: str, clone: Path) -> None:
    assert f"make {command}" in ci()
    make(clone, command)
    assert installations(clone) == [
        f"--no-compile --no-deps --only-binary :all: --require-hashes -r {LOCKS[command]}",
        "--no-deps --no-build-isolation -e .",
    ]


def test_what_is_installed_is_not_installed_again(clone: Path) -> None:
    make(clone, "demo", "demo")
    make(clone, "demo")
    assert len(installations(clone)) == 2


def test_tests_add_to_the_environment_of_the_demo_what_it_lacks(clone: Path) -> None:
    make(clone, "demo")
    make(clone, "test")
    make(clone, "demo")
    assert len(installations(clone)) == 4


@pytest.mark.parametrize("changed", ["pyproject.toml", "requirements.lock"])
def test_what_a_change_asks_for_is_installed(changed: str, clone: Path) -> None:
    make(clone, "demo")
    os.utime(clone / ".venv" / "installed", (0, 0))
    for name in {*FILES} - {changed}:
        os.utime(clone / name, (0, 0))
    make(clone, "demo")
    assert len(installations(clone)) == 4


@pytest.mark.parametrize(
    ("version", "fits"),
    [((3, 10), False), ((3, 11), True), ((3, 14), True), ((3, 15), False)],
)
def test_a_python_is_taken_if_the_readme_names_its_version(
    version: tuple[int, int], fits: bool, clone: Path
) -> None:
    (clone / ".venv" / "bin" / "python").unlink()
    pretender = clone / "pretender"
    pretender.write_text(PRETENDER.format(python=sys.executable, version=version))
    pretender.chmod(0o755)
    ended = make(clone, "demo", f"SYSTEM_PYTHON={pretender}")
    assert ("podsched needs Python 3.11 to 3.14" in ended.stderr) == (not fits)
    assert (clone / "environment").exists() == fits
    assert "with Python 3.11 to 3.14:" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            NO_WHEEL,
            "no wheel of ray==2.60.0 fits Python 3.15.0 on Linux x86_64; make clean, then name a "
            "Python from 3.11 to 3.14: make SYSTEM_PYTHON=python3.13 demo",
        ),
        (NO_INDEX, "pip reaches no package index"),
        (OTHER_HASH, OTHER_HASH.splitlines()[0]),
    ],
    ids=["no wheel", "no index", "another hash"],
)
def test_a_line_says_why_nothing_can_be_installed(answer: str, said: str, clone: Path) -> None:
    (clone / "answer").write_text(answer)
    ended = make(clone, "demo")
    assert ended.returncode != 0
    line = ended.stderr.splitlines()[0]
    assert line == f"cannot install podsched: {said} (all that pip said: .venv/pip.log)"
    assert (clone / ".venv" / "pip.log").read_text() == answer
