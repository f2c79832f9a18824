"""OpenAPI v3 of the resources and the fields of their objects, generated from the messages.

It serves ``kubectl explain``, kubectl's check for server-side field validation, and client
generators. Fields have no descriptions, because protobuf does not keep comments at run time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from podsched.api.kubernetes_fields import types_of
from podsched.serve.server.rest.discovery import MAJOR, MINOR
from podsched.serve.server.rest.messages import JSON, TEXT, Answer, encode
from podsched.serve.server.rest.patches import PATCH_TYPES
from podsched.serve.server.rest.resources import GROUPS, Resource
from podsched.serve.server.strategic import RETAINING, SETS, WHOLE, merge_key
from podsched.v1 import objects_pb2

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_OBJECTS: Final = ("google.protobuf.Struct", "podsched.v1.RawJSON")
_INTEGERS: Final = {FieldDescriptor.CPPTYPE_INT32: "int32", FieldDescriptor.CPPTYPE_INT64: "int64"}
_GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"
_STRATEGY: Final = "x-kubernetes-patch-strategy"
#: The only member, beside lists, in which a client replaces one member by another.
_RETAINING: Final = "podsched.v1.DeploymentSpec.strategy"
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation")
#: The HTTP method of each verb, and its name in "x-kubernetes-action".
_VERBS: Final = {
    "get": ("get", "get"),
    "list": ("get", "list"),
    "create": ("post", "post"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
    "deletecollection": ("delete", "deletecollection"),
}

_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
#: A ``Document`` of OpenAPI v2 with nothing but its version.
_V2_DOCUMENT: Final = b"\x0a\x032.0"

Schema = dict[str, Any]

_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
#: The members of every object and list that say what it is.
_TYPE: Final[Mapping[str, Schema]] = {
    "apiVersion": {"type": "string", "description": "The version of the object's schema."},
    "kind": {"type": "string", "description": "The kind of the object."},
}
#: Schemas of the types of ``kubernetes_fields`` that are no messages.
_SCALARS: Final[Mapping[str, Schema]] = {
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "Time": _TIME,
    "MicroTime": _TIME,
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "RawExtension": {"type": "object"},
}


def _version_2(accept: str) -> Answer:
    """Answer /openapi/v2, which clients need to validate Lists on their side.

    It has no definitions: clients leave kinds without one to the server.
    """
    if JSON in accept or not accept:
        info = {"title": "podsched", "version": f"v{MAJOR}.{MINOR}.0"}
        return Answer(encode({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}))
    return Answer(_V2_DOCUMENT, content_type=_V2_PROTOBUF)


def answer(segments: Sequence[str], accept: str) -> Answer | None:
    """Answer a path below /openapi; None for an unknown path."""
    if list(segments) == ["openapi", "v2"]:
        return _version_2(accept)
    if list(segments[:2]) != ["openapi", "v3"]:
        return None
    if len(segments) == 2:
        # As in kube-apiserver, the Content-Type is that of plain text.
        return Answer(
            encode({"paths": {path: _link(path) for path in _paths()}}), content_type=TEXT
        )
    path = "/".join(segments[2:])
    return Answer(_document(path), content_type=JSON) if path in _paths() else None


@lru_cache(None)
def _paths() -> dict[str, tuple[str, str]]:
    return {_root(group, version)[1:]: (group, version) for group, version in GROUPS}


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _link(path: str) -> dict[str, str]:
    digest = hashlib.sha256(_document(path)).hexdigest().upper()
    return {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}


@lru_cache(None)
def _document(path: str) -> bytes:
    """Return the serialized OpenAPI v3 document of one group and version."""
    group, version = _paths()[path]
    resources = GROUPS[group, version].values()
    schemas: dict[str, Schema] = {}
    paths: dict[str, Any] = {}
    for resource in resources:
        _add_kind(schemas, resource)
        paths |= _operations(resource)
    document = {
        "openapi": "3.0.0",
        "info": {"title": "podsched", "version": f"v{MAJOR}.{MINOR}.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    return encode(document)


# ------------------------------------------------------------------ paths


def _operations(resource: Resource) -> dict[str, Any]:
    """Return the paths of a resource with their operations."""
    base = _root(resource.group, resource.version)
    plural = resource.plural
    namespaced = f"{base}/namespaces/{{namespace}}/{plural}"
    home = namespaced if resource.kind.namespaced else f"{base}/{plural}"
    collection = ("list", "create", "deletecollection")
    found = {home: _item(resource, [verb for verb in resource.kind.verbs if verb in collection])}
    if resource.kind.namespaced:
        found[f"{base}/{plural}"] = _item(resource, ["list"])
    own = [verb for verb in resource.kind.verbs if verb in ("get", "update", "patch", "delete")]
    found[f"{home}/{{name}}"] = _item(resource, own)
    for sub in resource.subresources.values():
        if sub.name == "status":
            found[f"{home}/{{name}}/status"] = _item(resource, list(sub.verbs))
    return {path: {**item, "parameters": _path_parameters(path)} for path, item in found.items()}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _item(resource: Resource, verbs: Sequence[str]) -> dict[str, Any]:
    return {_VERBS[verb][0]: _operation(resource, verb) for verb in verbs}


def _operation(resource: Resource, verb: str) -> dict[str, Any]:
    schema = answer = _reference(_name(resource))
    if verb in ("list", "deletecollection"):
        answer = _reference(f"{_name(resource)}List")
    found: dict[str, Any] = {
        "x-kubernetes-action": _VERBS[verb][1],
        _GROUP_VERSION_KIND: _group_version_kind(resource),
        "responses": {"200": {"description": "OK", "content": {JSON: {"schema": answer}}}},
    }
    if verb in ("create", "update", "patch"):
        found["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY
        ]
        media = PATCH_TYPES if verb == "patch" else (JSON,)
        body = {"type": "object"} if verb == "patch" else schema
        found["requestBody"] = {"content": {name: {"schema": body} for name in media}}
    return found


def _group_version_kind(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind.name}


# ------------------------------------------------------------------ schemas


def _name(resource: Resource) -> str:
    group = resource.group.partition(".")[0] or "core"
    return f"io.k8s.api.{group}.{resource.version}.{resource.kind.name}"


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _add_kind(schemas: dict[str, Schema], resource: Resource) -> None:
    kind, name, shown = resource.kind, _name(resource), _group_version_kind(resource)
    schema = _message(kind.message.DESCRIPTOR, schemas)
    schemas[name] = {
        "type": "object",
        "description": f"{kind.name}, as podsched has it.",
        "properties": {**_TYPE, **resource.show(schema.get("properties", {}))},
        _GROUP_VERSION_KIND: [shown],
    }
    items = {"type": "array", "items": _reference(name)}
    schemas[f"{name}List"] = {
        "type": "object",
        "properties": {**_TYPE, "metadata": {"type": "object"}, "items": items},
        _GROUP_VERSION_KIND: [{**shown, "kind": resource.list_kind}],
    }


def _message(descriptor: Descriptor, schemas: dict[str, Schema]) -> Schema:
    properties = {field.json_name: _field(field, schemas) for field in descriptor.fields}
    return {"type": "object", "properties": properties}


def _field(field: FieldDescriptor, schemas: dict[str, Schema]) -> Schema:
    message: Any = field.message_type
    if message is not None and message.GetOptions().map_entry:
        values = _value(field, message.fields_by_name["value"], schemas)
        return {"type": "object", "additionalProperties": values}
    form = _form_of(field)
    value = _of_form(form, schemas) if form else _value(field, field, schemas)
    if field.is_repeated:
        return {"type": "array", "items": value, **_patch_strategy(field)}
    if _is_whole(field):
        return {"allOf": [value], _STRATEGY: "replace"}
    if field.full_name == _RETAINING:
        return {"allOf": [value], _STRATEGY: "retainKeys"}
    return value


def _is_whole(field: FieldDescriptor) -> bool:
    """Return whether a strategic merge patch replaces the field as a whole."""
    parent: Any = field.containing_type
    kind = parent.name.removesuffix("Spec").removesuffix("Status")
    return WHOLE.get(kind) == field.json_name


def _patch_strategy(field: FieldDescriptor) -> Schema:
    """Return a list's patch strategy, for clients that compute patches."""
    name = field.json_name
    if _is_whole(field):
        return {}
    if name in SETS:
        return {_STRATEGY: "merge"}
    message: Any = field.message_type
    names: Sequence[str] = []
    if form := _form_of(field):
        names = list(types_of(form))
    elif message is not None:
        names = [inner.json_name for inner in message.fields]
    key = merge_key(name, [dict.fromkeys(names)])
    if key is None or key not in names:
        return {}
    strategy = "merge,retainKeys" if name in RETAINING else "merge"
    return {_STRATEGY: strategy, "x-kubernetes-patch-merge-key": key}


def _value(field: FieldDescriptor, inner: Any, schemas: dict[str, Schema]) -> Schema:
    if inner.message_type is not None:
        return _of_message(inner.message_type, schemas)
    options: Any = field.GetOptions()
    form = options.Extensions[objects_pb2.format]
    if form == objects_pb2.FORMAT_INT_OR_STRING:
        return _SCALARS["IntOrString"]
    if form == objects_pb2.FORMAT_QUANTITY:
        return _SCALARS["Quantity"]
    if inner.cpp_type in _INTEGERS:
        return {"type": "integer", "format": _INTEGERS[inner.cpp_type]}
    if inner.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return {"type": "boolean"}
    return {"type": "string"}


def _form_of(field: FieldDescriptor) -> str:
    """Return Kubernetes' type of what is stored without a schema, of a list's items; or ""."""
    message: Any = field.message_type
    parent: Any = field.containing_type
    if message is None or message.full_name not in _OBJECTS:
        return ""
    return types_of(parent.name).get(field.json_name, "").removesuffix("[]")


def _of_form(form: str, schemas: dict[str, Schema]) -> Schema:
    """Return the schema of a type of Kubernetes.

    Without its members, kubectl apply cannot compute a patch, and warns of it.
    """
    if form in _SCALARS:
        return _SCALARS[form]
    if form.endswith("[]"):
        return {"type": "array", "items": _of_form(form[:-2], schemas)}
    if form.endswith("{}"):
        return {"type": "object", "additionalProperties": _of_form(form[:-2], schemas)}
    name = f"io.k8s.{form}"
    if name not in schemas:
        members = {member: _of_form(inner, schemas) for member, inner in types_of(form).items()}
        schemas[name] = {"type": "object", "properties": members}
    return _reference(name)


def _of_message(message: Any, schemas: dict[str, Schema]) -> Schema:
    if message.full_name == _TIMESTAMP:
        return _SCALARS["Time"]
    if message.full_name in _OBJECTS:
        return {"type": "object"}
    name = f"io.podsched.v1.{message.name}"
    if name not in schemas:
        schemas[name] = {}  # ends the recursion of a message that contains itself
        schemas[name] = _message(message, schemas)
    return _reference(name)
