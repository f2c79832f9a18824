"""The register of kinds."""

from __future__ import annotations

import pytest

from podsched.api.kinds import KINDS, UnknownKindError, find_kind, kind_of, unwrap, wrap
from podsched.v1.objects_pb2 import Object


def test_every_member_of_the_object_message_is_a_kind() -> None:
    members = [field.name for field in Object.DESCRIPTOR.fields]
    assert [kind.oneof_field for kind in KINDS.values()] == members


@pytest.mark.parametrize("name", ["po", "pods", "pod", "Pod", "PODS"])
def test_a_kind_is_found_by_each_of_its_names(name: str) -> None:
    assert find_kind(name) is KINDS["Pod"]


def test_a_kind_is_found_by_its_plural_and_group() -> None:
    assert find_kind("leases.coordination.k8s.io").name == "Lease"
    with pytest.raises(UnknownKindError):
        find_kind("leases.example.com")


def test_an_unknown_kind_is_named_in_the_error() -> None:
    with pytest.raises(UnknownKindError, match='resource type "gadget"'):
        find_kind("gadget")


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_what_is_wrapped_comes_out_again(kind: object) -> None:
    message = find_kind(kind.name).new()  # type: ignore[attr-defined]
    message.metadata.name = "x"
    assert unwrap(wrap(message)) == message
    assert kind_of(message) is kind


def test_an_empty_object_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly one member"):
        unwrap(Object())
