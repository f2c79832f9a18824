"""Sets of fields as ``managedFields`` writes them (FieldsV1), and objects seen as such sets.

A path is a tuple of elements: "f:NAME" a member, 'k:{"name":"main"}' the item of a list that has
this key, 'v:"x"' a value of a set; "." at the end the item itself. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

Path = tuple[str, ...]

#: Lists whose items are told apart by keys; see the types' listMapKey. Others are one value.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "env": ("name",),
    "ownerReferences": ("uid",),
    "addresses": ("type",),
    "imagePullSecrets": ("name",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
}
_PORTS: Final = (("containerPort", "protocol"), ("port", "protocol"))
_SETS: Final = frozenset({"finalizers"})
#: Maps that are one value.
_ATOMIC: Final = frozenset(
    {"selector", "labelSelector", "nodeSelector", "namespaceSelector", "claimRef", "roleRef"}
)


def _keys_of(name: str, items: Sequence[Any]) -> tuple[str, ...] | None:
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    if name == "ports":
        return next((keys for keys in _PORTS if all(keys[0] in item for item in items)), None)
    keys = _KEYS.get(name)
    return keys if keys and all(keys[0] in item for item in items) else None


def _element(item: Mapping[str, Any], keys: Sequence[str]) -> str:
    named = {key: item[key] for key in sorted(keys) if key in item}
    if "protocol" in keys:
        named.setdefault("protocol", "TCP")
    return "k:" + json.dumps(dict(sorted(named.items())), separators=(",", ":"))


def paths_of(content: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the fields that an object sets, with their values."""
    return dict(_walk(content, (), "")) if content else {}


def _walk(value: Any, path: Path, name: str) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and name not in _ATOMIC:
        for key, item in value.items():
            yield from _walk(item, (*path, f"f:{key}"), key)
        return
    if isinstance(value, list):
        keys = _keys_of(name, value)
        if keys is not None:
            for item in value:
                element = _element(item, keys)
                yield (*path, element, "."), True
                for key, inner in item.items():
                    yield from _walk(inner, (*path, element, f"f:{key}"), key)
            return
        if name in _SETS:
            for item in value:
                yield (*path, "v:" + json.dumps(item)), True
            return
    yield path, value


def merged(live: Any, config: Any, name: str = "") -> Any:
    """Return an object with what a configuration sets."""
    if isinstance(config, dict) and isinstance(live, dict) and name not in _ATOMIC:
        result = dict(live)
        for key, value in config.items():
            result[key] = merged(live.get(key), value, key)
        return result
    if isinstance(config, list) and isinstance(live, list):
        if name in _SETS:
            return [*live, *(item for item in config if item not in live)]
        keys = _keys_of(name, [*live, *config])
        if keys is not None:
            return _merged_items(live, config, keys)
    return config


def _merged_items(live: list[Any], config: list[Any], keys: Sequence[str]) -> list[Any]:
    wanted = {_element(item, keys): item for item in config}
    result = [
        merged(item, wanted.pop(element)) if (element := _element(item, keys)) in wanted else item
        for item in live
    ]
    return [*result, *wanted.values()]


def without(content: Any, path: Path, name: str = "") -> Any:
    """Return an object without a field. What becomes empty by that goes, too."""
    head, rest = path[0], path[1:]
    if head.startswith("f:") and isinstance(content, dict):
        key = head[2:]
        if key not in content:
            return content
        inner = without(content[key], rest, key) if rest else None
        kept = {k: v for k, v in content.items() if k != key}
        return kept if inner in (None, {}, []) else {**kept, key: inner}
    if not isinstance(content, list):
        return content
    if head.startswith("v:"):
        return [item for item in content if "v:" + json.dumps(item) != head]
    keys = _keys_of(name, content)
    if keys is None:
        return content
    if rest == (".",):
        return [item for item in content if _element(item, keys) != head]
    return [
        without(item, rest) if _element(item, keys) == head and rest else item for item in content
    ]


def to_fields(paths: Iterable[Path]) -> dict[str, Any]:
    """Return paths as FieldsV1."""
    root: dict[str, Any] = {}
    for path in sorted(paths):
        at = root
        for element in path:
            at = at.setdefault(element, {})
    return root


def from_fields(fields: Any, path: Path = ()) -> set[Path]:
    """Return FieldsV1 as paths; what is no such thing is left out."""
    if not isinstance(fields, dict) or not fields:
        return {path} if path else set()
    found: set[Path] = set()
    for element, inner in fields.items():
        found |= from_fields(inner, (*path, str(element)))
    return found


def _shown_keys(text: str) -> str:
    try:
        keys = json.loads(text)
    except ValueError:
        return text  # what a client has written itself
    if not isinstance(keys, dict):
        return text
    return ",".join(f"{key}={json.dumps(keys[key])}" for key in keys)


def shown(path: Path) -> str:
    """Return a path as conflicts name it: .spec.containers[name="main"].image."""
    text = ""
    for element in path:
        if element.startswith("f:"):
            text += f".{element[2:]}"
        elif element.startswith("k:"):
            text += f"[{_shown_keys(element[2:])}]"
        elif element.startswith("v:"):
            text += f"[={element[2:]}]"
    return text
