"""Metadata, labels, label selectors and conditions (apimachinery/pkg/apis/meta/v1/validation)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from podsched.api.codec import format_time
from podsched.api.names import NameRule, dns1123_label, label_value, qualified_name
from podsched.api.objects import Condition, LabelSelector, ObjectMeta, OwnerReference
from podsched.api.owners import FOREGROUND_FINALIZER, KUBERNETES_FINALIZER, ORPHAN_FINALIZER
from podsched.api.validation.place import Place

MAX_ANNOTATIONS_BYTES = 256 * 1024
#: Max values of one requirement on labels or nodes.
MAX_VALUES = 10_000
_STANDARD_FINALIZERS = (KUBERNETES_FINALIZER, ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
_NO_FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"


def validate_metadata(
    at: Place, metadata: ObjectMeta, *, namespaced: bool, name_rule: NameRule, core: bool
) -> None:
    """Validate name, namespace, labels, annotations, owners and finalizers.

    core: of a kind without an API group, whose finalizers are qualified or standard.
    """
    # Places are made only where there may be a mistake: that is a fifth of the time for a pod.
    if not metadata.name:
        at("name").required("name or generateName is required")
    elif name_rule(metadata.name):
        at("name").rule(metadata.name, name_rule)
    if namespaced and (not metadata.namespace or dns1123_label(metadata.namespace)):
        at("namespace").name(metadata.namespace, dns1123_label)
    elif metadata.namespace and not namespaced:
        at("namespace").forbidden("not allowed on this type")
    if metadata.labels:
        validate_labels(at("labels"), metadata.labels)
    if metadata.annotations:
        validate_annotations(at("annotations"), metadata.annotations)
    if metadata.owner_references:
        _owners(at("ownerReferences"), metadata.owner_references)
    if metadata.finalizers:
        _finalizers(at("finalizers"), metadata.finalizers, core)


def _finalizers(at: Place, names: Sequence[str], core: bool) -> None:
    for item, name in at.each(names):
        good = item.rule(name, qualified_name)
        if good and core and "/" not in name and name not in _STANDARD_FINALIZERS:
            item.invalid(name, _NO_FINALIZER)
    if ORPHAN_FINALIZER in names and FOREGROUND_FINALIZER in names:
        reason = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        at.invalid(f"{[*names]}", reason)


def validate_annotations(at: Place, annotations: Mapping[str, str]) -> None:
    """Validate the keys of annotations, and their size together."""
    total = 0
    for key in at.keys(annotations):
        # As in Kubernetes, unlike those of labels, they may have upper case in the prefix, too.
        for reason in qualified_name(key.lower()):
            at.invalid(key, reason)
        total += len(key.encode()) + len(annotations[key].encode())
    at.within(total, MAX_ANNOTATIONS_BYTES)


def _owners(at: Place, owners: Sequence[OwnerReference]) -> None:
    controllers = []
    for item, owner in at.each(owners):
        for name, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                item(name).required(f"{name} must not be empty")
        if owner.controller:
            controllers.append(f"{owner.kind}/{owner.name}")
    if len(controllers) > 1:
        reason = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {" and ".join(controllers[:2])}'
        )
        at.invalid(f"{len(controllers)}", reason)


def validate_metadata_update(at: Place, new: ObjectMeta, old: ObjectMeta) -> None:
    """Check that metadata that cannot change has not changed."""
    for name in ("name", "namespace", "uid"):
        if (now := getattr(new, name)) != (before := getattr(old, name)):
            at(name).fixed(now, before, now)
    if new.creation_timestamp != old.creation_timestamp:
        created = new.creation_timestamp
        at("creationTimestamp").fixed(created, old.creation_timestamp, format_time(created))
    if old.HasField("deletion_timestamp"):
        added = set(new.finalizers) - set(old.finalizers)
        if added:
            shown = ", ".join(f'"{name}"' for name in sorted(added))
            at("finalizers").forbidden(
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )


def validate_labels(at: Place, labels: Mapping[str, str]) -> None:
    """Validate keys and values of labels."""
    for key in at.keys(labels):
        at.rule(key, qualified_name)
        at.rule(labels[key], label_value)


def validate_label_selector(at: Place, selector: LabelSelector) -> None:
    """Validate matchLabels and matchExpressions."""
    validate_labels(at("matchLabels"), selector.match_labels)
    for item, expression in at("matchExpressions").each(selector.match_expressions):
        if not check_values(item, expression.operator, expression.values):
            item("operator").invalid(expression.operator, "not a valid selector operator")
        item("key").rule(expression.key, qualified_name)
        validate_values(item("values"), expression.values)


def check_values(at: Place, operator: str, values: Sequence[str]) -> bool:
    """Check that there are values if the operator needs some; return whether it is known."""
    if operator in ("In", "NotIn"):
        if not values:
            at("values").required("must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            reason = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            at("values").forbidden(reason)
    else:
        return False
    return True


def validate_values(at: Place, values: Sequence[str], rule: NameRule = label_value) -> None:
    """Validate the values of a requirement."""
    for item, value in at.each(values, MAX_VALUES):
        item.rule(value, rule)


# ------------------------------------------------------------------ conditions

_MOST_REASON_BYTES: Final = 1024
_MOST_MESSAGE_BYTES: Final = 32 << 10
_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON.pattern}')"
)


def validate_conditions(at: Place, conditions: Sequence[Condition], most: int) -> None:
    """Validate conditions (ValidateConditions)."""
    seen: set[str] = set()
    for each, condition in at.each(conditions, most):
        each("type").once(condition.type, seen)
        each("type").rule(condition.type, qualified_name)
        if condition.status not in _STATUSES:
            each("status").not_supported(condition.status, _STATUSES)
        if condition.observed_generation < 0:
            reason = "must be greater than or equal to zero"
            each("observedGeneration").invalid(condition.observed_generation, reason)
        each("lastTransitionTime").present(condition.HasField("last_transition_time"))
        _check_reason(each("reason"), condition.reason)
        each("message").within(len(condition.message.encode()), _MOST_MESSAGE_BYTES)


def _check_reason(at: Place, reason: str) -> None:
    short = at.present(reason) and at.within(len(reason), _MOST_REASON_BYTES)
    if short and _REASON.fullmatch(reason) is None:
        at.invalid(reason, _REASON_RULE)
