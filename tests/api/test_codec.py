"""The JSON form of values, whatever a stored object holds."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.codec import FIRST_SECOND, LAST_SECOND, Reader, format_time, write
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
