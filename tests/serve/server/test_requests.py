"""Requests are bounded before they are decoded."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.codec import MAX_ITEMS, MAX_LIST
from podsched.serve.server.admission import MAX_OBJECT_BYTES
from podsched.serve.server.errors import ApiError
from podsched.serve.server.requests import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    MAX_PLAIN_BYTES,
    batch_of,
    bounded,
    split_items,
    with_items,
    with_object,
)
from podsched.v1 import api_pb2 as v1
from podsched.v1.objects_pb2 import ContainerPort, Pod, PodCondition


class Undecodable(Message):
    """Takes the place of a message that must not be decoded at all."""

    DESCRIPTOR = v1.CreatePodsRequest.DESCRIPTOR

    @classmethod
    def FromString(cls, raw: bytes) -> Undecodable:
        raise AssertionError("it was decoded")


def _refusal(raised: pytest.ExceptionInfo[ApiError]) -> tuple[str, str]:
    return raised.value.code.name, raised.value.message


def test_a_batch_of_too_many_items_is_refused_without_decoding_one() -> None:
    parse = batch_of(Undecodable, "pods", Undecodable.FromString)
    with pytest.raises(ApiError) as raised:
        parse(b"\x0a\x00" * 8_000_000)
    code, message = _refusal(raised)
    assert code == "RESOURCE_EXHAUSTED"
    assert message == f"a batch may have at most {MAX_BATCH} items, this one has more"
    assert raised.value.violations[0].field == "pods"


@pytest.mark.parametrize(
    ("parse", "most"),
    [
        (bounded(v1.GetRequest), MAX_PLAIN_BYTES),
        (with_items(v1.BindPodsRequest, "bindings"), MAX_BATCH_BYTES),
        (with_object(v1.CreateRequest), MAX_OBJECT_BYTES + MAX_PLAIN_BYTES),
    ],
)
def test_a_request_of_more_bytes_than_its_kind_may_have_is_refused(parse, most: int) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ApiError) as raised:
        parse(b"\xfa\x01" + b"\xff\xff\xff\x07" + b"x" * most)
    assert _refusal(raised)[0] == "RESOURCE_EXHAUSTED"


def test_objects_are_decoded_when_they_are_asked_for() -> None:
    decoded = []

    def decode(raw: bytes) -> Pod:
        decoded.append(raw)
        return Pod.FromString(raw)

    request = v1.CreatePodsRequest(pods=[Pod(), Pod()])
    request.pods[1].metadata.name = "b"
    batch = batch_of(v1.CreatePodsRequest, "pods", decode)(request.SerializeToString())
    objects = batch.objects()
    assert decoded == []
    assert next(objects) == Pod()
    assert len(decoded) == 1
    assert next(objects).metadata.name == "b"


def test_an_object_that_is_too_large_or_cannot_be_decoded_fails_alone() -> None:
    good = Pod()
    good.metadata.name = "good"
    items = [b"\xff", b"\x12" + b"\xff\xff\x7f" + b"x" * (MAX_OBJECT_BYTES + 1)]
    items.append(good.SerializeToString())
    raw = b"".join(b"\x0a" + _length(item) + item for item in items)
    batch = batch_of(v1.CreatePodsRequest, "pods", Pod.FromString)(raw)
    broken, large, decoded = batch.objects()
    assert isinstance(broken, ApiError) and broken.code.name == "INVALID_ARGUMENT"
    assert isinstance(large, ApiError) and large.code.name == "RESOURCE_EXHAUSTED"
    assert decoded == good


def test_an_object_with_a_list_too_long_to_look_at_is_refused_with_its_path() -> None:
    pod = Pod()
    for _ in range(MAX_LIST + 1):
        pod.spec.containers.add()
    raw = v1.CreatePodsRequest(pods=[pod]).SerializeToString()
    (refused,) = batch_of(v1.CreatePodsRequest, "pods", Pod.FromString)(raw).objects()
    assert isinstance(refused, ApiError)
    assert refused.violations[0].field == "spec.containers"
    request = v1.UpdateRequest()
    request.object.pod.CopyFrom(pod)
    with pytest.raises(ApiError, match=r"object\.pod\.spec\.containers"):
        with_object(v1.UpdateRequest)(request.SerializeToString())


def test_an_object_with_too_many_items_in_all_its_lists_is_refused() -> None:
    pod = Pod()
    for _ in range(10):
        pod.spec.containers.add().ports.extend([ContainerPort()] * (MAX_ITEMS // 10 - 1))
    pod.spec.init_containers.add().ports.add()
    raw = v1.CreatePodsRequest(pods=[pod]).SerializeToString()
    (refused,) = batch_of(v1.CreatePodsRequest, "pods", Pod.FromString)(raw).objects()
    assert isinstance(refused, ApiError)
    assert refused.violations[0].field == "spec.initContainers"


@pytest.mark.parametrize(("items", "good"), [(MAX_ITEMS - 10, True), (MAX_ITEMS, False)])
def test_what_is_in_fields_without_a_schema_counts_too(items: int, good: bool) -> None:
    """All together, as in JSON: validation looks at each value."""
    pod = Pod()
    inner = pod.metadata.managed_fields.add().get_or_create_struct("f:a").get_or_create_list("b")
    inner.extend([None] * items)
    request = v1.UpdateRequest()
    request.object.pod.CopyFrom(pod)
    raw = request.SerializeToString()
    if good:
        assert with_object(v1.UpdateRequest)(raw) == request
        return
    with pytest.raises(ApiError, match="the object has more than 50000 items in its lists"):
        with_object(v1.UpdateRequest)(raw)


def test_the_lists_of_an_item_of_a_batch_are_bounded() -> None:
    request = v1.PatchPodStatusesRequest()
    request.patches.add().conditions.extend([PodCondition()] * (MAX_LIST + 1))
    with pytest.raises(ApiError, match=r"patches\[0\]\.conditions"):
        with_items(v1.PatchPodStatusesRequest, "patches")(request.SerializeToString())


def _length(item: bytes) -> bytes:
    """The length as a varint."""
    number, parts = len(item), []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def test_what_stands_beside_the_items_is_kept() -> None:
    request = v1.CreateBatchRequest(fence=v1.Fence(lock="a/b", term=7))
    for name in ("x", "y"):
        request.objects.add().pod.metadata.name = name
    batch = batch_of(v1.CreateBatchRequest, "objects", v1.Object.FromString)(
        request.SerializeToString()
    )
    assert batch.rest == v1.CreateBatchRequest(fence=request.fence)
    assert list(batch.objects()) == list(request.objects)


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_apart_as_protobuf_does_or_refused(raw: bytes) -> None:
    try:
        items, rest = split_items(raw, 1, "objects")
    except ApiError as error:
        assert error.code.name == "INVALID_ARGUMENT"
        return
    again = rest + b"".join(b"\x0a" + _length(item) + item for item in items)
    assert split_items(again, 1, "objects") == (items, rest)


@given(st.lists(st.text(max_size=300), max_size=20), st.integers(0, 2**63 - 1))
def test_requests_are_taken_apart_whatever_they_hold(names: list[str], term: int) -> None:
    request = v1.BindPodsRequest(fence=v1.Fence(lock="a/b", term=term))
    for name in names:
        request.bindings.add(name=name)
    items, rest = split_items(request.SerializeToString(), 1, "bindings")
    assert [v1.Binding.FromString(item).name for item in items] == names
    assert v1.BindPodsRequest.FromString(rest) == v1.BindPodsRequest(fence=request.fence)
