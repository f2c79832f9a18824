"""Converts the JSON of stored objects to exactly Kubernetes' JSON: adds and removes members.

metadata.generation    shown only for kinds that have one
MicroTime              always with six decimal digits
spec, status           present even if they are empty
Namespace, Node        members that are always present in Kubernetes
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from podsched.api import codec
from podsched.api.kind import Generation, Kind
from podsched.api.objects import AnyObject, NodeStatus, NodeSystemInfo, copy_field

_MICRO_TIMES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "Lease": (("spec", "acquireTime"), ("spec", "renewTime")),
    "Event": (("eventTime",), ("series", "lastObservedTime")),
}
#: Times that Kubernetes shows in whole seconds; podsched's own writers may store fractions.
_TIMES: Final[Mapping[str, tuple[str, ...]]] = {"Event": ("firstTimestamp", "lastTimestamp")}
_NO_ENDPOINTS: Final = {"kubeletEndpoint": {"Port": 0}}
_MICRO: Final = re.compile(r".*\.\d{6}(Z|[+-]\d{2}:\d{2})")


def with_micro_times(kind: Kind, content: dict[str, Any]) -> dict[str, Any]:
    """Give an object's MicroTimes six digits, in place, and return it."""
    for path in _MICRO_TIMES.get(kind.name, ()):
        _with_micros(content, path)
    return content


def shaped(kind: Kind, content: dict[str, Any]) -> dict[str, Any]:
    """Convert an object to Kubernetes' JSON, in place, and return it."""
    metadata = content.get("metadata", {})
    if kind.generation is Generation.NONE:
        metadata.pop("generation", None)
    elif kind.generation is Generation.FIXED:
        metadata["generation"] = 1
    with_micro_times(kind, content)
    for name in _TIMES.get(kind.name, ()):
        if isinstance(content.get(name), str):
            content[name] = content[name].partition(".")[0].rstrip("Z") + "Z"
    if kind.name == "Namespace":
        _shape_namespace(content)
    elif kind.name == "Node":
        _shape_node(content)
    for name, empty in always_shown(kind).items():
        if name not in content:
            content[name] = dict(empty)
    return content


@lru_cache(None)
def always_shown(kind: Kind) -> Mapping[str, Mapping[str, Any]]:
    """Return the members that Go encodes even if they are empty, with the numbers in them."""
    fields: Any = kind.message.DESCRIPTOR.fields_by_name
    return {
        name: codec.write(fields[name].message_type._concrete_class())
        for name in ("spec", "status")
        if name in fields
    }


def keep_absent(kind: Kind, message: AnyObject, old: AnyObject) -> None:
    """Leave out of a replacement, in place, what is shown of ``old`` although it is not stored.

    So a client that sends an object back as it was shown changes nothing.
    """
    for name in always_shown(kind):
        new, before = getattr(message, name), getattr(old, name)
        if isinstance(new, NodeStatus):
            if new.daemon_endpoints == _NO_ENDPOINTS and not before.HasField("daemon_endpoints"):
                new.ClearField("daemon_endpoints")
            if not (new.node_info.ByteSize() or before.node_info.ByteSize()):
                copy_field(new, before, "node_info")
        if not (new.ByteSize() or before.ByteSize()):
            copy_field(message, old, name)


def _with_micros(content: dict[str, Any], path: tuple[str, ...]) -> None:
    *above, last = path
    at: Any = content
    for name in above:
        at = at.get(name) or {}
    time = at.get(last)
    if isinstance(time, str):
        # This server writes times in UTC; Go clients refuse any other number of digits.
        whole, _, digits = time[:-1].partition(".")
        at[last] = f"{whole}.{digits[:6]:0<6}Z"


def _shape_namespace(content: dict[str, Any]) -> None:
    status = content.setdefault("status", {})
    status.setdefault("phase", "Active")
    if status["phase"] == "Active":
        content.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _shape_node(content: dict[str, Any]) -> None:
    spec = content.setdefault("spec", {})
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    status = content.setdefault("status", {})
    status.setdefault("daemonEndpoints", _NO_ENDPOINTS)
    status.setdefault("nodeInfo", codec.write(NodeSystemInfo()))


def micro_time_problem(kind: Kind, content: Mapping[str, Any]) -> str:
    """Return the error of a malformed MicroTime in an object; "" if there is none."""
    for *above, last in _MICRO_TIMES.get(kind.name, ()):
        at: Any = content
        for name in above:
            at = at.get(name) if isinstance(at, Mapping) else None
        time = at.get(last) if isinstance(at, Mapping) else None
        if isinstance(time, str) and not _MICRO.fullmatch(time):
            return _parse_error(time)
    return ""


def _parse_error(time: str) -> str:
    layout = "2006-01-02T15:04:05.000000Z07:00"
    match = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(.*)", time)
    if match is None:
        return f'parsing time "{time[:60]}" as "{layout}": cannot parse'
    digits, zone = match.group(1) or "", match.group(2)
    if len(digits) > 7:
        return f'parsing time "{time}" as "{layout}": cannot parse "{digits[7:]}{zone}" as "Z07:00"'
    return f'parsing time "{time}" as "{layout}": cannot parse "{digits}{zone}" as ".000000"'
