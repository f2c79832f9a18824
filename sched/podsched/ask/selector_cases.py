"""Evaluates recorded cases of CEL selectors, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from podsched.api.device_selectors import CompileError, Device, Features, compile_selector


def selector_results(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    """Yield one result per line of cases; ``{"name", "outcome": "bad-case"}`` for a broken one.

    A case has an ``expression``, a ``device`` (``driver``, ``attributes``, ``capacity``,
    ``allowMultipleAllocations``), names of feature gates in ``features``, and an ``environment``:
    ``new`` for what the API server permits in new objects.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name = f"line {number}"
        try:
            case = json.loads(line)
            name = case.get("name", name)
            yield {"name": name} | _evaluate(case)
        # Whatever a case holds may be wrong in some way; none may end the run.
        except Exception as error:
            yield {
                "name": name,
                "outcome": "bad-case",
                "error": f"{type(error).__name__}: {error}",
            }


def _evaluate(case: Mapping[str, Any]) -> dict[str, Any]:
    given = case.get("features") or ()
    features = Features(
        consumable_capacity="DRAConsumableCapacity" in given,
        list_type_attributes="DRAListTypeAttributes" in given,
    )
    try:
        selector = compile_selector(
            case["expression"], features=features, new=case.get("environment") == "new"
        )
    except CompileError as exc:
        return {"outcome": "compile-error", "error": str(exc)}
    result = selector.result(_device(case.get("device") or {}))
    found: dict[str, Any] = {"outcome": "ok" if result.error is None else "runtime-error"}
    if result.error is None:
        found["match"] = result.match
    else:
        found["error"] = result.error
    found["estimatedCost"] = selector.estimated_cost
    if result.cost is not None:
        found["actualCost"] = result.cost
    return found


def _device(device: Mapping[str, Any]) -> Device:
    capacity = device.get("capacity") or {}
    return Device(
        driver=device.get("driver", ""),
        attributes=device.get("attributes") or {},
        capacity={name: amount["value"] for name, amount in capacity.items()},
        allow_multiple_allocations=bool(device.get("allowMultipleAllocations")),
    )
