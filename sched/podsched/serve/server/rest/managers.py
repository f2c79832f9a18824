"""Implements server-side apply: tracks the owners of fields, and finds conflicts between them.

Ownership is tracked from the first apply on: until then an object has no ``managedFields``, and the
fields that it has by then are owned by "before-first-apply".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import itemgetter
from typing import Any, Final, NamedTuple

from podsched.api import codec
from podsched.api.objects import AnyObject, copy_of
from podsched.api.pod_parts import POD_PARTS, part_of_spec
from podsched.api.priorities import PriorityClasses
from podsched.api.quantity import canonical
from podsched.api.quantity_fields import change_quantities
from podsched.api.reasons import StatusCode
from podsched.serve.server.admission import default_update
from podsched.serve.server.certificate_requests import APPROVAL
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import too_large
from podsched.serve.server.rest.failures import RestError, bad_request
from podsched.serve.server.rest.fieldsets import (
    MAX_FIELDS,
    Fields,
    difference,
    duplicates,
    fields_of,
    from_fields,
    intersection,
    is_large,
    merged,
    pruned,
    shown,
    to_fields,
    union,
)
from podsched.serve.server.rest.last_applied import KUBECTL, last_applied, renewed
from podsched.serve.server.rest.resources import Resource
from podsched.serve.server.rest.shapes import with_micro_times
from podsched.serve.server.rewriting import metadata_with_status

_FIRST: Final = "before-first-apply"
#: Fields in every configuration: they keep the metadata owned, so that pruning never removes it.
_IDENTITY: Final[Fields] = {"f:metadata": {"f:name": {".": {}}}}
_NONE: Final[Fields] = {}
#: Max conflicts listed in an answer; each names a field, so the list could get long.
_MAX_CONFLICTS: Final = 100
#: Lists that are owned as one value, though others of their names have items with keys.
_WHOLE_LISTS: Final = {"EndpointSlice": "ports", "ServiceAccount": "imagePullSecrets"}
#: The default of a priority depends on them, which only new pods get.
_CLASSES: Final = PriorityClasses()
_APPLY, _UPDATE = "Apply", "Update"
#: Fields without an owner: the object's identity, and those that the server sets.
_UNMANAGED: Final = frozenset(
    {
        *("name", "namespace", "generateName", "uid", "resourceVersion", "generation"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"),
        "selfLink",
    }
)


@dataclass(frozen=True, slots=True)
class Manager:
    """A field manager and its operation ("Apply" or "Update"); subresource: "" or "status"."""

    name: str
    operation: str
    subresource: str = ""


@dataclass(slots=True)
class _Owner:
    """One entry of ``managedFields``."""

    manager: Manager
    version: str
    time: str
    fields: Fields = field(default_factory=dict)

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
            "fieldsV1": to_fields(self.fields),
        }
        if self.manager.subresource:
            found["subresource"] = self.manager.subresource
        return found


def _manageable(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an object that can have owners."""
    metadata = content.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in _UNMANAGED}
    rest = {k: v for k, v in content.items() if k not in ("apiVersion", "kind", "metadata")}
    return {**rest, "metadata": kept} if kept else rest


def _opaque(kind: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object in which a list that has one owner is no list; ``_plain`` undoes it."""
    name = _WHOLE_LISTS.get(kind, "")
    return {**content, name: (content[name],)} if name in content else content


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    return {k: value[0] if isinstance(value, tuple) else value for k, value in content.items()}


@dataclass(frozen=True, slots=True)
class _Difference:
    """The fields that a version of an object sets or changes, and those that it removes."""

    changed: Fields
    gone: Fields

    @classmethod
    def between(cls, old: Mapping[str, Any], new: Mapping[str, Any]) -> _Difference:
        before, after = _manageable(old), _manageable(new)
        return cls(fields_of(after, before), difference(fields_of(before), fields_of(after)))


def _owners(content: Mapping[str, Any]) -> list[_Owner]:
    listed = (content.get("metadata") or {}).get("managedFields") or []
    return [_Owner.of(item) for item in listed if isinstance(item, dict)]


class Configuration(NamedTuple):
    """A configuration in the form of a stored object.

    empty: its fields that say what an absent one means, as "unschedulable: false".
    """

    content: dict[str, Any]
    empty: Fields


def normalized(resource: Resource, config: Mapping[str, Any]) -> Configuration:
    """Return a configuration in the form of a stored object.

    Raises RestError 400 for duplicate items of a list.
    """
    message = resource.kind.new()
    stripped = {key: value for key, value in config.items() if key not in ("apiVersion", "kind")}
    given = resource.hide(stripped)
    codec.Reader().read(message, given, "")
    # As they are stored: others than those would differ from the object at each apply.
    change_quantities(message, canonical)
    written = with_micro_times(resource.kind, codec.write(message))
    content = resource.show(_only_given(written, given))
    if (doubled := next(duplicates(_opaque(resource.kind.name, content)), None)) is not None:
        raise bad_request(f"{doubled}: duplicate entries for this key")
    stored = fields_of(resource.show(_only_given(written, given, empty=False)))
    return Configuration(content, difference(fields_of(content), stored))


def _only_given(written: Any, given: Any, *, empty: bool = True) -> Any:
    """Return what is written of a configuration without the fields that are written always.

    empty: with those that are not written because they say what an absent one means.
    """
    if isinstance(written, dict) and isinstance(given, Mapping):
        return {
            key: _only_given(written[key], value, empty=empty) if key in written else value
            for key, value in given.items()
            if key in written or (empty and value is not None and not value)
        }
    if isinstance(written, list) and isinstance(given, list):
        return [_only_given(v, each, empty=empty) for v, each in zip(written, given, strict=False)]
    return written


def applied(
    live: Mapping[str, Any],
    config: Mapping[str, Any],
    manager: Manager,
    *,
    force: bool,
    version: str,
    kind: str = "",
    empty: Fields = _NONE,
    clock: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Return an object with a configuration applied. Raises ApiError for conflicts.

    version: the configuration's apiVersion; empty: see ``Configuration``. As
    structured-merge-diff's ``Updater.Apply``: the object is merged with the configuration and loses
    the fields that the manager applied before and that have no owner now; fields that then differ
    from the previous object conflict with their other owners.
    """
    if is_large(_manageable(live)):
        raise too_large(f"the object has more than {MAX_FIELDS:,} fields: replace it instead")
    live, config = _opaque(kind, live), _opaque(kind, _own_part(kind, config, manager))
    owners = _owners(live) or _first_owner(live, version, clock)
    own = next((owner for owner in owners if owner.manager == manager), None)
    others = [owner for owner in owners if owner is not own]
    now = codec.format_seconds(clock())
    mine = _Owner(manager, version, now, fields_of(_manageable(config)))
    content: dict[str, Any] = merged(dict(live), config)
    if own is not None:
        owned = reduce(union, (owner.fields for owner in others), union(mine.fields, _IDENTITY))
        content = pruned(content, own.fields, owned)
    change = _Difference.between(live, content)
    # What is not stored and is set to nothing does not change.
    changed = difference(change.changed, difference(empty, fields_of(_manageable(live))))
    by_kubectl = manager.name == KUBECTL and not manager.subresource
    contested = difference(changed, _noted(live, version, kind) if by_kubectl else _NONE)
    conflicts = [
        (owner, fields) for owner in others if (fields := intersection(owner.fields, contested))
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    for owner in others:
        owner.fields = difference(difference(owner.fields, changed), change.gone)
    # In another order, an apply that changes nothing would be written and shown to all watches.
    named = [mine if owner is own else owner for owner in owners]
    named += [] if own is not None else [mine]
    listed = [owner.content() for owner in named if owner.fields]
    content["metadata"] = {**content.get("metadata", {}), "managedFields": listed}
    content = _plain(content)
    said = {"apiVersion": version, "kind": kind, **_plain(config)}
    return renewed(content, said) if by_kubectl else content


def _noted(live: Mapping[str, Any], version: str, kind: str) -> Fields:
    """Return the fields that kubectl applied by itself, and that are still as it did."""
    noted = _opaque(kind, last_applied(live, version))
    return difference(fields_of(_manageable(noted)), _Difference.between(live, noted).changed)


def _own_part(kind: str, config: Mapping[str, Any], manager: Manager) -> dict[str, Any]:
    """Return the part of a configuration that the manager's subresource writes."""
    if not manager.subresource:
        return {key: value for key, value in config.items() if key != "status"}
    is_part = manager.subresource in POD_PARTS
    names = _UNMANAGED.union(() if is_part else metadata_with_status(kind))
    metadata = {key: value for key, value in config.get("metadata", {}).items() if key in names}
    if is_part:
        spec = config.get("spec")
        own = part_of_spec(spec, manager.subresource) if isinstance(spec, dict) else {}
        return {"metadata": metadata, "spec": own}
    # Of an approval, too: it is a part of the status.
    kept = ("apiVersion", "kind", "status")
    return {**{key: value for key, value in config.items() if key in kept}, "metadata": metadata}


def _first_owner(live: Mapping[str, Any], version: str, clock: Callable[[], float]) -> list[_Owner]:
    fields, now = fields_of(_manageable(live)), codec.format_seconds(clock())
    return [_Owner(Manager(_FIRST, _UPDATE), version, now, fields)] if fields else []


def _conflict(conflicts: Sequence[tuple[_Owner, Fields]]) -> RestError:
    found = [(field, owner) for owner, fields in conflicts for field in shown(fields)]
    found.sort(key=itemgetter(0))
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_shown_owner(owner)}",
            "field": field,
        }
        for field, owner in found[:_MAX_CONFLICTS]
    ]
    noun = "conflict" if len(found) == 1 else "conflicts"
    listed = [f"{cause['message']}: {cause['field']}" for cause in causes]
    if len(found) > len(causes):
        listed.append(f"and {len(found) - len(causes)} more")
    text = f"Apply failed with {len(found)} {noun}: "
    text += listed[0] if len(listed) == 1 else "conflicts:\n- " + "\n- ".join(listed)
    return RestError(409, "Conflict", text, {"causes": causes}, code=StatusCode.ABORTED)


def _shown_owner(owner: _Owner) -> str:
    """Return a manager as Kubernetes shows it: two of one name differ by their subresource."""
    manager = owner.manager
    below = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    version = f" using {owner.version}" if manager.operation != _APPLY else ""
    return f'"{manager.name}"{below}{version}'


def managed(resource: Resource, entry: Entry, message: AnyObject, manager: Manager) -> AnyObject:
    """Set the ``managedFields`` of an object's replacement, in place, and return it."""
    old = entry.message
    if not old.metadata.managed_fields:
        message.metadata.ClearField("managed_fields")
        return message
    live = codec.write(old)
    alone = manager.subresource in ("status", APPROVAL)
    new = codec.write(message if alone else _defaulted(message, old))
    written = _written(resource, live, new, alone=alone)
    kind = resource.kind.name
    change = _Difference.between(_opaque(kind, live), _opaque(kind, written))
    owners = _owners(live)
    own = next((owner for owner in owners if owner.manager == manager), None)
    for owner in owners:
        owner.fields = difference(owner.fields, change.gone)
        if owner is not own:
            owner.fields = difference(owner.fields, change.changed)
    if change.changed:
        if own is None:
            own = _Owner(manager, resource.api_version, "")
            owners.append(own)
        own.fields = union(own.fields, change.changed)
        own.time = codec.format_seconds(time.time())
    message.metadata.ClearField("managed_fields")
    for owner in owners:
        if owner.fields:
            message.metadata.managed_fields.add().update(owner.content())
    return message


def _defaulted(message: AnyObject, old: AnyObject) -> AnyObject:
    """Return a copy of a replacement with its defaults: who leaves them out changes nothing."""
    made = copy_of(message)
    default_update(made, old, 0, _CLASSES)
    return made


def _written(
    resource: Resource, live: dict[str, Any], new: dict[str, Any], *, alone: bool
) -> dict[str, Any]:
    """Return what is stored of a replacement: its status ``alone``, or the rest of it."""
    if not alone and not resource.kind.has_status:
        return new
    content, of_status = (live, new) if alone else (new, live)
    content = {name: value for name, value in content.items() if name != "status"}
    if "status" in of_status:
        content["status"] = of_status["status"]
    if alone:
        of_new, of_live = (each.get("metadata", {}) for each in (new, live))
        names = metadata_with_status(resource.kind.name)
        kept = {name: value for name, value in of_live.items() if name not in names}
        content["metadata"] = kept | {name: of_new[name] for name in names if name in of_new}
    return content
