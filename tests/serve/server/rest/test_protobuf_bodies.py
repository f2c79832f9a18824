"""Bodies in Kubernetes' protobuf: the kinds that kubectl sends so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest

from podsched.api.kubernetes_fields import numbered_fields
from podsched.serve.server.rest.protobuf_bodies import ProtobufError, UnsupportedKindError, decode

_MESSAGES = numbered_fields()


def member(number: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(raw)]) + raw


def envelope(kind: str, version: str, raw: bytes) -> bytes:
    return b"k8s\x00" + member(1, member(1, version) + member(2, kind)) + member(2, raw)


def test_an_eviction_is_read_with_its_options() -> None:
    metadata = member(1, "web") + member(3, "default")
    options = bytes([1 << 3, 30]) + member(2, member(1, "a-uid"))
    raw = envelope("Eviction", "policy/v1", member(1, metadata) + member(2, options))
    assert decode(raw) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "default"},
        "deleteOptions": {"gracePeriodSeconds": 30, "preconditions": {"uid": "a-uid"}},
    }


def test_numbers_or_strings_maps_and_quantities_are_read() -> None:
    budget = member(1, bytes([1 << 3, 1]) + member(3, "30%"))
    raw = envelope("PodDisruptionBudget", "policy/v1", member(2, budget))
    assert decode(raw)["spec"] == {"minAvailable": "30%"}
    hard = member(1, member(1, "pods") + member(2, member(1, "2")))
    raw = envelope("ResourceQuota", "v1", member(2, hard))
    assert decode(raw)["spec"] == {"hard": {"pods": "2"}}


def test_fields_of_an_embedded_message_belong_to_the_outer_object() -> None:
    reference = member(1, "settings")
    variable = member(1, "A") + member(3, member(3, member(1, reference) + member(2, "key")))
    volume = member(1, "v") + member(2, member(2, b""))
    spec = member(1, volume) + member(2, member(1, "main") + member(7, variable))
    assert decode(envelope("Pod", "v1", member(2, spec)))["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {
                "name": "main",
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}},
                    }
                ],
            }
        ],
    }


def test_events_are_read_in_the_form_of_their_group() -> None:
    about = member(3, "web")
    old = envelope("Event", "v1", member(2, about) + member(3, "Why") + member(6, b""))
    new = envelope("Event", "events.k8s.io/v1", member(7, "Why") + member(8, about))
    assert decode(old) == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"name": "web"},
        "reason": "Why",
        "firstTimestamp": None,
    }
    assert decode(new) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "reason": "Why",
        "regarding": {"name": "web"},
    }


def test_the_template_of_a_controller_revision_is_json_in_the_message() -> None:
    template = member(1, '{"spec": {"template": {"$patch": "replace"}}}')
    raw = envelope("ControllerRevision", "apps/v1", member(2, template) + bytes([3 << 3, 2]))
    content = decode(raw)
    assert content["data"] == {"spec": {"template": {"$patch": "replace"}}}
    assert content["revision"] == 2


def test_ports_of_endpoint_slices_have_other_numbers_than_those_of_endpoints() -> None:
    of_a_slice = member(3, member(2, "TCP") + bytes([3 << 3, 80]))
    of_endpoints = member(2, member(3, bytes([2 << 3, 80]) + member(3, "TCP")))
    port = {"port": 80, "protocol": "TCP"}
    assert decode(envelope("EndpointSlice", "discovery.k8s.io/v1", of_a_slice))["ports"] == [port]
    assert decode(envelope("Endpoints", "v1", of_endpoints))["subsets"] == [{"ports": [port]}]


def test_what_controllers_write_into_a_status_is_read() -> None:
    status = bytes([3 << 3, 1]) + member(2, member(1, "web") + member(2, bytes([1 << 3, 9])))
    budget = decode(envelope("PodDisruptionBudget", "policy/v1", member(3, status)))
    disrupted = {"web": "1970-01-01T00:00:09Z"}
    assert budget["status"] == {"disruptionsAllowed": 1, "disruptedPods": disrupted}
    namespace = decode(envelope("Namespace", "v1", member(3, member(1, "Terminating"))))
    assert namespace["status"] == {"phase": "Terminating"}
    source = member(2, member(3, member(1, "/data")))
    volume = decode(envelope("PersistentVolume", "v1", member(2, source)))
    assert volume["spec"] == {"hostPath": {"path": "/data"}}


def test_a_claim_of_devices_is_not_what_a_container_says_of_its_claims() -> None:
    opaque = member(1, member(1, "gpu.example.com") + member(2, member(1, '{"a": 1}')))
    claim = member(2, member(1, member(3, member(1, "gpu") + member(2, opaque))))
    content = decode(envelope("ResourceClaim", "resource.k8s.io/v1", claim))
    config = {"driver": "gpu.example.com", "parameters": {"a": 1}}
    assert content["spec"] == {"devices": {"config": [{"requests": ["gpu"], "opaque": config}]}}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "does not appear to be a protobuf message"),
        (b"{}", "does not appear to be a protobuf message"),
        (b"k8s\x00\x0a", "cannot be decoded: index out of range"),
        (b"k8s\x00\x0a\x05ab", "is cut short"),
        (b"k8s\x00\x0b\x00", "is cut short"),
        (b"k8s\x00" + b"\x80" * 11, "a number is too long"),
        (envelope("Lease", "v1", b"\x12\xff"), "cannot be decoded: index out of range"),
        (
            envelope("ControllerRevision", "apps/v1", member(2, member(1, "[" * 9))),
            "JSON cannot be decoded",
        ),
        (envelope("Event", "v1", member(6, b"\x08" + b"\xff" * 8 + b"\x7f")), "years 1 to 9999"),
        (envelope("Event", "v1", member(6, b"\x10" + b"\xff" * 8 + b"\x7f")), "years 1 to 9999"),
    ],
    ids=[
        "empty",
        "JSON",
        "ends in a field's head",
        "ends in a field",
        "of no form of the wire",
        "a number without end",
        "ends in a field inside",
        "JSON inside without end",
        "a time of no year",
        "a second of too many parts",
    ],
)
def test_what_cannot_be_read_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(ProtobufError, match=why):
        decode(raw)


def test_a_kind_that_is_sent_as_json_alone_is_refused() -> None:
    with pytest.raises(UnsupportedKindError, match="StorageClass is not read as protobuf"):
        decode(envelope("StorageClass", "storage.k8s.io/v1", b""))


@pytest.mark.parametrize(
    ("raw", "number"),
    [(b"\xfb" + b"\xff" * 8 + b"\x01", -5), (b"\xff" * 9 + b"\x7f", -1)],
    ids=["negative", "of more than 64 bits"],
)
def test_numbers_are_read_as_those_of_64_bits(raw: bytes, number: int) -> None:
    assert decode(envelope("PriorityClass", "v1", bytes([2 << 3]) + raw))["value"] == number


def varint(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def long_envelope(kind: str, version: str, raw: bytes) -> bytes:
    return envelope(kind, version, b"")[:-1] + varint(len(raw)) + raw


def odd_fields(number: int) -> Iterator[bytes]:
    """A field in each form of the wire format, whatever it should be."""
    tag = number << 3
    yield varint(tag) + varint(2**64 - 1)
    yield varint(tag) + varint(2**63 - 1)
    yield varint(tag | 1) + b"\x00" * 8
    yield varint(tag | 5) + b"\x00" * 4
    for inner in (b"", b"\xff", b"\x08\x01", b"\x0a\x00", b"\x0a\x01\xff", b"\x10\x7f\x1a\x00"):
        yield member(number, inner) if number < 16 else b""
    yield member(number, varint(8) + varint(2**63 - 1)) if number < 16 else b""


@pytest.mark.parametrize("kind", [name for name in _MESSAGES if " " not in name])
def test_a_field_of_another_type_is_refused_or_left_out(kind: str) -> None:
    def tried(raw: bytes) -> None:
        with suppress(ProtobufError, UnsupportedKindError):
            json.dumps(decode(raw))

    for number, (_, form) in _MESSAGES[kind].items():
        for field in odd_fields(number):
            tried(envelope(kind, "v1", field))
            if form.rstrip("[]{}") in _MESSAGES and number < 16:
                for below in _MESSAGES[form.rstrip("[]{}")]:
                    for inner in odd_fields(below):
                        tried(envelope(kind, "v1", member(number, inner)))


@pytest.mark.parametrize("number", [1, 2])
def test_an_envelope_of_other_types_is_refused(number: int) -> None:
    for field in odd_fields(number):
        with pytest.raises((ProtobufError, UnsupportedKindError)):
            decode(b"k8s\x00" + field)


@pytest.mark.parametrize(
    "raw",
    [b"\x12\x00" * 60_000, member(2, member(1, "a") + member(2, "b")) * 20_000],
    ids=["in one message", "in many"],
)
def test_a_body_of_more_fields_than_any_object_has_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtobufError, match="more than 50,000 fields"):
        decode(long_envelope("ConfigMap", "v1", raw))


def test_the_values_of_all_json_in_a_body_count_together() -> None:
    text = b"[" + b"{}," * 20_000 + b"{}]"
    data = b"\x0a" + varint(len(text)) + text
    once = b"\x12" + varint(len(data)) + data
    assert len(decode(long_envelope("ControllerRevision", "apps/v1", once))["data"]) == 20_001
    with pytest.raises(ProtobufError, match="more than 50,000 fields"):
        decode(long_envelope("ControllerRevision", "apps/v1", once * 3))


def test_what_a_kubelet_writes_is_read() -> None:
    driver = member(1, "d") + member(2, "id") + member(4, bytes([1 << 3, 9]))
    node = envelope("CSINode", "storage.k8s.io/v1", member(2, member(1, driver)))
    assert decode(node)["spec"] == {
        "drivers": [{"name": "d", "nodeID": "id", "allocatable": {"count": 9}}]
    }
    bound = member(1, "Pod") + member(2, "v1") + member(3, "web") + member(4, "u")
    spec = member(1, "vault") + member(3, bound) + bytes([4 << 3, 0x97, 0x1C])
    assert decode(envelope("TokenRequest", "authentication.k8s.io/v1", member(2, spec)))[
        "spec"
    ] == {
        "audiences": ["vault"],
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "u"},
        "expirationSeconds": 3607,
    }
    spec = member(1, b"PEM") + member(5, "client auth") + member(7, "a/b")
    assert decode(envelope("CertificateSigningRequest", "certificates.k8s.io/v1", member(2, spec)))[
        "spec"
    ] == {"request": "UEVN", "usages": ["client auth"], "signerName": "a/b"}
