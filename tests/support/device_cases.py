"""Allocation cases that Kubernetes v1.36.2 answered, and how answers are compared.

Those whose inputs come from Kubernetes' own tests are read from a folder ``shared`` beside the
checkout, if there is one.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from podsched.api.quantity import parse

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "plugins" / "dynamic_resources" / "data"
SHARED = next(
    (up / "shared" / "dra" for up in ROOT.parents if (up / "shared" / "dra").is_dir()), DATA
)


@cache
def device_cases(family: str) -> dict[str, dict[str, Any]]:
    """The cases of a family by name; none if their file is not here."""
    for folder in (DATA, SHARED):
        path = folder / f"{family}.jsonl.gz"
        if path.is_file():
            with gzip.open(path, "rt") as lines:
                return {case["name"]: case for case in map(json.loads, lines)}
    return {}


def compared(result: Mapping[str, Any]) -> dict[str, Any]:
    """What of a result has to agree exactly; of errors, that there is one and whom it concerns."""
    allocations = json.loads(json.dumps(result.get("allocations")))
    for allocation in allocations or ():
        for device in allocation["devices"].get("results", ()):
            consumed = device.get("consumedCapacity", {})
            device["consumedCapacity"] = {name: str(parse(of)) for name, of in consumed.items()}
    error = result.get("error", "")
    return {
        "outcome": result["outcome"],
        "allocations": allocations,
        "error": error.partition(" error: ")[0].partition(':  "')[0].partition(": deviceclass.")[0],
        "onlyThisNode": result.get("onlyThisNode", False),
    }
