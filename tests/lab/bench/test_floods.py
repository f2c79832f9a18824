"""What the flooding clients send."""

from __future__ import annotations

import random

import pytest
from google.protobuf.message import DecodeError

from podsched.api.validation import validate
from podsched.lab.bench.floods import BATCH, CLIENTS, batch_for, garbage
from podsched.v1 import api_pb2 as v1


def test_there_are_ten_flooding_clients() -> None:
    assert sum(CLIENTS.values()) == 10


def test_a_batch_holds_valid_pods_that_no_scheduler_takes() -> None:
    pods = v1.CreatePodsRequest.FromString(batch_for(3)).pods
    assert len(pods) == BATCH
    assert {pod.metadata.namespace for pod in pods} == {"flood-3"}
    assert {pod.spec.scheduler_name for pod in pods} == {"nobody"}
    assert not validate("Pod", pods[0])


def test_garbage_is_no_request() -> None:
    chance = random.Random(1)
    for _ in range(50):
        _, raw = garbage(chance)
        with pytest.raises(DecodeError):
            v1.CreateRequest.FromString(raw)
