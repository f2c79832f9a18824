"""Nothing enters the store that a reader cannot decode or show."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.codec import FIRST_SECOND, LAST_SECOND, write
from podsched.api.kinds import wrap
from podsched.api.validation.storable import (
    MAX_STRUCT_DEPTH,
    validate_storable,
)
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1


def _nested(levels: int, leaf: Any = "x") -> dict[str, Any]:
    value: Any = leaf
    for _ in range(levels):
        value = {"a": value}
    assert isinstance(value, dict)
    return value


def _with_managed_fields(content: dict[str, Any]) -> v1.Pod:
    pod = v1.Pod()
    pod.metadata.managed_fields.add().update(content)
    return pod


def test_a_structure_nested_beyond_the_limit_is_named_with_its_path() -> None:
    (error,) = validate_storable(_with_managed_fields(_nested(MAX_STRUCT_DEPTH + 1)))
    assert error.path == "metadata.managedFields[0]"
    assert error.reason == "must not be nested more than 24 levels deep"


def test_lists_count_as_levels() -> None:
    value: Any = []
    for _ in range(MAX_STRUCT_DEPTH):
        value = [value]
    assert validate_storable(_with_managed_fields({"a": value}))


def test_what_is_nested_up_to_the_limit_decodes_in_the_deepest_place_there_is() -> None:
    pod = v1.Pod()
    value_from = pod.spec.init_containers.add().env.add().value_from
    value_from.update(_nested(MAX_STRUCT_DEPTH))
    assert validate_storable(pod) == []
    page = api_pb2.ListResponse(items=[wrap(pod)]).SerializeToString()
    assert api_pb2.ListResponse.FromString(page).items[0].pod == pod


def test_without_the_limit_an_object_could_not_be_decoded() -> None:
    raw = wrap(_with_managed_fields(_nested(60))).SerializeToString()
    with pytest.raises(DecodeError):
        api_pb2.Object.FromString(raw)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_cannot_hold_are_refused(number: float) -> None:
    assert validate_storable(_with_managed_fields({"a": [number]}))


def test_a_value_of_no_kind_is_refused() -> None:
    pod = v1.Pod()
    pod.metadata.managed_fields.add().fields["a"].SetInParent()
    assert validate_storable(pod)


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(LAST_SECOND + 1, 0), (FIRST_SECOND - 1, 0), (0, 10**9), (0, -1)]
)
def test_a_time_outside_the_years_1_to_9999_is_refused_wherever_it_stands(
    seconds: int, nanos: int
) -> None:
    node = v1.Node()
    node.status.conditions.add(type="Ready").last_heartbeat_time.seconds = seconds
    node.status.conditions[0].last_heartbeat_time.nanos = nanos
    lease = v1.Lease()
    lease.spec.renew_time.seconds, lease.spec.renew_time.nanos = seconds, nanos
    budget = v1.PodDisruptionBudget()
    budget.status.disrupted_pods["web-0"].seconds = seconds
    budget.status.disrupted_pods["web-0"].nanos = nanos
    assert [
        error.path for message in (node, lease, budget) for error in validate_storable(message)
    ] == [
        "status.conditions[0].lastHeartbeatTime",
        "spec.renewTime",
        "status.disruptedPods[web-0]",
    ]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_every_time_that_is_accepted_can_be_shown(seconds: int, nanos: int) -> None:
    pod = v1.Pod()
    pod.status.start_time.seconds, pod.status.start_time.nanos = seconds, nanos
    if not validate_storable(pod):
        assert write(pod)["status"]["startTime"]
        assert pod.status.start_time.ToJsonString()


def test_fields_left_out_are_not_looked_at() -> None:
    pod = v1.Pod()
    pod.spec.dns_config.update(_nested(60))
    assert validate_storable(pod, without=("spec",)) == []
