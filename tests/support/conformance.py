"""The recorded decisions of kube-scheduler 1.36, and which plugins decide something in them.

``python -m support.conformance`` (in ``tests``) prints the plugin table of docs/plugins.md.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from podsched.ask.simulation import simulate
from podsched.config.plugins import DEFAULT_PLUGINS, ExtensionPoint
from podsched.registry import factories

DATA = Path(__file__).parents[1] / "conformance" / "data"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))
HEADING = "| plugin | extension points | weight | conformance cases | agreement |"
_PREEMPTION = "DefaultPreemption"


@cache
def cases(family: str) -> dict[str, dict[str, Any]]:
    """The cases of a family by id."""
    with gzip.open(DATA / f"{family}.jsonl.gz", "rt") as lines:
        found = [json.loads(line) for line in lines]
    return {case["scenario"]["id"]: case for case in found}


def comparable(decision: dict[str, Any]) -> dict[str, Any]:
    """The decision with what the cases say is to be read as the same made the same.

    A plugin without a score counts as 0.
    """
    scores = {
        node: of | {"plugins": {name: n for name, n in of["plugins"].items() if n}}
        for node, of in decision.get("score", {}).items()
    }
    return decision | ({"score": scores} if scores else {})


@cache
def decided(family: str, case: str) -> dict[str, Any]:
    """What podsched decides in a case."""
    return comparable(simulate(cases(family)[case]["scenario"], factories()))


def expected(family: str, case: str) -> dict[str, Any]:
    """What kube-scheduler decided in a case."""
    return comparable(cases(family)[case]["expected"])


def deciding_plugins(decision: dict[str, Any]) -> set[str]:
    """The plugins that rejected the pod or a node, scored a node above 0, or were to preempt."""
    verdicts = [decision.get("prefilter", {}), *decision.get("filter", {}).values()]
    found = {verdict["plugin"] for verdict in verdicts if verdict.get("plugin")}
    for of in decision.get("score", {}).values():
        found |= {name for name, score in of["plugins"].items() if score}
    return found | ({_PREEMPTION} if "preemption" in decision else set())


@dataclass(slots=True)
class Coverage:
    """In how many cases a plugin decides something, and in how many of them podsched agrees."""

    cases: int = 0
    agreeing: int = 0


def coverage() -> dict[str, Coverage]:
    """By plugin, over all families."""
    found: dict[str, Coverage] = {}
    for family in FAMILIES:
        for case in cases(family):
            theirs = expected(family, case)
            agrees = decided(family, case) == theirs
            for plugin in deciding_plugins(theirs):
                of = found.setdefault(plugin, Coverage())
                of.cases += 1
                of.agreeing += agrees
    return found


def table() -> str:
    """The plugin table in Markdown: the default set in its order."""
    return "\n".join([HEADING, "| --- | --- | --- | --- | --- |", *_rows(coverage())]) + "\n"


def _rows(found: dict[str, Coverage]) -> Iterator[str]:
    for spec in DEFAULT_PLUGINS:
        of = found.get(spec.name, Coverage())
        share = f"{of.agreeing} of {of.cases}" if of.cases else "-"
        points = ", ".join(p.label for p in ExtensionPoint if p in spec.points - spec.idle)
        yield f"| {spec.name} | {points} | {spec.weight or '-'} | {of.cases or '-'} | {share} |"


if __name__ == "__main__":
    print(table(), end="")
