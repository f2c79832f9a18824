"""The bytes put together by hand are what the generated messages would make of them."""

from __future__ import annotations

import tracemalloc

import pytest
from aetcd.rpc import rpc_pb2 as rpc
from hypothesis import given
from hypothesis import strategies as st

from podsched.serve.store.protocol import (
    Compare,
    CompareRelation,
    CompareTarget,
    Delete,
    Get,
    Put,
    TxnOp,
    Write,
)
from podsched.serve.store.wire import covering_range, encode_txn, encode_write, prefix_range

keys = st.text(min_size=1, max_size=300)
numbers = st.integers(0, 2**63 - 1)
OPERANDS = ("version", "create_revision", "mod_revision", "value", "lease")


@st.composite
def compares(draw: st.DrawFn) -> Compare:
    target = draw(st.sampled_from(list(CompareTarget)))
    operand = draw(st.binary(max_size=200) if target is CompareTarget.VALUE else numbers)
    return Compare(draw(keys), target, draw(st.sampled_from(list(CompareRelation))), operand)


puts = st.builds(Put, keys, st.binary(max_size=20_000), numbers)
ops = st.one_of(puts, st.builds(Delete, keys), st.builds(Get, keys))


def message_of(op: TxnOp) -> rpc.RequestOp:
    key = op.key.encode()
    if isinstance(op, Put):
        return rpc.RequestOp(
            request_put=rpc.PutRequest(key=key, value=op.value, lease=op.lease),
        )
    if isinstance(op, Delete):
        return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
    return rpc.RequestOp(request_range=rpc.RangeRequest(key=key))


def message_of_compare(compare: Compare) -> rpc.Compare:
    return rpc.Compare(
        key=compare.key.encode(),
        target=int(compare.target),
        result=int(compare.relation),
        **{OPERANDS[compare.target]: compare.operand},
    )


@given(st.lists(compares(), max_size=3), st.lists(ops, max_size=3), st.lists(ops, max_size=3))
def test_a_txn_encodes_as_its_messages_would(
    conditions: list[Compare], success: list[TxnOp], failure: list[TxnOp]
) -> None:
    expected = rpc.TxnRequest(
        compare=[message_of_compare(c) for c in conditions],
        success=[message_of(op) for op in success],
        failure=[message_of(op) for op in failure],
    )
    assert rpc.TxnRequest.FromString(encode_txn(conditions, success, failure)) == expected


def test_concatenated_writes_are_one_transaction_of_nested_ones() -> None:
    writes = [
        Write((Compare.absent(f"k{n}"), Compare.exists("fence")), (Put(f"k{n}", b"v"),))
        for n in range(3)
    ]
    outer = rpc.TxnRequest.FromString(b"".join(encode_write(w) for w in writes))
    assert [op.request_txn.success[0].request_put.key for op in outer.success] == [
        b"k0",
        b"k1",
        b"k2",
    ]
    failure = outer.success[1].request_txn.failure
    assert [op.request_range.key for op in failure] == [b"k1", b"fence"]


@pytest.mark.parametrize(
    ("prefix", "inside", "outside"),
    [("/a/", b"/a/\xf4", b"/a0"), ("é", "é!".encode(), "ê".encode())],
)
def test_a_prefix_range_ends_after_the_last_key_of_the_prefix(
    prefix: str, inside: bytes, outside: bytes
) -> None:
    key, end = prefix_range(prefix)
    assert key <= inside < end
    assert not key <= outside < end


def test_an_empty_prefix_is_the_whole_key_space() -> None:
    assert prefix_range("") == (b"\0", b"\0")
    assert covering_range(("/a", "")) == (b"\0", b"\0")


def test_a_name_of_megabytes_is_not_kept_after_its_write_is_encoded() -> None:
    """A binding names a node that need not exist; other compares are kept for the next writes."""
    tracemalloc.start()
    try:
        for number in range(10):
            node = Compare.exists(f"{number}{'x' * 1_000_000}")
            encode_write(Write((Compare.absent("/a"), node), ()))
        del node
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()
