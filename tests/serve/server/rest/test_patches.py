"""Patches as functions that change objects."""

from __future__ import annotations

import json
from typing import Any

from podsched.serve.server.rest.patches import JSON_PATCH, patched_content


def test_a_json_patch_can_be_applied_again() -> None:
    """As it is when another client has changed the object meanwhile."""
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": "/items", "value": []},
        {"op": "add", "path": "/items/-", "value": {}},
        {"op": "replace", "path": "/items/0", "value": {"a": 1}},
        {"op": "add", "path": "/items/0/b", "value": 2},
        {"op": "remove", "path": "/items/0/a"},
    ]
    change = patched_content(JSON_PATCH, json.dumps(operations).encode(), "")
    assert change({}) == change({}) == {"items": [{"b": 2}]}
