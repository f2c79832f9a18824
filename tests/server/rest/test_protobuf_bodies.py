"""Bodies in Kubernetes' protobuf: the kinds that kubectl sends so."""

from __future__ import annotations

import pytest

from podsched.server.rest.protobuf_bodies import ProtobufError, decode


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


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"k8s\x00\x0a", envelope("Pod", "v1", b""), envelope("Lease", "v1", b"\x12\xff")],
    ids=["empty", "JSON", "cut short", "of another kind", "cut short inside"],
)
def test_what_cannot_be_read_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(raw)
