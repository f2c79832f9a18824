"""What has to be read to understand a module: what it imports, and what that imports."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

SOURCE = Path(__file__).parents[2] / "sched"
#: The packages that decide; beside them there are messages, configuration and metrics.
DECIDING = ("cache", "decide", "framework", "legacy", "plugins", "queue", "term")
#: By module, how many deciding modules it may import, itself included, and their lines without
#: comments. Comments do not count, because a reason that is written down saves time.
BOUNDS = {
    "podsched.decide.reference": (28, 4_090),
    "podsched.decide.decider": (32, 4_670),
    "podsched.decide.accelerators.class_evaluation": (32, 5_810),
    "podsched.decide.accelerated": (57, 10_050),
    "podsched.decide.pod_group": (62, 11_300),
    "podsched.term.cycle.scheduling_cycle": (167, 26_300),
}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    graph = grimp.build_graph("podsched")
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def closure(imports: dict[str, set[str]], module: str) -> set[str]:
    """Return a module with all that it imports, directly or not."""
    found: set[str] = set()
    left = [module]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += imports.get(one, ())
    return found


def lines_of(module: str) -> int:
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    lines = file.read_text().splitlines()
    return sum(1 for line in lines if not line.lstrip().startswith("#"))


@pytest.mark.parametrize("module", BOUNDS)
def test_little_has_to_be_read_for_a_decision(imports: dict[str, set[str]], module: str) -> None:
    found = [name for name in closure(imports, module) if name.split(".")[1] in DECIDING]
    lines = sum(lines_of(name) for name in found)
    print(f"{module} imports {len(found)} deciding modules, {lines:,} lines")
    most_modules, most_lines = BOUNDS[module]
    assert len(found) <= most_modules and lines <= most_lines, f"{len(found)}, {lines}"


def test_no_module_imports_itself_through_others(imports: dict[str, set[str]]) -> None:
    circles = [
        module
        for module, direct in imports.items()
        if any(module in closure(imports, one) for one in direct)
    ]
    assert circles == []


def test_selectors_of_devices_can_be_imported_first(imports: dict[str, set[str]]) -> None:
    """Validation checks them, so it would be imported in a circle."""
    found = closure(imports, "podsched.api.device_selectors")
    assert not [one for one in found if one.startswith("podsched.api.validation")]
