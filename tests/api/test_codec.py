"""The JSON form of values, whatever a stored object holds."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.codec import (
    FIRST_SECOND,
    LAST_SECOND,
    MAX_ITEMS,
    MAX_LIST,
    Reader,
    format_time,
    write,
)
from podsched.v1 import objects_pb2 as v1


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (0, 0, "1970-01-01T00:00:00Z"),
        (1, 500_000_000, "1970-01-01T00:00:01.500000Z"),
        (1, 1, "1970-01-01T00:00:01.000000001Z"),
        (FIRST_SECOND, 0, "0001-01-01T00:00:00Z"),
        (LAST_SECOND, 0, "9999-12-31T23:59:59Z"),
        (LAST_SECOND + 1, 0, "9999-12-31T23:59:59Z"),
        (-(2**63), -5, "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_shown_as_the_nearest_that_has_a_form(
    seconds: int, nanos: int, text: str
) -> None:
    assert format_time(Timestamp(seconds=seconds, nanos=nanos)) == text


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_every_time_is_shown_in_a_form_that_can_be_read(seconds: int, nanos: int) -> None:
    Timestamp().FromJsonString(format_time(Timestamp(seconds=seconds, nanos=nanos)))


def test_a_template_of_claims_may_say_what_it_is_a_template_of() -> None:
    reader = Reader()
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    wrong = {"apiVersion": "v2", "kind": "Pod"}
    reader.read(v1.StatefulSet(), {"spec": {"volumeClaimTemplates": [claim, wrong]}}, "")
    assert reader.unknown == [
        "spec.volumeClaimTemplates[1].apiVersion",
        "spec.volumeClaimTemplates[1].kind",
    ]


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (v1.ContainerStatus, {"image", "imageID", "ready", "restartCount"}),
        (v1.ContainerStateTerminated, {"exitCode"}),
        (v1.Condition, {"reason", "message"}),
        (v1.ISCSIVolumeSource, {"lun"}),
        (v1.AttachedVolume, {"devicePath"}),
        (v1.NodeSystemInfo, {"machineID", "osImage", "kubeletVersion", "architecture"}),
    ],
)
def test_what_clients_of_kubernetes_require_is_written_though_it_is_empty(
    message: type[Message], names: set[str]
) -> None:
    assert names <= write(message()).keys()


@pytest.mark.parametrize("items", [[{}] * (MAX_LIST + 1), [1] * (MAX_LIST + 1)])
def test_a_list_or_map_that_is_too_long_is_told_and_not_unfolded(items: list[object]) -> None:
    spec, reader = v1.PodSpec(), Reader()
    reader.read(spec, {"containers": items}, "spec")
    (problem,) = reader.problems
    assert problem.path == "spec.containers"
    assert problem.reason == "must have at most 10000 items, this has 10001"
    assert not spec.containers
    config, reader = v1.ConfigMap(), Reader()
    reader.read(config, {"data": {str(key): "" for key in range(MAX_LIST + 1)}}, "")
    assert reader.problems[0].path == "data"
    assert not config.data


def test_all_lists_of_an_object_together_are_bounded() -> None:
    spec, reader = v1.PodSpec(), Reader()
    container = {"ports": [{}] * MAX_LIST}
    reader.read(spec, {"containers": [container] * 20}, "spec")
    read = sum(len(container.ports) for container in spec.containers)
    assert read == MAX_ITEMS - MAX_LIST
    assert "more than 50000 items in its lists" in reader.problems[0].reason


def test_a_number_too_large_for_a_field_without_a_schema_is_a_mistake() -> None:
    meta, reader = v1.ObjectMeta(), Reader()
    reader.read(meta, {"managedFields": [{"f:a": 10**400}]}, "metadata")
    assert reader.problems[0].path == "metadata.managedFields[0]"


def test_an_object_without_a_schema_is_written_in_the_order_of_its_names() -> None:
    """A message keeps its members in an order that differs from process to process."""
    metadata = v1.ObjectMeta()
    fields = {f"f:{name}": dict.fromkeys("zyxwvuabcdef", True) for name in "zyxabc"}
    metadata.managed_fields.add().update({"fieldsV1": fields})
    [entry] = write(metadata)["managedFields"]
    assert list(entry["fieldsV1"]) == sorted(fields)
    assert list(entry["fieldsV1"]["f:a"]) == sorted("zyxwvuabcdef")


def test_what_has_no_schema_here_is_checked_by_that_of_kubernetes() -> None:
    """Kubelets and controllers stop at a list of pods with one that they cannot decode."""
    reader = Reader()
    probe = {"httpget": {}, "periodSeconds": "5"}
    reader.read(v1.Pod(), {"spec": {"containers": [{"readinessProbe": probe}]}}, "")
    at = "spec.containers[0].readinessProbe"
    assert [problem.path for problem in reader.problems] == [f"{at}.periodSeconds"]
    assert reader.unknown == [f"{at}.httpget"]
