"""Events as ``events.k8s.io`` shows them: the objects of core/v1 with some fields named anew."""

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
    """Return an event of core/v1 as one of events.k8s.io/v1."""
    return {_NAMES.get(name, name): value for name, value in content.items()}


def hide_new_event(content: dict[str, Any]) -> dict[str, Any]:
    """Return an event of events.k8s.io/v1 as one of core/v1."""
    return {OLD_NAMES.get(name, name): value for name, value in content.items()}
