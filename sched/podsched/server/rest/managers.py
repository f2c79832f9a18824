"""Server-side apply: who manages which field, what a configuration changes, and conflicts.

Fields are accounted for from the first apply on: an object that was never applied has no
``managedFields``, and whatever it holds then belongs to "before-first-apply".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podsched.api import codec
from podsched.api.objects import AnyObject, timestamp
from podsched.api.reasons import StatusCode
from podsched.server.entries import Entry
from podsched.server.rest.failures import RestError
from podsched.server.rest.fieldsets import (
    Path,
    from_fields,
    merged,
    paths_of,
    shown,
    to_fields,
    without,
)
from podsched.server.rest.resources import Resource

_FIRST: Final = "before-first-apply"
_APPLY, _UPDATE = "Apply", "Update"
#: What nobody manages: the identity of the object, and what the server keeps.
_UNMANAGED: Final = frozenset(
    {
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes, and how: "Apply" or "Update"; subresource: "" or "status"."""

    name: str
    operation: str
    subresource: str = ""


@dataclass(slots=True)
class _Owner:
    """One entry of ``managedFields``."""

    manager: Manager
    version: str
    time: str
    paths: set[Path] = field(default_factory=set)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> _Owner:
        manager = Manager(
            str(content.get("manager", "")),
            str(content.get("operation", _UPDATE)),
            str(content.get("subresource", "")),
        )
        version, when = str(content.get("apiVersion", "")), str(content.get("time", ""))
        return cls(manager, version, when, from_fields(content.get("fieldsV1")))

    def content(self) -> dict[str, Any]:
        found = {
            "manager": self.manager.name,
            "operation": self.manager.operation,
            "apiVersion": self.version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields(self.paths),
        }
        if self.manager.subresource:
            found["subresource"] = self.manager.subresource
        return found


def _fields(content: Mapping[str, Any]) -> dict[Path, Any]:
    """Return what can be managed of an object."""
    metadata = content.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in _UNMANAGED}
    rest = {k: v for k, v in content.items() if k not in ("apiVersion", "kind", "metadata")}
    return paths_of({**rest, "metadata": kept} if kept else rest)


def _owners(content: Mapping[str, Any]) -> list[_Owner]:
    listed = (content.get("metadata") or {}).get("managedFields") or []
    return [_Owner.of(item) for item in listed if isinstance(item, dict)]


def _now(clock: Callable[[], float]) -> str:
    return codec.format_time(timestamp(clock(), whole=True))


def normalized(resource: Resource, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration in the form in which objects are stored."""
    message = resource.kind.new()
    stripped = {key: value for key, value in config.items() if key not in ("apiVersion", "kind")}
    codec.Reader().read(message, resource.hide(stripped), "")
    return resource.show(codec.write(message))


def applied(
    live: Mapping[str, Any],
    config: Mapping[str, Any],
    manager: Manager,
    *,
    force: bool,
    version: str,
    clock: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Return an object with a configuration applied. Raises RestError for conflicts.

    version: the apiVersion that the configuration is of.
    """
    config = _own_part(config, manager)
    wanted, before = _fields(config), _fields(live)
    owners = _owners(live) or _first_owner(before, version, clock)
    own = next((owner for owner in owners if owner.manager == manager), None)
    others = [owner for owner in owners if owner is not own]
    changed = {path for path, value in wanted.items() if before.get(path, _ABSENT) != value}
    conflicts = {path: owner for owner in others for path in sorted(changed & owner.paths)}
    if conflicts and not force:
        raise _conflict(conflicts)
    for owner in others:
        owner.paths -= changed
    content: dict[str, Any] = merged(dict(live), config)
    for path in (own.paths if own else set()) - set(wanted):
        if not any(path in owner.paths for owner in others):
            content = without(content, path)
    mine = _Owner(manager, version, "", set(wanted))
    same = own is not None and own.paths == mine.paths and _fields(content) == before
    mine.time = own.time if own is not None and same else _now(clock)
    listed = [owner.content() for owner in [*others, mine] if owner.paths]
    content["metadata"] = {**content.get("metadata", {}), "managedFields": listed}
    return content


_ABSENT: Final = object()


def _own_part(config: Mapping[str, Any], manager: Manager) -> dict[str, Any]:
    """Return the part of a configuration that the path which it came by writes."""
    if manager.subresource:
        kept = ("apiVersion", "kind", "metadata", manager.subresource)
        return {key: value for key, value in config.items() if key in kept}
    return {key: value for key, value in config.items() if key != "status"}


def _first_owner(
    before: Mapping[Path, Any], version: str, clock: Callable[[], float]
) -> list[_Owner]:
    if not before:
        return []
    return [_Owner(Manager(_FIRST, _UPDATE), version, _now(clock), set(before))]


def _conflict(conflicts: Mapping[Path, _Owner]) -> RestError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{owner.manager.name}"{_using(owner)}',
            "field": shown(path),
        }
        for path, owner in sorted(conflicts.items())
    ]
    noun = "conflict" if len(causes) == 1 else "conflicts"
    listed = [f"{cause['message']}: {cause['field']}" for cause in causes]
    text = f"Apply failed with {len(causes)} {noun}: "
    text += listed[0] if len(listed) == 1 else "conflicts:\n- " + "\n- ".join(listed)
    return RestError(409, "Conflict", text, {"causes": causes}, code=StatusCode.ABORTED)


def _using(owner: _Owner) -> str:
    if owner.manager.operation == _APPLY:
        return ""
    return f" using {owner.version}"


def managed(
    resource: Resource,
    entry: Entry,
    message: AnyObject,
    manager: Manager,
    clock: Callable[[], float] = time.time,
) -> AnyObject:
    """Return a replacement of an object with its fields accounted for, in place."""
    old = entry.message
    if not old.metadata.managed_fields:
        message.metadata.ClearField("managed_fields")
        return message
    live, new = codec.write(old), codec.write(message)
    before, after = _fields(live), _fields(new)
    changed = {path for path, value in after.items() if before.get(path, _ABSENT) != value}
    gone = set(before) - set(after)
    owners = _owners(live)
    own = next((owner for owner in owners if owner.manager == manager), None)
    for owner in owners:
        owner.paths -= gone if owner is own else gone | changed
    if changed:
        if own is None:
            own = _Owner(manager, resource.api_version, "")
            owners.append(own)
        own.paths |= changed
        own.time = _now(clock)
    message.metadata.ClearField("managed_fields")
    for owner in owners:
        if owner.paths:
            message.metadata.managed_fields.add().update(owner.content())
    return message
