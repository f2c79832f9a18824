"""Validation: all mistakes that Kubernetes would not accept, at once, each with its path.

Source: pkg/apis/{core,node,scheduling,policy,apps,storage,coordination,rbac}/validation and
apimachinery/pkg/{api,apis/meta/v1,util}/validation, v1.36; the wording is theirs. Objects are
validated after defaulting. The outcome for the spec of a new pod is remembered by content, so that
pods of one template are validated once.

Beyond Kubernetes: lists and maps are bounded (``MAX_ITEMS``), and so is what no schema bounds
(``storable``). Non-goal: what only a kubelet or a
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
from podsched.api.validation.storable import validate_storable

__all__ = ["validate", "validate_status"]


def _named(entry: Callable[[Kind], str]) -> Mapping[str, Callable[..., Any]]:
    """Return the functions that the kinds name, by kind."""
    found = {kind.name: function(entry(kind)) for kind in KINDS.values()}
    return {name: check for name, check in found.items() if check is not None}


_NAME_RULES = _named(lambda kind: kind.name_rule)
_CREATE = _named(lambda kind: kind.check)
_UPDATE = _named(lambda kind: kind.check_update)
_STATUS = _named(lambda kind: kind.check_status)


def validate(
    kind: Kind | str, message: o.AnyObject, old: o.AnyObject | None = None
) -> list[FieldError]:
    """Return every mistake in an object that is created, or that replaces ``old``."""
    found = KINDS[kind] if isinstance(kind, str) else kind
    errors = validate_metadata(
        message.metadata,
        namespaced=found.namespaced,
        name_rule=_NAME_RULES[found.name],
        core=not found.group,
    )
    if old is not None:
        errors += validate_metadata_update(message.metadata, old.metadata)
    # What a pod's spec holds is checked with the spec, whose outcome is remembered.
    errors += validate_storable(message, without=("spec",) if found.name == "Pod" else ())
    check = _CREATE.get(found.name)
    if check is not None:
        errors += check(message)
    check_update = _UPDATE.get(found.name)
    if old is not None and check_update is not None:
        errors += check_update(message, old)
    return errors


def validate_status(kind: Kind | str, message: o.AnyObject, old: o.AnyObject) -> list[FieldError]:
    """Return every mistake in an update of the status alone."""
    found = KINDS[kind] if isinstance(kind, str) else kind
    errors = validate_metadata_update(message.metadata, old.metadata)
    errors += validate_storable(message, without=("spec",))
    check = _STATUS.get(found.name)
    if check is not None:
        errors += check(message)
    return errors
