"""Computes sets of fields, as ``managedFields`` has them (FieldsV1). Pure.

A set is a tree of elements: "f:NAME" is a member, 'k:{"name":"main"}' the item of a list with this
key, 'v:"x"' a value of a set. "." in a subtree means that its root itself belongs to the set:

    image of the container main, and the container itself
    {"f:containers": {'k:{"name":"main"}': {".": {}, "f:image": {".": {}}}}}

FieldsV1 omits a "." that is the only entry. Every function visits its trees once.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from podsched.lib.groups import lists_by_key
from podsched.serve.server.strategic import MERGE_KEYS, SETS

Fields = dict[str, "Fields"]
"""A set of fields; ``{}`` is the empty one."""

#: Lists whose items have keys (listMapKey of the types): all with a merge key, and these. Any other
#: list is one value.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (key,) for name, key in MERGE_KEYS.items()},
    "claims": ("name",),
    "podGroupTemplates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "devices": ("driver", "device", "pool", "shareID"),
    "admissionChecks": ("name",),
    "flavorsReservation": ("name",),
    "flavorsUsage": ("name",),
}
_PORTS: Final = (("containerPort", "protocol"), ("port", "protocol"))
#: Maps that are owned as one value: structType or mapType "atomic" of the types.
_ATOMIC: Final = frozenset(
    {
        *("selector", "labelSelector", "nodeSelector", "namespaceSelector", "scopeSelector"),
        *("roleRef", "nodeLabels", "nodeTopology", "dataSource", "controllerRef"),
        *("secretRef", "fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"),
        *("fileKeyRef", "controllerPublishSecretRef", "controllerExpandSecretRef"),
        *("nodeStageSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"),
        *("involvedObject", "regarding", "related", "targetRef"),
        # Node selectors and their terms; of pods, a list has one of these names.
        *("required", "requiredDuringSchedulingIgnoredDuringExecution", "preference"),
    }
)
_ABSENT: Final = object()
#: Limit on members and items of a configuration and of the object that it is applied to; a pod has
#: about a hundred. Tracking and checking one takes about 25 us. ``managedFields`` do not count:
#: the size of an object limits them.
MAX_FIELDS: Final = 10_000


def _keys_of(name: str, items: Sequence[Any]) -> tuple[str, ...] | None:
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    if name == "ports":
        return next((keys for keys in _PORTS if all(keys[0] in item for item in items)), None)
    keys = _KEYS.get(name)
    return keys if keys and all(keys[0] in item for item in items) else None


def _element(item: Mapping[str, Any], keys: Sequence[str]) -> str:
    if len(keys) == 1 and isinstance(value := item[keys[0]], str):
        return f'k:{{"{keys[0]}":{encode_basestring_ascii(value)}}}'  # a tenth of what dumps takes
    named = {key: item[key] for key in sorted(keys) if key in item}
    if "protocol" in keys:
        named["protocol"] = named.get("protocol") or "TCP"
    return "k:" + json.dumps(dict(sorted(named.items())), separators=(",", ":"))


# ---------------------------------------------------------------------- objects as sets


def is_large(content: Any) -> bool:
    """Return whether an object has more than MAX_FIELDS members and items."""
    count, left = 0, [content]
    while left and count <= MAX_FIELDS:
        part = left.pop()
        inner = part.values() if isinstance(part, dict) else part
        count += len(inner)
        left += [value for value in inner if isinstance(value, (dict, list))]
    return count > MAX_FIELDS


def fields_of(content: Mapping[str, Any], base: Any = _ABSENT) -> Fields:
    """Return the fields that an object sets, or only those that differ from an object ``base``."""
    other = base if isinstance(base, dict) else {}
    found: Fields = {}
    for key, value in content.items():
        if inner := _fields_of_value(value, other.get(key, _ABSENT), key):
            found[f"f:{key}"] = inner
    return found


def _fields_of_value(content: Any, base: Any, name: str) -> Fields:
    # What has lost its last item is not changed itself, as in structured-merge-diff's comparison.
    items = content or (base if isinstance(base, type(content)) else content)
    if isinstance(content, dict) and items and name not in _ATOMIC:
        return fields_of(content, base)
    if isinstance(content, list):
        if keys := _keys_of(name, items):
            return _fields_of_items(content, _elements_of(base, name), keys)
        if name in SETS and items:
            others = {_value(item) for item in base} if isinstance(base, list) else ()
            return {value: {".": {}} for item in content if (value := _value(item)) not in others}
    return {".": {}} if content != base else {}


def duplicates(content: Any, name: str = "") -> Iterator[str]:
    """Yield the paths of list items whose key occurs more than once."""
    if isinstance(content, dict) and name not in _ATOMIC:
        for key, value in content.items():
            for doubled in duplicates(value, key):  # builds paths only for duplicates
                yield f".{key}{doubled}"
    elif isinstance(content, list) and (keys := _keys_of(name, content)):
        seen: set[str] = set()
        for item in content:
            element = _element(item, keys)
            if element in seen:
                yield _shown_element(element)
            seen.add(element)
            for doubled in duplicates(item):
                yield _shown_element(element) + doubled


def _fields_of_items(
    items: Sequence[Any], base: Mapping[str, list[Any]], keys: Sequence[str]
) -> Fields:
    found: Fields = {}
    for element, same in _by_element(items, keys).items():
        others = base.get(element, [])
        if len(same) == len(others) == 1:
            inner = fields_of(same[0], others[0])
        elif same == others:
            continue
        else:
            # Duplicate elements come from writes other than apply, which refuses them.
            inner = reduce(union, map(fields_of, same))
        if not others:
            inner["."] = {}
        if inner:
            found[element] = inner
    return found


def _by_element(items: Sequence[Any], keys: Sequence[str]) -> dict[str, list[Any]]:
    return lists_by_key((_element(item, keys), item) for item in items)


def _elements_of(items: Any, name: str) -> Mapping[str, list[Any]]:
    keys = _keys_of(name, items) if isinstance(items, list) else None
    return _by_element(items, keys) if keys else {}


def _value(item: Any) -> str:
    return "v:" + json.dumps(item)


# ---------------------------------------------------------------------- changes of objects


def merged(live: Any, config: Any, name: str = "") -> Any:
    """Return an object merged with the fields that a configuration sets."""
    if isinstance(config, dict) and isinstance(live, dict) and name not in _ATOMIC:
        result = dict(live)
        for key, value in config.items():
            result[key] = merged(live.get(key), value, key)
        return result
    if isinstance(config, list) and isinstance(live, list):
        both = [*live, *config]
        if name in SETS and all(isinstance(item, str) for item in both):
            return list(dict.fromkeys(both))
        keys = _keys_of(name, both)
        if keys is not None:
            return _merged_items(live, config, keys)
    return config


def _merged_items(live: list[Any], config: list[Any], keys: Sequence[str]) -> list[Any]:
    """Return a list merged with a configuration's; duplicates in it give way to the applied one.

    Those of the configuration get its order, and the others stay where they stand between them. As
    structured-merge-diff's ``visitListItems``.
    """
    wanted = {_element(item, keys): item for item in config}
    elements = [_element(item, keys) for item in live]
    before = _by_element(live, keys)
    result = []
    at = 0
    for (element, item), shared in zip(wanted.items(), _next_shared(wanted, before), strict=True):
        while at < len(live) and elements[at] != shared:
            if elements[at] not in wanted:
                result.append(live[at])
            at += 1
        same = before.get(element, ())
        result.append(merged(same[0], item) if len(same) == 1 else item)
        at += element == shared
    left = zip(elements[at:], live[at:], strict=True)
    return [*result, *(item for element, item in left if element not in wanted)]


def _next_shared(wanted: Iterable[str], before: Container[str]) -> list[str | None]:
    """Return for each element the next one, from itself on, that was there before."""
    found: list[str | None] = []
    for element in reversed([*wanted]):
        later = found[-1] if found else None
        found.append(element if element in before else later)
    return found[::-1]


def pruned(content: Any, last: Fields, owned: Fields, name: str = "") -> Any:
    """Return an object without the fields in ``last`` that are not in ``owned``.

    last: the fields that the manager applied last; owned: all fields that have an owner now.

    As structured-merge-diff's ``Updater.prune``: a member is removed with its contents when nothing
    in it is owned; an item of a list or a value of a set when it is not owned itself, even if
    fields in it are. Keys are removed only with their item, because they identify it.
    """
    if isinstance(content, dict):
        return _pruned_members(content, last, owned, ())
    if not isinstance(content, list):
        return content
    if name in SETS:
        return [item for item in content if not _has_lost_owners(_value(item), last, owned)]
    keys = _keys_of(name, content)
    if keys is None:
        return content
    kept = []
    for item in content:
        element = _element(item, keys)
        if not _has_lost_owners(element, last, owned):
            below, owned_below = last.get(element, {}), owned.get(element, {})
            kept.append(_pruned_members(item, below, owned_below, keys))
    return kept


def _pruned_members(
    content: Mapping[str, Any], last: Fields, owned: Fields, keys: Sequence[str]
) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in content.items():
        member = f"f:{key}"
        if member not in last or key in keys:
            kept[key] = value
        elif member in owned:
            kept[key] = pruned(value, last[member], owned[member], key)
    return kept


def _has_lost_owners(element: str, last: Fields, owned: Fields) -> bool:
    """Return whether an item or value was applied last and has no owner now."""
    return "." in last.get(element, {}) and "." not in owned.get(element, {})


# ---------------------------------------------------------------------- sets


def union(one: Fields, other: Fields) -> Fields:
    """Return the fields in either set."""
    found = dict(one)
    for element, inner in other.items():
        found[element] = union(found[element], inner) if element in found else inner
    return found


def difference(one: Fields, other: Fields) -> Fields:
    """Return the fields of the first set that are not in the second."""
    found: Fields = {}
    for element, inner in one.items():
        if element not in other:
            found[element] = inner
        elif element != "." and (left := difference(inner, other[element])):
            found[element] = left
    return found


def intersection(one: Fields, other: Fields) -> Fields:
    """Return the fields in both sets."""
    found: Fields = {}
    for element in one.keys() & other.keys():
        if element == ".":
            found["."] = {}
        elif common := intersection(one[element], other[element]):
            found[element] = common
    return found


def to_fields(fields: Fields) -> dict[str, Any]:
    """Convert a set to FieldsV1."""
    if fields.keys() == {"."}:
        return {}
    return {element: to_fields(fields[element]) for element in sorted(fields)}


def from_fields(content: Any) -> Fields:
    """Convert FieldsV1 to a set; malformed elements are left out."""
    if not isinstance(content, dict):
        return {}
    found: Fields = {}
    for element, inner in content.items():
        fields = from_fields(inner) if inner and element != "." else {}
        found[element] = fields if fields or element == "." else {".": {}}
    return found


# ---------------------------------------------------------------------- for people


def shown(fields: Fields, path: str = "") -> Iterator[str]:
    """Yield fields in order, formatted as in conflicts: .spec.containers[name="main"].image."""
    for element in sorted(fields):
        if element == ".":
            yield path
        else:
            yield from shown(fields[element], path + _shown_element(element))


def _shown_element(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    return f"[{_shown_keys(rest)}]" if kind == "k" else f"[={rest}]"


def _shown_keys(text: str) -> str:
    try:
        keys = json.loads(text)
    except ValueError:
        return text  # a client wrote it, so it may be malformed
    if not isinstance(keys, dict):
        return text
    return ",".join(f"{key}={json.dumps(keys[key])}" for key in keys)
