"""Kubernetes manifests to messages and back.

Guarantees: an ordinary manifest reads unchanged; fields that do not exist are reported with their
path (an error when strict); every mistake of a manifest is reported at once, each with its path and
value; what is read is printed back with the same content. The JSON merge patch of RFC 7396 is the
same reading, onto an object that exists.

Non-goals: whether the values make sense (``validation``), and defaults (``defaulting``).
"""

from __future__ import annotations

import copy
import gc
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from podsched.api import codec
from podsched.api.field_errors import FieldError, invalid
from podsched.api.former_versions import current_version
from podsched.api.kinds import KINDS, Kind, kind_of
from podsched.api.objects import AnyObject, copy_of


class ManifestError(ValueError):
    """The manifest cannot be read: a fault of its author. Has all problems found."""

    def __init__(self, problems: list[FieldError], document: str = "") -> None:
        self.problems = problems
        prefix = f"{document}: " if document else ""
        texts = (f"{each.path}: {each.reason}" if each.path else each.reason for each in problems)
        super().__init__(prefix + "; ".join(texts))


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object read from a manifest, and the fields that were ignored."""

    message: AnyObject
    warnings: list[str]


#: Levels of maps and lists in a manifest. What constructs YAML is recursive, in C: some ten
#: thousand levels would end the process.
MAX_DEPTH = 100
#: Nodes that aliases may add to those that are written out. Real manifests need fewer, and nine
#: lines of aliases to aliases stand for billions.
MAX_ALIASED_NODES = 100_000


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Kubernetes reads it: no dates, no base-60 numbers, no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            mark = key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a string", mark)
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'key "{key_node.value}" already set in map', mark
                )
            seen.add(key_node.value)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rpartition(":")[2] not in ("timestamp", "int", "value")
    ]
    for first, resolvers in copy.deepcopy(yaml.SafeLoader.yaml_implicit_resolvers).items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", codec.YAML_INTEGER, list("-+0123456789"))


#: Of a number: as many as JSON's largest. Hexadecimal ones may be longer than can be printed.
_MOST_BITS = 1024


def _refuse(loader: Any, node: yaml.Node) -> Any:
    """Refuse what has no counterpart in JSON: bytes, dates, sets, ordered maps."""
    raise yaml.constructor.ConstructorError(
        None, None, f"values of type {node.tag} are not supported", node.start_mark
    )


def _fitting(construct: Any) -> Any:
    """Return a constructor that reports text that does not fit its explicit tag.

    Numbers in base 60 are text, as in Kubernetes. One of 240 KB would take 5 s, one twice as long
    four times as much.
    """

    def constructed(loader: Any, node: yaml.Node) -> Any:
        try:
            if ":" in (text := loader.construct_scalar(node)):
                return text
            value = construct(loader, node)
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ValueError
            return value
        except (ValueError, LookupError):
            problem = f"the value does not fit its type {node.tag}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    return constructed


for _type in ("binary", "timestamp", "set", "omap", "pairs"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_type}", _refuse)
for _type in ("int", "float", "bool"):
    _tag = f"tag:yaml.org,2002:{_type}"
    _Loader.add_constructor(_tag, _fitting(_Loader.yaml_constructors[_tag]))


def load_documents(
    text: str | bytes, *, most_events: float = math.inf, as_written: bool = False
) -> list[dict[str, Any]]:
    """Return the documents of YAML or JSON text; empty ones are left out.

    Lists are opened, and former versions converted to those that are stored, unless ``as_written``.

    most_events: keys and values that it may have; maps and lists count twice.
    Raises ManifestError, also for text that is nested too deeply or unfolds to too much.
    """
    text = _without_pairs(text)
    try:
        _check_structure(text, most_events)
        with _without_collection():
            loaded = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(re.sub('in "<(unicode|byte) string>",', "at", str(error)).split())
        if isinstance(error, yaml.scanner.ScannerError) and _is_tab(text, error.problem_mark):
            reason += ": a tab; YAML is indented with spaces"
        reason = f"error parsing YAML: {reason or 'nested too deeply'}"
        raise ManifestError([invalid("", None, reason)]) from error
    documents: list[dict[str, Any]] = []
    for number, document in enumerate(loaded, start=1):
        documents.extend(_opened(document, f"document {number}", as_written=as_written))
    return documents


#: JSON's escape of a character beyond 16 bits, after escaped backslashes.
_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def _without_pairs(text: str | bytes) -> str | bytes:
    """Return JSON with characters in place of surrogate pairs, which libyaml refuses.

    Other text is returned as it is: there they may be no escapes.
    """
    if isinstance(text, bytes) or not _PAIR.search(text):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _PAIR.sub(lambda found: found[1] + json.loads(f'"{found[2]}"'), text)


def _is_tab(text: str | bytes, mark: Any) -> bool:
    """Return whether a line begins with a tab where the parser stopped, after blanks."""
    lines = (text.decode(errors="replace") if isinstance(text, bytes) else text).split("\n")
    return any(line.lstrip(" ").startswith("\t") for line in lines[mark.line : mark.line + 1])


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection in the block, because parsing creates no cycles.

    The collector would look at all of them again and again, and take half of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_structure(text: str | bytes, most_events: float) -> None:
    """Raise YAMLError for text that expands far beyond its size; linear, not recursive.

    Reads the events alone, a third of the time that loading takes.
    """
    sizes: dict[str, int] = {}  # nodes behind each anchor, its aliases unfolded
    opened: list[tuple[str | None, int]] = []  # the anchors of what is open, nodes before it
    nodes = aliased = 0
    for event in _events(text, most_events):
        if isinstance(event, yaml.AliasEvent):
            size = _size_behind(event, opened, sizes)
            nodes += size
            aliased += size
            _check_aliased(aliased, event)
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(opened) >= MAX_DEPTH:
                raise _structure_error(f"nested more than {MAX_DEPTH} levels deep", event)
            opened.append((event.anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = nodes - before
        elif isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()


def _events(text: str | bytes, most: float) -> Iterator[yaml.Event]:
    """Yield the events of YAML. Raises YAMLError when there are too many."""
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if number > most:
            raise _structure_error(f"more than {most:,} keys and values: write it as JSON", event)
        yield event


def _size_behind(
    alias: yaml.AliasEvent, opened: list[tuple[str | None, int]], sizes: Mapping[str, int]
) -> int:
    """Return the number of nodes that an alias stands for. Raises YAMLError for a circle."""
    if any(anchor == alias.anchor for anchor, _ in opened):
        raise _structure_error(f"*{alias.anchor} refers to what it is part of", alias)
    return sizes.get(alias.anchor or "", 0)


def _check_aliased(nodes: int, event: yaml.Event) -> None:
    if nodes > MAX_ALIASED_NODES:
        limit = f"{MAX_ALIASED_NODES:,}"
        raise _structure_error(f"aliases stand for more than {limit} nodes", event)


def _structure_error(problem: str, event: yaml.Event) -> yaml.YAMLError:
    mark: Any = event.start_mark  # libyaml has a type of its own for it
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _opened(document: object, where: str, *, as_written: bool = False) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if not isinstance(document, dict):
        problem = invalid("", document, f"expected an object, got {codec.type_name(document)}")
        raise ManifestError([problem], where)
    if as_written:
        yield document
        return
    items = document.get("items")
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            implied = dict(item) if isinstance(item, dict) else item
            if isinstance(implied, dict) and kind != "List":
                implied.setdefault("kind", kind.removesuffix("List"))
                implied.setdefault("apiVersion", document.get("apiVersion"))
            yield from _opened(implied, f"{where} items[{index}]")
        return
    yield current_version(document)


def describe(document: Mapping[str, Any]) -> str:
    """Return kind and name of a manifest for messages: Pod default/web."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(unnamed)"
    namespace = metadata.get("namespace")
    return f"{document.get('kind', 'object')} {f'{namespace}/' if namespace else ''}{name}"


def manifest_kind(document: Mapping[str, Any]) -> Kind:
    """Return the kind named in a manifest. Raises ManifestError."""
    problems = []
    name, version = document.get("kind"), document.get("apiVersion")
    for field, value in (("kind", name), ("apiVersion", version)):
        if not value:
            problems.append(invalid(field, value, "must not be empty"))
        elif not isinstance(value, str):
            reason = f"expected a string, got {codec.type_name(value)}"
            problems.append(invalid(field, value, reason))
    if problems:
        raise ManifestError(problems, describe(document))
    kind = KINDS.get(str(name))
    if kind is None or kind.api_version != version:
        reason = f'no matches for kind "{name}" in version "{version}"'
        if kind is not None:
            reason += f" (it is served in {kind.api_version})"
        raise ManifestError([invalid("", name, reason)], describe(document))
    return kind


def from_manifest(document: Mapping[str, Any], *, strict: bool = False) -> Decoded:
    """Return the object of a manifest.

    Raises ManifestError, with ``strict`` for unknown fields, too.
    """
    kind = manifest_kind(document)
    message = kind.new()
    return _read_into(message, document, strict=strict, where=describe(document))


def apply_merge_patch(message: AnyObject, patch: Mapping[str, Any]) -> Decoded:
    """Return a copy of the object with a JSON merge patch (RFC 7396) applied.

    Raises ManifestError.
    """
    where = f"{kind_of(message).name} {message.metadata.name}"
    return _read_into(copy_of(message), patch, strict=False, where=where)


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that changes ``old`` into ``new``.

    Both are content of manifests. True and 1 count as different, although Python's are equal.
    """
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if name in old and _is_same(value, before):
            continue
        both = isinstance(value, dict) and isinstance(before, dict)
        patch[name] = merge_patch(before or {}, value) if both else value
    return patch


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _read_into(
    message: AnyObject, document: Mapping[str, Any], *, strict: bool, where: str
) -> Decoded:
    content = {key: item for key, item in document.items() if key not in ("apiVersion", "kind")}
    reader = codec.Reader()
    reader.read(message, content, "")
    problems = reader.problems
    unknown = [f'unknown field "{path}"' for path in reader.unknown]
    if problems and reader.left_out:
        problems.append(invalid("", None, f"and {reader.left_out:,} more"))
    if strict:
        problems += [invalid("", None, text) for text in unknown]
    if problems:
        raise ManifestError(problems, where)
    return Decoded(message, unknown)


def to_manifest(message: AnyObject) -> dict[str, Any]:
    """Return the manifest of an object as JSON values, apiVersion and kind first."""
    kind = kind_of(message)
    return {"apiVersion": kind.api_version, "kind": kind.name, **codec.write(message)}
