"""Numbers as protobuf writes them."""

from __future__ import annotations

import pytest

from podsched.lib.varint import varint
from podsched.v1 import api_pb2 as v1


@pytest.mark.parametrize("number", [1, 127, 128, 8191, 8192, 16384, 2**31, 2**63 - 1])
def test_a_number_is_written_as_protobuf_does(number: int) -> None:
    """The bytes are those of a generated message, without the field's tag."""
    assert v1.WatchResponse(revision=number).SerializeToString()[1:] == varint(number)
