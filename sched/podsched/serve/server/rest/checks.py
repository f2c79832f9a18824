"""Checks the object in a request's body against the path and query, with Kubernetes' errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from podsched.api.field_errors import invalid
from podsched.api.kinds import Kind
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.objects import AnyObject, Event, Node, copy_field
from podsched.api.validation.events import (
    validate_event,
    validate_new_event,
    validate_new_event_update,
)
from podsched.api.validation.place import Place
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest.bodies import YAML, check_kind, member, parsed, read_object
from podsched.serve.server.rest.failures import (
    RestError,
    about,
    bad_request,
    causes_of,
    failed_option,
    invalid_patch,
)
from podsched.serve.server.rest.fieldsets import MAX_FIELDS, is_large
from podsched.serve.server.rest.messages import Request
from podsched.serve.server.rest.options import is_version
from podsched.serve.server.rest.resources import EVENTS_GROUP, Resource
from podsched.serve.server.rest.routes import Target

_NAMESPACES: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


#: Metadata of a new object that only the server sets.
_SET_BY_SERVER: Final = (
    *("uid", "generation", "creation_timestamp", "deletion_timestamp"),
    *("deletion_grace_period_seconds", "self_link", "managed_fields"),
)


def applied_config(target: Target, request: Request) -> dict[str, Any]:
    """Return the configuration of a server-side apply, YAML or JSON. Raises ApiError."""
    resource = target.resource
    as_yaml = replace(request, headers={**request.headers, "content-type": YAML})
    config, _ = parsed(as_yaml, resource.kind.name)
    if is_large(config):
        text = f"a configuration may have {MAX_FIELDS:,} fields at most: create or replace instead"
        raise errors.too_large(text)
    for field in ("apiVersion", "kind"):
        if not config.get(field):
            raise bad_request(f"apply: {field} must be set")
    check_kind(config, resource.kind.name, (resource.api_version,))
    metadata = dict(member(config, "metadata"))
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    name = metadata.setdefault("name", target.name)
    _check_name(name, target.name)
    if resource.kind.namespaced:
        metadata.setdefault("namespace", target.namespace)
    return {**config, "metadata": metadata}


def check_new(target: Target, message: AnyObject) -> None:
    """Check a new object against its path, and complete it from there. Raises ApiError."""
    metadata = message.metadata
    if metadata.resource_version:
        text = "resourceVersion should not be set on objects to be created"
        raise RestError(500, "", text)
    check_namespace(target, message)
    for field in _SET_BY_SERVER:
        metadata.ClearField(field)
    if target.resource.kind.has_status and not isinstance(message, Node):
        # In Kubernetes only a node says at once how it is; gRPC takes dumps of whole clusters.
        message.ClearField("status")


def check_namespace(target: Target, message: AnyObject) -> None:
    """Complete an object's namespace from its path. Raises ApiError 400 for another one."""
    metadata = message.metadata
    if not target.resource.kind.namespaced:
        # Manifests of whole applications may name one for all their objects.
        metadata.namespace = ""
        return
    if metadata.namespace and metadata.namespace != target.namespace:
        raise bad_request(_NAMESPACES)
    metadata.namespace = target.namespace or DEFAULT_NAMESPACE


def check_event(target: Target, message: AnyObject, old: AnyObject | None = None) -> None:
    """Raise ApiError 422 for an event that events.k8s.io/v1 refuses, even if core/v1 accepts it."""
    if target.resource.group != EVENTS_GROUP or not isinstance(message, Event):
        return
    at, stricter = Place(), Place()
    if isinstance(old, Event):
        validate_new_event_update(stricter, message, old)
    else:
        validate_new_event(stricter, message)
    if stricter.errors:
        validate_event(at, message)
        found = [*at.errors, *stricter.errors]
        raise errors.invalid_fields(target.resource.kind, message.metadata.name, found)


def check_replacement(target: Target, message: AnyObject) -> None:
    """Raise ApiError for an object that does not fit the path of a PUT."""
    kind, metadata = target.resource.kind, message.metadata
    _check_name(metadata.name, target.name)
    check_namespace(target, message)
    version = metadata.resource_version
    if version and not is_version(version):
        found = invalid("metadata.resourceVersion", version[:100], "must be a number")
        raise errors.invalid_fields(kind, target.name, [found])


def check_version(target: Target, message: AnyObject) -> None:
    """Raise RestError 422 for a replacement without the resourceVersion that its kind needs."""
    kind = target.resource.kind
    if kind.needs_version and not message.metadata.resource_version:
        found = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        error = errors.invalid_fields(kind, target.name, [found])
        # Kubernetes' storage says it, which knows the resource and not its kind.
        details = {**about(kind, target.name), "causes": causes_of(error.violations)}
        shown = error.message.replace(f"{kind.name}.", f"{kind.plural}.", 1)
        raise RestError(422, "Invalid", shown, details)


def _check_name(name: str, wanted: str) -> None:
    if not name:
        why = "was undeterminable: name must be provided"
        raise bad_request(f"the name of the object ({wanted} based on URL) {why}")
    if name != wanted:
        why = f"does not match the name on the URL ({wanted})"
        raise bad_request(f"the name of the object ({name}) {why}")


def uid_mismatch(target: Target, wanted: str, actual: str) -> ApiError:
    """Make the error for an object whose uid differs from the one requested."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    return storage_error(target.resource.kind, target.namespace, target.name, why)


def storage_error(kind: Kind, namespace: str, name: str, why: str) -> ApiError:
    """Make the conflict for a failed precondition, with the text of Kubernetes' storage."""
    key = f"{kind.plural}/{namespace}/{name}"
    text = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0"
    return errors.conflict(kind, name, f"{text}, AdditionalErrorMsg: {why}")


_WHAT_HAPPENED: Final = {
    "UID": "The object might have been deleted and then recreated",
    "ResourceVersion": "The object might have been modified",
}


def deletion_error(error: ApiError) -> ApiError:
    """Return the error of a deletion as Kubernetes words it."""
    if error.reason != "PRECONDITION_FAILED" or error.about is None:
        return error
    kind, name = error.about
    what, wanted, actual = (error.metadata[key] for key in ("what", "wanted", "actual"))
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    error.message = (
        f'Operation cannot be fulfilled on {shown} "{name}": the {what} in the precondition '
        f"({wanted}) does not match the {what} in record ({actual}). {_WHAT_HAPPENED[what]}"
    )
    return error


#: Fields that an admission plugin of Kubernetes checks, before validation.
_ADMISSION: Final = frozenset(
    {"spec.priority", "spec.preemptionPolicy", "spec.priorityClassName", "globalDefault"}
)


def update_error(error: ApiError) -> ApiError:
    """Return an update's error with the violations in metadata listed twice, as Kubernetes does.

    It validates metadata in two places.
    """
    if error.reason == "INVALID":
        twice = tuple(v for v in error.violations if v.field.startswith("metadata."))
        error.violations = (*twice, *error.violations)[: errors.MAX_VIOLATIONS]
    return error


def admission_error(error: ApiError) -> ApiError:
    """Return a creation's error, as Forbidden where a Kubernetes admission plugin raises it."""
    for violation in error.violations:
        if violation.field in _ADMISSION and violation.reason == "Forbidden" and error.about:
            kind, name = error.about
            return errors.forbidden(kind, name, violation.description.removeprefix("Forbidden: "))
    return error


def check_patch_options(request: Request, *, apply: bool) -> None:
    """Raise RestError 422 for options that the type of patch does not permit."""
    if apply and not request.query.get("fieldManager"):
        text = "is required for apply patch"
        raise failed_option("PatchOptions", "fieldManager", "Required value", text)
    if not apply and "force" in request.query:
        text = "may not be specified for non-apply patch"
        raise failed_option("PatchOptions", "force", "Forbidden", text)


def read_patched(
    resource: Resource, content: Mapping[str, Any], level: str, warnings: list[str]
) -> AnyObject:
    """Decode the object that a patch results in. Raises RestError 422."""
    try:
        decoded = read_object(resource, content, (), level)
    except RestError as error:
        text = error.message.partition(": ")[2] if "strict" in error.message else error.message
        raise invalid_patch(f'"{json.dumps(content)[:200]}": {text}') from None
    warnings[:] = decoded.warnings
    return decoded.message


def check_identity(target: Target, message: AnyObject, entry: Entry) -> None:
    """Raise ApiError for a patch that changes the object's name, namespace or uid."""
    kind, new, before = target.resource.kind, message.metadata, entry.message.metadata
    _check_name(new.name, before.name)
    check_namespace(target, message)
    if new.uid and new.uid != before.uid and not target.subresource:
        raise errors.immutable(kind, before.name, "metadata.uid", new.uid)
    for field in ("creation_timestamp", "deletion_timestamp"):
        copy_field(new, before, field)
