"""Converts between etcd's messages and the store's types.

Requests on the write path are encoded to protobuf's wire format by hand: 3 µs for a write of 800
bytes with two compares, against 11 µs with messages, a quarter of a core at 25,000 writes/s. A
group is then the concatenation of its writes' bytes, because protobuf joins repeated fields of
concatenated messages. A test compares the bytes with the generated messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from podsched.lib.varint import SMALL, VARINTS, varint
from podsched.serve.store.protocol import (
    Compare,
    CompareRelation,
    CompareTarget,
    EventType,
    Get,
    KeyValue,
    Put,
    TxnOp,
    TxnResult,
    WatchEvent,
    Write,
    WriteResult,
)

# Tags (field number << 3 | wire type) of etcd's rpc.proto, named message_field.
_TXN_COMPARE, _TXN_SUCCESS, _TXN_FAILURE = b"\x0a", b"\x12", b"\x1a"
_OP_RANGE, _OP_PUT, _OP_DELETE, _OP_TXN = b"\x0a", b"\x12", b"\x1a", b"\x22"
_KEY, _PUT_VALUE, _PUT_LEASE = b"\x0a", b"\x12", b"\x18"  # field 1 is the key in all three
_COMPARE_RELATION, _COMPARE_TARGET, _COMPARE_KEY = b"\x08", b"\x10", b"\x1a"
_COMPARE_OPERAND = (b"\x20", b"\x28", b"\x30", b"\x3a", b"\x40")  # by CompareTarget
_NOTHING: Mapping[str, KeyValue | None] = MappingProxyType({})

#: Max characters of a key whose compare is cached: more than any object's key has.
_LONGEST_KEY = 1024

WHOLE_KEY_SPACE = (b"\0", b"\0")


# Relation and target of a compare, by CompareTarget * 4 + CompareRelation.
_COMPARE_HEAD = tuple(
    _COMPARE_RELATION + VARINTS[relation] + _COMPARE_TARGET + VARINTS[target]
    for target in CompareTarget
    for relation in CompareRelation
)


def _field(tag: bytes, content: bytes) -> bytes:
    length = len(content)
    return tag + (VARINTS[length] if length < SMALL else varint(length)) + content


def encode_write(write: Write) -> bytes:
    """Encode a write as a nested transaction of a group: bytes to be joined with the others'.

    If a compare fails, the nested transaction reads the compared keys, so that the caller gets
    their values at the same revision.
    """
    compares, reads = [], {}
    encoded = _compare_and_read  # of the first compare, which is mostly of the write's own key
    for compare in write.compares:
        compared, reads[compare.key] = encoded(compare)
        compares.append(compared)
        encoded = _shared_compare_and_read
    parts = [_field(_TXN_SUCCESS, _op(op)) for op in write.ops]
    return _field(_TXN_SUCCESS, _field(_OP_TXN, b"".join((*compares, *parts, *reads.values()))))


def counted_against_quota(key: str) -> bytes:
    """Return bytes to add to a group that puts ``key``, so that etcd applies its space quota to it.

    etcd 3.5 counts the puts in a transaction's own branches and ignores nested transactions:
    without this, groups would be accepted under the NOSPACE alarm and beyond the quota. The group
    itself has no compares (its nested transactions have), so its failure branch is counted but
    never runs. Its key is one that the group puts anyway, because etcd checks the user's permission
    for that branch, too.
    """
    return _field(_TXN_FAILURE, _op(Put(key, b"")))


def encode_txn(
    compares: Sequence[Compare], on_success: Sequence[TxnOp], on_failure: Sequence[TxnOp]
) -> bytes:
    """Encode a transaction outside of any group."""
    parts = [_compare(compare) for compare in compares]
    parts += [_field(_TXN_SUCCESS, _op(op)) for op in on_success]
    parts += [_field(_TXN_FAILURE, _op(op)) for op in on_failure]
    return b"".join(parts)


def _compare_and_read(compare: Compare) -> tuple[bytes, bytes]:
    return _compare(compare), _field(_TXN_FAILURE, _read(compare.key))


_remembered_compare_and_read = lru_cache(SMALL)(_compare_and_read)


def _shared_compare_and_read(compare: Compare) -> tuple[bytes, bytes]:
    """Encode a compare that many writes may share: the term of their fence, the node of a binding.

    These took half of the time to encode a binding, so they are cached. Not those of long keys: a
    client can name what does not exist by megabytes.
    """
    if len(compare.key) > _LONGEST_KEY:
        return _compare_and_read(compare)
    return _remembered_compare_and_read(compare)


def _compare(compare: Compare) -> bytes:
    key, target, relation, operand = compare
    body = _COMPARE_HEAD[target * 4 + relation] + _field(_COMPARE_KEY, key.encode())
    tag = _COMPARE_OPERAND[target]
    body += _field(tag, operand) if isinstance(operand, bytes) else tag + varint(operand)
    return _field(_TXN_COMPARE, body)


def _read(key: str) -> bytes:
    return _field(_OP_RANGE, _field(_KEY, key.encode()))


def _op(op: TxnOp) -> bytes:
    if isinstance(op, Get):
        return _read(op.key)
    body = _field(_KEY, op.key.encode())
    if isinstance(op, Put):
        body += _field(_PUT_VALUE, op.value)
        if op.lease:
            body += _PUT_LEASE + varint(op.lease)
        return _field(_OP_PUT, body)
    return _field(_OP_DELETE, body)


def decode_group(response: Any, writes: Sequence[Write]) -> list[WriteResult]:
    """Decode the outcome of each write of a group (all with changes share a revision)."""
    revision = response.header.revision
    done = WriteResult(True, revision, _NOTHING)
    results: list[WriteResult] = []
    for write, op in zip(writes, response.responses, strict=True):
        nested = op.response_txn
        if nested.succeeded:
            results.append(done)
            continue
        # encode_write reads each compared key once, in the order of its first compare.
        found = [_first(answer.response_range) for answer in nested.responses]
        keys = dict.fromkeys(compare.key for compare in write.compares)
        current = dict(zip(keys, found, strict=True))
        results.append(WriteResult(False, revision, current))
    return results


def decode_txn(response: Any) -> TxnResult:
    """Decode the outcome of a transaction outside of any group."""
    kvs = tuple(
        _first(answer.response_range)
        for answer in response.responses
        if answer.WhichOneof("response") == "response_range"
    )
    return TxnResult(response.succeeded, response.header.revision, kvs)


def _first(response_range: Any) -> KeyValue | None:
    return decode_kv(response_range.kvs[0]) if response_range.kvs else None


def decode_kv(kv: Any) -> KeyValue:
    """Convert an mvccpb.KeyValue."""
    return KeyValue(
        kv.key.decode(), kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease
    )


def decode_event(event: Any) -> WatchEvent:
    """Convert an mvccpb.Event."""
    return WatchEvent(EventType.DELETE if event.type else EventType.PUT, decode_kv(event.kv))


def prefix_range(prefix: str) -> tuple[bytes, bytes]:
    """Return etcd's (key, range_end) for all keys that begin with prefix."""
    key = prefix.encode()
    if not key:
        return WHOLE_KEY_SPACE
    return key, key[:-1] + bytes((key[-1] + 1,))  # UTF-8 never ends in 0xff


def covering_range(prefixes: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the smallest range that holds all keys under any of the prefixes."""
    ranges = [prefix_range(prefix) for prefix in prefixes]
    if any(end == b"\0" for _, end in ranges):
        return min(key for key, _ in ranges), b"\0"
    return min(key for key, _ in ranges), max(end for _, end in ranges)
