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

from collections.abc import Callable, Mapping
from typing import Any

from podsched.api import objects as o
from podsched.api.field_errors import FieldError
from podsched.api.kind import function
from podsched.api.kinds import KINDS, Kind
from podsched.api.validation.meta import validate_metadata, validate_metadata_update
from podsched.api.validation.place import Place
from podsched.api.validation.storable import validate_storable

__all__ = ["validate", "validate_status"]


def _rules(of: Callable[[Kind], str]) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of the kinds that have one; ``of`` returns its name."""
    found = {kind.name: function(of(kind)) for kind in KINDS.values()}
    return {name: rule for name, rule in found.items() if rule is not None}


def _rule_of(kind: Kind, change: str = "") -> str:
    module = f"validation.{kind.rules}.validate_{kind.oneof_field}"
    return f"{module}{change}" if kind.rules else ""


_NAME_RULES = _rules(lambda kind: f"validation.names.{kind.name_rule}")
_CREATE = _rules(_rule_of)
_UPDATE = _rules(lambda kind: _rule_of(kind, "_update"))
#: Rules of an update instead of both, for kinds of which what is stored already is checked less.
_REPLACEMENT = _rules(lambda kind: _rule_of(kind, "_replacement"))
_STATUS = _rules(lambda kind: _rule_of(kind, "_status"))
_STATUS_UPDATE = _rules(lambda kind: _rule_of(kind, "_status_update"))


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
    if old is not None and (check := _REPLACEMENT.get(found.name)):
        check(at, message, old)
        return at.errors
    if check := _CREATE.get(found.name):
        check(at, message)
    update = function(_rule_of(found, f"_{part}")) if part else _UPDATE.get(found.name)
    if old is not None and update:
        update(at, message, old)
    return at.errors


def validate_status(kind: Kind | str, message: o.AnyObject, old: o.AnyObject) -> list[FieldError]:
    """Return every mistake in an update of the status alone."""
    found, at = KINDS[kind] if isinstance(kind, str) else kind, Place()
    validate_metadata_update(at("metadata"), message.metadata, old.metadata)
    if unreadable := validate_storable(message, without=("spec",)):
        return at.errors + unreadable
    if check := _STATUS.get(found.name):
        check(at, message)
    if check := _STATUS_UPDATE.get(found.name):
        check(at, message, old)
    return at.errors
