"""Finalizers added to an object in Kubernetes' protobuf, read with protobuf's own decoder."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessages

from podsched.serve.client.errors import Unreadable
from podsched.serve.kube.access import ClusterAccess
from podsched.serve.kube.cluster import KubeCluster
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.protobuf import PROTOBUF, add_finalizers
from podsched.serve.kube.status import error_of
from podsched.v1 import api_pb2 as v1
from support.kube_server import refusal

_FIELD = FieldDescriptorProto
_SCHEMA = {
    "Unknown": [
        ("type", 1, "bytes", ""),
        ("raw", 2, "bytes", ""),
        ("content_type", 4, "bytes", ""),
    ],
    "Object": [("metadata", 1, "Meta", ""), ("spec", 2, "bytes", "")],
    "Meta": [
        ("name", 1, "string", ""),
        ("uid", 5, "string", ""),
        ("version", 6, "string", ""),
        ("generation", 7, "int64", ""),
        ("finalizers", 14, "string", "*"),
    ],
}
_TYPES = {"bytes": _FIELD.TYPE_BYTES, "string": _FIELD.TYPE_STRING, "int64": _FIELD.TYPE_INT64}


def _messages() -> dict[str, Any]:
    file = FileDescriptorProto(name="t.proto", package="t")
    for message, fields in _SCHEMA.items():
        made = file.message_type.add(name=message)
        for name, number, form, many in fields:
            field = made.field.add(name=name, number=number)
            field.label = _FIELD.LABEL_REPEATED if many else _FIELD.LABEL_OPTIONAL
            field.type = _TYPES.get(form, _FIELD.TYPE_MESSAGE)
            if form not in _TYPES:
                field.type_name = f".t.{form}"
    return GetMessages([file], DescriptorPool())


_MESSAGES = _messages()
SPEC = b'{ "mode" : "claim" }'


def encoded(*finalizers: str) -> bytes:
    item = _MESSAGES["t.Object"](spec=SPEC)
    meta = item.metadata
    meta.name, meta.uid, meta.version, meta.generation = "c", "u", "7", 300
    meta.finalizers.extend(finalizers)
    envelope = _MESSAGES["t.Unknown"](type=b"t", raw=item.SerializeToString(), content_type=b"x")
    return b"k8s\x00" + bytes(envelope.SerializeToString())


def decoded(whole: bytes) -> tuple[Any, Any]:
    envelope = _MESSAGES["t.Unknown"].FromString(whole.removeprefix(b"k8s\x00"))
    return envelope, _MESSAGES["t.Object"].FromString(envelope.raw)


def test_a_finalizer_is_added_and_all_else_stays_byte_for_byte() -> None:
    envelope, item = decoded(add_finalizers(encoded("b"), ["a", "b"]))
    assert list(item.metadata.finalizers) == ["b", "a"]
    assert (item.metadata.name, item.metadata.uid, item.metadata.version) == ("c", "u", "7")
    assert item.metadata.generation == 300
    assert item.spec == SPEC
    assert (envelope.type, envelope.content_type) == (b"t", b"x")


def test_the_preconditions_of_the_write_replace_what_was_read() -> None:
    _, item = decoded(add_finalizers(encoded(), ["a"], uid="other", resource_version="5"))
    assert (item.metadata.uid, item.metadata.version) == ("other", "5")


@pytest.mark.parametrize(
    "content", [b"{}", encoded()[:-1], b"k8s\x00\xff", b"k8s\x00" + b"\xff" * 20]
)
def test_what_is_no_such_object_is_told(content: bytes) -> None:
    with pytest.raises(Unreadable, match="Kubernetes' protobuf"):
        add_finalizers(content, ["a"])


class _RefusesPatches(KubeHttp):
    """Refuses patches of the object itself; ``sent`` has all requests."""

    def __init__(self) -> None:
        super().__init__(ClusterAccess("http://kubernetes"))
        self.sent: list[tuple[str, str, bytes | None, str]] = []

    async def _once(self, method: str, path: str, *arguments: Any) -> bytes:
        _, data, headers, *_ = arguments
        form = headers.get("Content-Type", headers.get("Accept", ""))
        self.sent.append((method, path.rpartition("/")[2], data, form))
        if method == "GET":
            return encoded("b")
        if method == "PATCH" and not path.endswith("/status"):
            said = refusal(422, "Invalid", "spec: Invalid value: field is immutable")
            raise error_of(422, json.dumps(said.body).encode())
        return b'{"metadata":{"resourceVersion":"9"}}'


async def test_finalizers_are_written_in_protobuf_where_a_patch_would_change_the_spec() -> None:
    http = _RefusesPatches()
    cluster = KubeCluster(http, lambda fence: True, now=lambda: 1.7e9)
    request = v1.PatchRequest(
        kind="ResourceClaim",
        namespace="default",
        name="c",
        resource_version=7,
        merge_patch=b'{"metadata":{"finalizers":["b","a"]},"status":{"reservedFor":[]}}',
    )
    (result,) = await cluster.patch_many([request], fence=v1.Fence(lock="l", term=1))
    assert result.code == 0
    assert [(method, form) for method, _, _, form in http.sent] == [
        ("PATCH", "application/merge-patch+json"),
        ("GET", PROTOBUF),
        ("PUT", PROTOBUF),
        ("PATCH", "application/merge-patch+json"),
    ]
    put, status = http.sent[2][2], http.sent[3][2]
    assert put is not None and status is not None
    _, item = decoded(put)
    assert list(item.metadata.finalizers) == ["b", "a"]
    assert item.metadata.version == "7"
    assert item.spec == SPEC
    assert json.loads(status)["metadata"]["resourceVersion"] == "9"
