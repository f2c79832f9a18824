"""Validation: all mistakes that Kubernetes would not accept, at once, each with its path.

Source: pkg/apis/{core,node,scheduling,policy,apps,storage,coordination,rbac,resource}/validation
and apimachinery/pkg/{api,apis/meta/v1,util}/validation, v1.36; the wording is theirs. Objects are
validated after defaulting. The outcome for the spec of a new pod is remembered by content, so that
pods of one template are validated once.

Beyond Kubernetes: lists and maps are bounded (``MAX_ITEMS``), and so is what no schema bounds
(``storable``), after which nothing else is checked. Non-goal: what only a kubelet or a
cloud would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

from google.protobuf.message import Message

from podsched.api import names
from podsched.api import objects as o
from podsched.api.codec import write
from podsched.api.field_errors import FieldError
from podsched.api.kinds import KINDS, Kind
from podsched.api.names import NameRule
from podsched.api.pod_parts import POD_PARTS
from podsched.api.quantity_fields import are_same
from podsched.api.validation.meta import validate_metadata, validate_metadata_update
from podsched.api.validation.place import IMMUTABLE, Place
from podsched.api.validation.storable import validate_storable

__all__ = ["validate", "validate_status"]


def _rules() -> Iterator[tuple[tuple[str, str], Callable[..., None]]]:
    """Yield the rules by the name of the kind and the change that they are about."""
    changes = ("", "_creation", "_update", "_replacement", "_status", "_status_update")
    for kind in KINDS.values():
        module = import_module(f"{__name__}.{kind.rules}") if kind.rules else None
        for change in (*changes, *(f"_{part}" for part in POD_PARTS)):
            rule = getattr(module, f"validate_{kind.oneof_field}{change}", None)
            if rule is not None:
                yield (kind.name, change), rule


_RULES = dict(_rules())
_NAME_RULES: dict[str, NameRule] = {
    kind.name: getattr(names, kind.name_rule) for kind in KINDS.values()
}


def validate(
    kind: Kind | str, message: o.AnyObject, old: o.AnyObject | None = None, part: str = ""
) -> list[FieldError]:
    """Return every mistake in an object that is created, or that replaces ``old``.

    part: the subresource that the update is of, if it has rules of its own ("resize" of a pod).
    """
    found, at = KINDS[kind] if isinstance(kind, str) else kind, Place()
    validate_metadata(
        at("metadata"),
        message.metadata,
        namespaced=found.namespaced,
        name_rule=_NAME_RULES[found.name],
        core=not found.group,
    )
    if old is not None:
        validate_metadata_update(at("metadata"), message.metadata, old.metadata)
    # What a pod's spec holds is checked with the spec, whose outcome is remembered.
    unreadable = validate_storable(message, without=("spec",) if found.name == "Pod" else ())
    if unreadable:
        return at.errors + unreadable
    if old is not None and not part and _has_same_content(message, old):
        # A finalizer must be removable, even if a rule is newer than the object.
        return at.errors
    if old is not None and (check := _RULES.get((found.name, "_replacement"))):
        # In place of both others: what is stored already is checked less.
        check(at, message, old)
        return at.errors
    if check := _RULES.get((found.name, "")):
        check(at, message)
    if old is None and (check := _RULES.get((found.name, "_creation"))):
        check(at, message)
    if old is not None:
        _check_fixed(at, found.fixed, message, old)
    if old is not None and (check := _RULES.get((found.name, f"_{part or 'update'}"))):
        check(at, message, old)
    return at.errors


def _has_same_content(new: o.AnyObject, old: o.AnyObject) -> bool:
    """Return whether nothing has changed but metadata that say nothing about an object."""
    now, before = new.metadata, old.metadata
    if now.labels != before.labels or now.annotations != before.annotations:
        return False
    return all(
        getattr(new, field.name) == getattr(old, field.name)
        for field in new.DESCRIPTOR.fields
        if field.name != "metadata"
    )


def _check_fixed(at: Place, names: Iterable[str], new: o.AnyObject, old: o.AnyObject) -> None:
    """Check that fields that cannot change have not changed; the error shows what is new."""
    for name in names:
        now, field = getattr(new, name), new.DESCRIPTOR.fields_by_name[name].json_name
        if not are_same(now, getattr(old, name)):
            shown = write(new).get(field, None if isinstance(now, Message) else now)
            at(field).invalid(shown, IMMUTABLE)


def validate_status(kind: Kind | str, message: o.AnyObject, old: o.AnyObject) -> list[FieldError]:
    """Return every mistake in an update of the status alone."""
    found, at = KINDS[kind] if isinstance(kind, str) else kind, Place()
    validate_metadata_update(at("metadata"), message.metadata, old.metadata)
    if unreadable := validate_storable(message, without=("spec",)):
        return at.errors + unreadable
    if check := _RULES.get((found.name, "_status")):
        check(at, message)
    if check := _RULES.get((found.name, "_status_update")):
        check(at, message, old)
    return at.errors
