"""The walks of ARCHITECTURE.md, a pod's and a fence's, name what is there, in an order that holds.

A walk is a numbered list. Each step names modules, classes or functions of podsched in backticks.
The first name of a step says in which package it happens: one of the top level, or in the larger
layers (``SUBDIVIDED``) one below that. A walk returns to a package it left only through a queue.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "ARCHITECTURE.md"
MOST_STEPS = 20
#: The larger layers, whose packages count each for itself.
SUBDIVIDED = ("term", "serve", "ask", "lab")


def steps_of(document: str, heading: str) -> list[str]:
    """Return the numbered items below a heading, each on one line."""
    _, found, rest = document.partition(f"\n{heading}\n")
    assert found, f"no heading {heading!r}"
    section = re.split(r"\n#{1,6} ", rest)[0]
    items = re.findall(r"^\d+\. (.*(?:\n {2,}\S.*)*)", section, re.MULTILINE)
    return [" ".join(item.split()) for item in items]


def names_of(step: str) -> list[str]:
    """Return the dotted names of podsched in a step."""
    return re.findall(r"`(podsched(?:\.\w+)+)`", step)


def package_of(name: str) -> str:
    """Return the package of a name: ``queue``, ``serve.server``, ``term.cycle``, ``decide``."""
    parts = name.split(".")[1:]
    return ".".join(parts[:2] if parts[0] in SUBDIVIDED else parts[:1])


def resolve(name: str) -> object:
    """Return the module, class or function of a dotted name; fail when it does not exist."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[count:]:
            assert hasattr(found, part), f"{name}: no {part} in {found!r}"
            found = getattr(found, part)
        return found
    raise AssertionError(f"no module {name}")


def check_names(steps: Sequence[str]) -> None:
    assert 1 < len(steps) <= MOST_STEPS, f"{len(steps)} steps"
    for step in steps:
        names = names_of(step)
        assert names, f"names nothing: {step}"
        for name in names:
            resolve(name)


def check_packages(steps: Sequence[str]) -> None:
    left: set[str] = set()
    here = ""
    for step in steps:
        package = package_of(names_of(step)[0])
        if package == here:
            continue
        left.add(here)
        queued = "queue" in re.sub("`.*?`", "", step)
        assert package not in left or queued, f"back in {package}: {step}"
        here = package


SAMPLE = """
# A document

### One pod, step by step

Some words, and `podsched.not.read` in them.

1. `podsched.serve.server.service.Service.CreatePods` takes the pods
   and hands them to `podsched.serve.server.registry`.
2. `podsched.queue.attempts.Attempts.pop` hands them out.

   A remark.
3. `podsched.decide.decider.Decider` places; through the queue again if it fails.

### Another

1. `podsched.api.nothing`
"""


def test_the_items_below_a_heading_are_read() -> None:
    steps = steps_of(SAMPLE, "### One pod, step by step")
    assert [names_of(step) for step in steps] == [
        ["podsched.serve.server.service.Service.CreatePods", "podsched.serve.server.registry"],
        ["podsched.queue.attempts.Attempts.pop"],
        ["podsched.decide.decider.Decider"],
    ]
    assert [package_of(names_of(step)[0]) for step in steps] == ["serve.server", "queue", "decide"]
    with pytest.raises(AssertionError, match="no heading"):
        steps_of(SAMPLE, "### One fence, step by step")


@pytest.mark.parametrize(
    "name",
    [
        "podsched.api.nothing",
        "podsched.nowhere",
        "podsched.api.quantity.no_function",
        "podsched.telemetry.http.HttpServer.no_method",
    ],
)
def test_a_name_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(AssertionError):
        check_names([f"`{name}`", "`podsched.api`"])


def test_names_of_modules_classes_and_methods_are_found() -> None:
    check_names(["`podsched.api.quantity` and `podsched.api.quantity.value`", "`podsched.api`"])


def test_a_walk_has_a_name_in_each_step_and_no_more_than_twenty_steps() -> None:
    for steps in ([], ["`podsched.api`"] * 21, ["`podsched.api`", "no name"]):
        with pytest.raises(AssertionError):
            check_names(steps)


def test_a_walk_returns_to_a_package_only_through_a_queue() -> None:
    queue, cycle, writes = "`podsched.queue`", "`podsched.term.cycle`", "`podsched.term.writes`"
    check_packages([queue, cycle, cycle, writes])
    check_packages([queue, cycle, writes, f"through a queue, {cycle} hears of it"])
    with pytest.raises(AssertionError, match="back in term"):
        check_packages([queue, cycle, writes, cycle])


@pytest.mark.parametrize("walk", ["One pod", "A group of pods", "One fence"])
def test_every_name_in_the_walks_exists(walk: str) -> None:
    check_names(steps_of(DOCUMENT.read_text(), f"### {walk}, step by step"))


def test_a_pod_returns_to_a_package_only_through_a_queue() -> None:
    check_packages(steps_of(DOCUMENT.read_text(), "### One pod, step by step"))
