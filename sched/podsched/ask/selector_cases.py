"""Evaluates recorded cases of CEL selectors, one a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from podsched.api.device_selectors import CompileError, Device, Features, compile_selector
from podsched.ask.case_lines import described, results_of


def selector_results(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    """Return one result per line of cases; ``{"name", "outcome": "bad-case"}`` for a broken one.

    A case has an ``expression``, a ``device`` (``driver``, ``attributes``, ``capacity``,
    ``allowMultipleAllocations``), names of feature gates in ``features``, and an ``environment``:
    ``new`` for what the API server permits in new objects.
    """
    return results_of(
        lines, _evaluate, key="name", broken=lambda e: {"outcome": "bad-case"} | described(e)
    )


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
