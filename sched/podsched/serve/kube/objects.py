"""Converts a kube-apiserver's JSON to messages: fast, and only the fields that scheduling reads.

``api.codec`` reads manifests and reports every error with its path, which takes 400 µs for an
ordinary pod. An API server's objects are valid, so this module only renames fields and constructs
the message in one call, in which protobuf's C code checks the types: 70 µs, and 40 µs for a pod
whose spec has not changed. Fields that no decision reads (``managedFields``, environments, probes,
...) are left out: they are two thirds of most pods. Unknown fields are ignored, as the API server
may be newer.

Non-goal: writing objects back. Changes are sent as patches, so omitted fields are not lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import parse_time
from podsched.api.former_versions import hide_former_queue
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject, Pod
from podsched.v1 import objects_pb2

#: Fields that no decision reads; by message, with their JSON names.
_LEFT_OUT: Final = {
    "ObjectMeta": {"managedFields", "selfLink"},
    "PodSpec": {"imagePullSecrets", "hostAliases", "readinessGates", "ephemeralContainers"},
    "Container": {
        *("command", "args", "env", "workingDir", "volumeMounts", "volumeDevices"),
        *("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"),
    },
    "ContainerStatus": {"state", "lastState", "image", "imageID", "containerID", "user"},
    "NodeStatus": {"addresses", "nodeInfo"},
}
#: Annotations that repeat the whole object.
_LONG_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

Convert = Callable[[Any], Any]


class UnreadableObjectError(ValueError):
    """Invalid content for an object of its kind: the server's fault, not to be retried."""


def read_object(kind: Kind, content: dict[str, Any], known: AnyObject | None = None) -> AnyObject:
    """Convert an object; ``content`` is not changed. Raises UnreadableObjectError.

    known: an earlier state of the object, from which an unchanged spec is copied.
    """
    if kind.name == "ClusterQueue":
        # A CustomResourceDefinition converts nothing: what was applied as v1beta1 is stored as it
        # is, and the schema of v1beta2 has its fields, too.
        content = hide_former_queue(content)
    try:
        convert = _converter(kind.message.DESCRIPTOR)
        if isinstance(known, Pod) and _has_spec_of(content, known):
            others = {key: value for key, value in content.items() if key != "spec"}
            message = kind.message(spec=known.spec, **convert(others))
            message.spec.node_name = content["spec"].get("nodeName", "")
        else:
            message = kind.message(**convert(content))
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableObjectError(f"no {kind.name}: {error}") from error
    message.metadata.annotations.pop(_LONG_ANNOTATION, None)
    return cast(AnyObject, message)


def _has_spec_of(content: dict[str, Any], known: Pod) -> bool:
    """Return whether a pod has the spec of its earlier state, except for its node.

    The API server increments a pod's generation with each change of its spec, but not when it binds
    the pod. Before Kubernetes 1.33 pods had no generation.
    """
    metadata, generation = content["metadata"], known.metadata.generation
    return bool(
        generation
        and metadata.get("generation") == generation
        and metadata.get("uid") == known.metadata.uid
        and content.get("spec")
    )


@lru_cache(None)
def _converter(descriptor: Descriptor) -> Convert:
    """Return a function that converts a JSON object to a message's constructor arguments."""
    # Filled on the first call, since messages may contain themselves.
    table: dict[str, tuple[str, Convert | None]] = {}

    def convert(content: dict[str, Any]) -> dict[str, Any]:
        if not table:
            table.update(_fields(descriptor))
        found = {}
        known = table.get
        for key, value in content.items():
            field = known(key)
            if field is not None and value is not None:
                name, translate = field
                found[name] = value if translate is None else translate(value)
        return found

    return convert


def _fields(descriptor: Descriptor) -> dict[str, tuple[str, Convert | None]]:
    left_out = _LEFT_OUT.get(descriptor.name, set())
    # The entry marks the table of a message without fields as filled.
    found: dict[str, tuple[str, Convert | None]] = {"": ("", None)}
    for field in descriptor.fields:
        # A field without a schema is only stored.
        if field.json_name not in left_out and field.message_type is not Struct.DESCRIPTOR:
            found[field.json_name] = (field.name, _translation(field))
    return found


def _translation(field: FieldDescriptor) -> Convert | None:
    """Return the conversion of a JSON value to an argument; None if none is needed."""
    extensions: Any = field.GetOptions().Extensions
    message_type: Any = field.message_type
    is_map = bool(message_type and message_type.GetOptions().map_entry)
    inner = message_type.fields_by_name["value"] if is_map else field
    one: Convert | None = None
    if inner.message_type is Timestamp.DESCRIPTOR:
        one = _time
    elif inner.message_type is objects_pb2.RawJSON.DESCRIPTOR:
        one = _raw
    elif inner.message_type is not None:
        one = _converter(inner.message_type)
    elif extensions[objects_pb2.format] != objects_pb2.FORMAT_UNSPECIFIED:
        one = _text
    if one is None:
        return None
    if is_map:
        return lambda entries: {key: one(value) for key, value in entries.items()}
    if field.is_repeated:
        return lambda items: [one(item) for item in items]
    return one


@lru_cache(1024)
def _time(text: str) -> Timestamp:
    """Return the time in a text. Many objects have the same, as Kubernetes' times are seconds."""
    return parse_time(text)


def _raw(value: Any) -> dict[str, str]:
    return {"text": json.dumps(value, separators=(",", ":"), ensure_ascii=False)}


def _text(value: Any) -> str:
    return value if type(value) is str else str(value)
