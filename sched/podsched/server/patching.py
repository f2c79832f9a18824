"""Patches: RFC 7396, and the part of Kubernetes' strategic merge that its clients rely on.

Pure. A strategic patch becomes a merge patch by completing its lists from the object: items are
matched by the list's merge key, those not mentioned stay, "$patch: delete" removes one, "$patch:
replace" takes the list as it is given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from podsched.api.manifest import ManifestError, apply_merge_patch, to_manifest
from podsched.api.objects import AnyObject
from podsched.api.reasons import StatusCode, StatusReason
from podsched.server import errors
from podsched.server.errors import Violation
from podsched.v1.api_pb2 import STRATEGIC_MERGE_PATCH, PatchRequest

# Lists with a merge key in Kubernetes' types; those not named are replaced.
_MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "env": "name",
    "ownerReferences": "uid",
    "addresses": "type",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
}
_SETS = frozenset({"finalizers"})
_DIRECTIVE = "$patch"
#: Levels of objects and lists in a patch. What can be stored has fewer: some 12 of an object, and
#: those of a field without a schema.
MAX_PATCH_DEPTH = 100


def parse_patch(request: PatchRequest) -> dict[str, Any]:
    """Return the patch of a request. Raises ApiError."""
    try:
        patch = json.loads(request.merge_patch)
    except ValueError as error:
        raise errors.bad_request(f"the patch is not JSON: {error}", "mergePatch") from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(patch, dict):
        raise errors.bad_request("the patch must be a JSON object", "mergePatch")
    if is_deep(patch):
        raise _too_deep()
    return patch


def _too_deep() -> errors.ApiError:
    return errors.bad_request("the patch is nested too deeply", "mergePatch")


def is_deep(patch: Any) -> bool:
    """Return whether a patch is nested beyond MAX_PATCH_DEPTH; merging it costs as much a level."""
    level: list[Any] = [patch]
    for _ in range(MAX_PATCH_DEPTH):
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def patched(message: AnyObject, patch: Mapping[str, Any], patch_type: int) -> AnyObject:
    """Return a patched copy of an object. Raises ApiError with every mistake in the patch."""
    if patch_type == STRATEGIC_MERGE_PATCH:
        patch = _completed(to_manifest(message), patch)
    try:
        return apply_merge_patch(message, patch).message
    except ManifestError as error:
        violations = [
            Violation(problem.path, f"{problem.reason}", "Invalid value")
            for problem in error.problems
        ]
        raise errors.ApiError(
            StatusCode.INVALID_ARGUMENT, StatusReason.INVALID, str(error), violations=violations
        ) from None


def _completed(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merge patch that does what a strategic patch means."""
    merged: dict[str, Any] = {}
    for name, value in patch.items():
        before = current.get(name)
        if isinstance(value, dict):
            merged[name] = _completed(_dict(before), value)
        elif isinstance(value, list) and name in _SETS and _are(str, value):
            merged[name] = list(dict.fromkeys([*_list_of(str, before), *value]))
        elif isinstance(value, list) and name in _MERGE_KEYS and _are(dict, value):
            merged[name] = _merged_list(_list_of(dict, before), value, _MERGE_KEYS[name])
        else:
            merged[name] = value
    return merged


# What stands where the patch has a list or an object may be anything: a label is called "env", too.


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_of(kind: type, value: Any) -> list[Any]:
    return value if isinstance(value, list) and _are(kind, value) else []


def _are(kind: type, items: list[Any]) -> bool:
    return all(isinstance(item, kind) for item in items)


def _merged_list(
    before: list[dict[str, Any]], items: list[dict[str, Any]], key: str
) -> list[dict[str, Any]]:
    if any(item.get(_DIRECTIVE) == "replace" for item in items):
        return [item for item in items if item.get(_DIRECTIVE) != "replace"]
    result: list[dict[str, Any] | None] = list(before)
    # Places by key: searched one by one, a patch of as many new items as fit into a message
    # would cost quadratic time. Of items that share a key, the first is patched.
    places: dict[Any, int] = {}
    for place, item in enumerate(before):
        places.setdefault(_list_key(item, key), place)
    for item in items:
        found = _list_key(item, key)
        at = places.get(found)
        if item.get(_DIRECTIVE) == "delete":
            if at is not None:
                result[at] = None
                del places[found]
        elif at is None:
            places[found] = len(result)
            result.append(item)
        else:
            result[at] = _overlaid(result[at] or {}, item)
    return [item for item in result if item is not None]


def _list_key(item: Mapping[str, Any], key: str) -> Any:
    """Return the item's key in its list, hashable whatever the patch holds."""
    value = item.get(key)
    return value if value is None or isinstance(value, (str, int, float)) else repr(value)


def _overlaid(old: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of a list with a patch of it applied; merge patches leave lists alone."""
    return _merged(old, _completed(old, item))


def _merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what RFC 7396 makes of a value and a patch, whose lists are complete by now."""
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _merged(_dict(result.get(name)), value)
        else:
            result[name] = value
    return result
