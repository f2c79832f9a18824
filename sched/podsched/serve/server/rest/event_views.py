"""Converts Events between core/v1 and ``events.k8s.io/v1``, which renames some fields."""

from __future__ import annotations

from typing import Any, Final

_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
OLD_NAMES: Final = {new: old for old, new in _NAMES.items()}


def show_new_event(content: dict[str, Any]) -> dict[str, Any]:
    """Convert an event from core/v1 to events.k8s.io/v1."""
    return {_NAMES.get(name, name): value for name, value in content.items()}


def hide_new_event(content: dict[str, Any]) -> dict[str, Any]:
    """Convert an event from events.k8s.io/v1 to core/v1."""
    return {OLD_NAMES.get(name, name): value for name, value in content.items()}
