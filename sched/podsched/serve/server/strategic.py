"""Applies Kubernetes' strategic merge patches to JSON: lists are merged item by item, by a key.

Directives in a patch:

    "$patch": "replace" | "delete" | "merge"     in an object or an item of a list
    "$setElementOrder/LIST": [...]               the order of the resulting list; without it, that
                                                 of the items in the patch
    "$deleteFromPrimitiveList/LIST": [...]       values to remove from a list of strings
    "$retainKeys": [...]                         all other members of the object are removed

Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podsched.lib.groups import lists_by_key

#: Merge keys of lists (patchMergeKey of Kubernetes' types); other lists are replaced as a whole.
MERGE_KEYS: Final[Mapping[str, str]] = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "env": "name",
    "ownerReferences": "uid",
    "addresses": "type",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "allocatedResourcesStatus": "name",
    "secrets": "name",
    "drivers": "name",
}
#: Merge keys of lists named "ports", which differ between kinds: the first that an item has.
_PORTS: Final = ("containerPort", "port")
#: The member of a kind that is replaced as a whole, though others of its name are merged.
WHOLE: Final[Mapping[str, str]] = {
    "CertificateSigningRequest": "conditions",
    "EndpointSlice": "ports",
    "PodDisruptionBudget": "selector",
    "ServiceAccount": "imagePullSecrets",
}
#: Lists in whose items a client replaces one member by another: it sends "$retainKeys".
RETAINING: Final = frozenset({"volumes", "resourceClaims", "resourceClaimStatuses"})
#: Lists of strings that are merged as sets.
SETS: Final = frozenset({"finalizers", "podCIDRs"})
_DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder/"
_DELETED_VALUES: Final = "$deleteFromPrimitiveList/"
_RETAIN_KEYS: Final = "$retainKeys"


class PatchError(ValueError):
    """A patch whose values have the wrong type."""


def merge_key(name: str, items: Sequence[Any]) -> str | None:
    """Return the merge key of a list by name; None if it is replaced as a whole."""
    if name == "ports":
        return next((k for k in _PORTS if any(isinstance(i, dict) and k in i for i in items)), None)
    return MERGE_KEYS.get(name)


def strategic_merge(
    current: Mapping[str, Any], patch: Mapping[str, Any], kind: str = ""
) -> dict[str, Any]:
    """Apply a strategic merge patch to an object, or a part of one, and return the result.

    kind: of the object; "" for those of which no member is in WHOLE. Raises PatchError.
    """
    if patch.get(_DIRECTIVE) == "replace":
        return dict(_plain({k: v for k, v in patch.items() if k != _DIRECTIVE}))
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    result = dict(current)
    if _RETAIN_KEYS in patch:
        if not isinstance(patch[_RETAIN_KEYS], list):
            raise PatchError(f"{_RETAIN_KEYS}: not a list of names")
        retained = {name for name in patch[_RETAIN_KEYS] if isinstance(name, str)}
        result = {name: value for name, value in result.items() if name in retained}
    for name, value in patch.items():
        if name.startswith(_DELETED_VALUES):
            _delete_values(result, name[len(_DELETED_VALUES) :], value)
        elif not name.startswith("$"):
            _merge_member(result, name, value, kind)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _set_order(result, name[len(_ORDER) :], order, current)
    return result


def _merge_member(result: dict[str, Any], name: str, value: Any, kind: str) -> None:
    """Merge one member of a patch into an object, in place; null removes it. Raises PatchError."""
    before = result.get(name)
    if value is None:
        result.pop(name, None)
    elif name == WHOLE.get(kind):
        result[name] = _plain(value)
    elif isinstance(value, dict):
        if before is not None and not isinstance(before, dict):
            raise PatchError(f"{name}: an object does not fit what is there")
        result[name] = strategic_merge(before or {}, value, kind)
    elif isinstance(value, list):
        if before is not None and not isinstance(before, list):
            raise PatchError(f"{name}: a list does not fit what is there")
        result[name] = _merged_list(name, before or [], value)
    else:
        if isinstance(before, (dict, list)):
            raise PatchError(f"{name}: a value does not fit what is there")
        result[name] = value


def _merged_list(name: str, before: list[Any], items: list[Any]) -> list[Any]:
    if name in SETS and all(isinstance(item, str) for item in (*before, *items)):
        return _ordered(list(dict.fromkeys([*before, *items])), items, before, None)
    key = merge_key(name, [*before, *items])
    if key is None or not all(isinstance(item, dict) for item in (*before, *items)):
        return list(_plain(items))
    if any(item.get(_DIRECTIVE) == "replace" for item in items):
        return [_plain(item) for item in items if item.get(_DIRECTIVE) != "replace"]
    return _ordered(_merged_items(before, items, key), items, before, key)


def _merged_items(before: list[Any], items: list[Any], key: str) -> list[Any]:
    """Merge a patch's items into a list, by the merge key ``key``. Raises PatchError."""
    kept: list[Any] = list(before)
    # Indexed by key, since a linear search would take quadratic time. Of items with the same key,
    # the first is patched, and all are deleted.
    places = lists_by_key((_hashable(item.get(key)), place) for place, item in enumerate(before))
    added: dict[Any, Any] = {}
    for item in items:
        found = _hashable(item.get(key))
        if item.get(key) is None and item.get(_DIRECTIVE) != "delete":
            raise PatchError(f"an item does not have the merge key {key}")
        if item.get(_DIRECTIVE) == "delete":
            added.pop(found, None)
            for at in places.pop(found, ()):
                kept[at] = None
        elif found in places:
            at = places[found][0]
            kept[at] = strategic_merge(kept[at], item)
        else:
            added[found] = strategic_merge(added.get(found, {}), item)
    return [*(item for item in kept if item is not None), *added.values()]


def _set_order(result: dict[str, Any], name: str, order: Any, current: Mapping[str, Any]) -> None:
    """Reorder a list by a directive; ``current``: the object before the patch."""
    items, before = result.get(name), current.get(name)
    if isinstance(items, list) and isinstance(order, list):
        known = before if isinstance(before, list) else ()
        result[name] = _ordered(items, order, known, merge_key(name, items))


def _ordered(
    items: Sequence[Any], order: Sequence[Any], known: Sequence[Any], key: str | None
) -> list[Any]:
    """Return the items of a list in an order.

    The client that wrote the order does not know the items that the order leaves out. Each of
    them stays before the items that it precedes in ``known``, the list before the patch; as
    mergeSortedSlice of k8s.io/apimachinery/pkg/util/strategicpatch.
    """

    def key_of(item: Any) -> Any:
        return _hashable(item.get(key) if isinstance(item, dict) else item)

    wanted = {key_of(item): place for place, item in enumerate(order)}
    named = sorted((i for i in items if key_of(i) in wanted), key=lambda i: wanted[key_of(i)])
    others = deque(item for item in items if key_of(item) not in wanted)
    before = {key_of(item): place for place, item in enumerate(known)}
    ordered = []
    for item in named:
        # A new item has no place to compare with: the next known one decides.
        place = before.get(key_of(item), -1)
        while others and before.get(key_of(others[0]), place) < place:
            ordered.append(others.popleft())
        ordered.append(item)
    return [*ordered, *others]


def _delete_values(result: dict[str, Any], name: str, values: Any) -> None:
    items = result.get(name)
    if isinstance(items, list) and isinstance(values, list):
        # A set, since a linear search would take quadratic time.
        taken = {_hashable(value) for value in values}
        result[name] = [item for item in items if _hashable(item) not in taken]


def _hashable(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else (repr(value),)


def _plain(value: Any) -> Any:
    """Return a value of a patch without directives and nulls."""
    if isinstance(value, dict):
        return {
            name: _plain(item)
            for name, item in value.items()
            if item is not None and not name.startswith("$")
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value
