"""docs/legacy.md lists what runs for each predicate and priority of a Policy."""

from __future__ import annotations

import re
from pathlib import Path

from podsched.config.plugins import IN_TREE_PLUGINS
from podsched.legacy.policy_profile import (
    ALIASES,
    ARGUMENTS,
    DEFAULT_PREDICATES,
    DEFAULT_PRIORITIES,
    PREDICATES,
    PRIORITIES,
)

TEXT = (Path(__file__).parents[2] / "docs" / "legacy.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The cells of the rows of the one table under a heading."""
    section = TEXT[TEXT.index(f"## {heading}\n") :].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def argument(cell: str) -> str:
    """The field of the argument that a row is about, as the model has it; "" for none."""
    found = re.search(r"any name with `(\w+)`", cell)
    return re.sub(r"([A-Z])", lambda m: "_" + m.group(1).lower(), found.group(1)) if found else ""


def test_every_predicate_is_listed_in_order_with_its_plugin() -> None:
    plugins = []
    for name, plugin, default in table("Predicates"):
        plugins.append(plugin)
        if key := argument(name):
            assert ARGUMENTS[key] == plugin
            continue
        own, _, alias = name.rstrip(")").partition(" (")
        assert PREDICATES[own] == plugin
        assert not alias or ALIASES[alias] == own
        assert default == ("yes" if own in DEFAULT_PREDICATES else "-")
    assert plugins == [*PREDICATES.values()]


def test_every_priority_is_listed_with_its_plugin_and_weight() -> None:
    listed = {}
    for name, plugin, weight in table("Priorities"):
        if key := argument(name):
            assert ARGUMENTS[key] == plugin
        else:
            listed[name] = plugin
            assert weight == str(DEFAULT_PRIORITIES.get(name, "-"))
    assert listed == {name: name for name in PRIORITIES}


def test_the_plugins_that_may_have_other_names_are_listed() -> None:
    section = TEXT[TEXT.index("## The plugins in a KubeSchedulerConfiguration") :]
    sentence = section[: section.index("may run several times")]
    for name, spec in IN_TREE_PLUGINS.items():
        assert (name in sentence) == spec.nameable, name
