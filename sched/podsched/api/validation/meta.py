"""Metadata, labels and label selectors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from typing import TypeVar

from podsched.api.codec import format_time
from podsched.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from podsched.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
)
from podsched.api.owners import FOREGROUND_FINALIZER, KUBERNETES_FINALIZER, ORPHAN_FINALIZER
from podsched.api.validation.names import NameRule, dns1123_label, label_value, qualified_name

MAX_ANNOTATIONS_BYTES = 256 * 1024
MAX_ITEMS = 1000
#: Of one requirement on labels.
MAX_VALUES = 10_000
_STANDARD_FINALIZERS = (KUBERNETES_FINALIZER, ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
_NO_FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"
IMMUTABLE = "field is immutable"
#: Mistakes of one list after which the rest of it is not looked at: whoever sends empty items by
#: the thousand would otherwise be told three mistakes of each.
MOST_ERRORS = 100

_Item = TypeVar("_Item")


def bounded(path: str, items: Sized, limit: int = MAX_ITEMS) -> list[FieldError]:
    """Return an error when there are more items than a reader should have to walk over."""
    return [too_many(path, len(items), limit)] if len(items) > limit else []


def bounded_items(
    path: str, items: Collection[_Item], errors: list[FieldError], limit: int = MAX_ITEMS
) -> Iterator[tuple[int, _Item]]:
    """Yield index and item of a list, or keys of a map, as long as that is worth the time.

    Of one with too many items, that is told in ``errors`` and nothing is yielded; after MOST_ERRORS
    errors, the rest is left out.
    """
    excess = bounded(path, items, limit)
    errors += excess
    if excess:
        return
    for index, item in enumerate(items):
        if len(errors) >= MOST_ERRORS:
            return
        yield index, item


def not_negative(path: str, value: int) -> list[FieldError]:
    """Return an error for a number below zero."""
    return [invalid(path, value, "must be greater than or equal to 0")] if value < 0 else []


def one_of(path: str, value: str, supported: tuple[str, ...]) -> list[FieldError]:
    """Return an error for a value that is neither empty nor supported."""
    return [] if not value or value in supported else [not_supported(path, value, supported)]


def validate_metadata(
    metadata: ObjectMeta, *, namespaced: bool, name_rule: NameRule, core: bool = False
) -> list[FieldError]:
    """Validate name, namespace, labels, annotations, owners and finalizers.

    core: of a kind without an API group, whose finalizers are qualified or standard.
    """
    errors: list[FieldError] = []
    if not metadata.name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += [invalid("metadata.name", metadata.name, r) for r in name_rule(metadata.name)]
    errors += _namespace(metadata.namespace, namespaced)
    errors += validate_labels(metadata.labels, "metadata.labels")
    errors += _annotations(metadata.annotations)
    errors += _owners(metadata.owner_references)
    return errors + _finalizers(metadata.finalizers, core)


def _finalizers(names: Sequence[str], core: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not names:
        return errors
    for index, name in bounded_items("metadata.finalizers", names, errors):
        path = f"metadata.finalizers[{index}]"
        found = [invalid(path, name, reason) for reason in qualified_name(name)]
        if not found and core and "/" not in name and name not in _STANDARD_FINALIZERS:
            found.append(invalid(path, name, _NO_FINALIZER))
        errors += found
    if ORPHAN_FINALIZER in names and FOREGROUND_FINALIZER in names:
        reason = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        errors.append(invalid("metadata.finalizers", f"{[*names]}", reason))
    return errors


def _namespace(namespace: str, namespaced: bool) -> list[FieldError]:
    path = "metadata.namespace"
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, reason) for reason in dns1123_label(namespace)]


def _annotations(annotations: Mapping[str, str]) -> list[FieldError]:
    if not annotations:
        return []
    errors: list[FieldError] = []
    total = 0
    for _, key in bounded_items("metadata.annotations", annotations, errors):
        errors += [
            invalid("metadata.annotations", key, reason) for reason in qualified_name(key.lower())
        ]
        total += len(key.encode()) + len(annotations[key].encode())
    if total > MAX_ANNOTATIONS_BYTES:
        errors.append(too_long("metadata.annotations", MAX_ANNOTATIONS_BYTES))
    return errors


def _owners(owners: Sequence[OwnerReference]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not owners:
        return errors
    controllers = []
    for index, owner in bounded_items("metadata.ownerReferences", owners, errors):
        path = f"metadata.ownerReferences[{index}]"
        for name, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                errors.append(required(f"{path}.{name}", f"{name} must not be empty"))
        if owner.controller:
            controllers.append(f"{owner.kind}/{owner.name}")
    if len(controllers) > 1:
        reason = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {" and ".join(controllers[:2])}'
        )
        errors.append(invalid("metadata.ownerReferences", f"{len(controllers)}", reason))
    return errors


def validate_metadata_update(new: ObjectMeta, old: ObjectMeta) -> list[FieldError]:
    """Return the errors of changes to metadata that cannot change."""
    errors = [
        invalid(f"metadata.{name}", now, IMMUTABLE)
        for name, now, before in (
            ("name", new.name, old.name),
            ("namespace", new.namespace, old.namespace),
            ("uid", new.uid, old.uid),
        )
        if now != before
    ]
    if new.creation_timestamp != old.creation_timestamp:
        stamp = format_time(new.creation_timestamp)
        errors.append(invalid("metadata.creationTimestamp", stamp, IMMUTABLE))
    if old.HasField("deletion_timestamp"):
        added = set(new.finalizers) - set(old.finalizers)
        if added:
            shown = ", ".join(f'"{name}"' for name in sorted(added))
            reason = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            errors.append(forbidden("metadata.finalizers", reason))
    return errors


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """Validate keys and values of labels."""
    if not labels:
        return []
    errors: list[FieldError] = []
    for _, key in bounded_items(path, labels, errors):
        value = labels[key]
        errors += [invalid(path, key, reason) for reason in qualified_name(key)]
        errors += [invalid(path, value, reason) for reason in label_value(value)]
    return errors


def validate_label_name(path: str, key: str) -> list[FieldError]:
    """Validate a label's key."""
    return [invalid(path, key, reason) for reason in qualified_name(key)]


def validate_label_selector(selector: LabelSelector, path: str) -> list[FieldError]:
    """Validate matchLabels and matchExpressions."""
    errors = validate_labels(selector.match_labels, f"{path}.matchLabels")
    found: list[FieldError] = []
    expressions = f"{path}.matchExpressions"
    for index, expression in bounded_items(expressions, selector.match_expressions, found):
        found += _expression(expression, f"{expressions}[{index}]")
    return errors + found


def _expression(expression: LabelSelectorRequirement, here: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if expression.operator in ("In", "NotIn"):
        if not expression.values:
            reason = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{here}.values", reason))
    elif expression.operator in ("Exists", "DoesNotExist"):
        if expression.values:
            reason = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{here}.values", reason))
    else:
        reason = "not a valid selector operator"
        errors.append(invalid(f"{here}.operator", expression.operator, reason))
    errors += validate_label_name(f"{here}.key", expression.key)
    for position, value in bounded_items(f"{here}.values", expression.values, errors, MAX_VALUES):
        place = f"{here}.values[{position}]"
        errors += [invalid(place, value, reason) for reason in label_value(value)]
    return errors
