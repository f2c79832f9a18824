"""The locks hold all that pyproject.toml asks for, with hashes, from whatever index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"requirements.lock": ("embedded", "build"), "requirements-dev.lock": ("dev",)}
ENTRY = re.compile(
    r"^([a-z0-9.-]+)==([^ ;]+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
)


def locked(name: str) -> dict[str, set[str]]:
    """The locked versions of each package: some have one for each of several Pythons."""
    text = (ROOT / name).read_text()
    found: dict[str, set[str]] = {}
    while text:
        entry = ENTRY.match(text)
        assert entry, f"{name}: not an entry with hashes: {text[:80]!r}"
        found.setdefault(entry[1], set()).add(entry[2])
        text = text[entry.end() :]
    return found


def wanted(*extras: str) -> list[Requirement]:
    """What the project asks for with these extras."""
    texts = list(PROJECT["dependencies"])
    for extra in extras:
        texts += PROJECT["optional-dependencies"][extra]
    found: list[Requirement] = []
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["name"]:
            found += wanted(*requirement.extras)
        else:
            found.append(requirement)
    return found


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_has_what_the_project_asks_for(name: str) -> None:
    versions = locked(name)
    for requirement in wanted(*EXTRAS[name]):
        known = versions.get(canonicalize_name(requirement.name))
        assert known, f"{requirement} is not in {name}: make lock"
        assert all(requirement.specifier.contains(version) for version in known), requirement


def test_what_runs_is_what_is_tested() -> None:
    tested = locked("requirements-dev.lock")
    for name, versions in locked("requirements.lock").items():
        assert versions == tested[name], name
