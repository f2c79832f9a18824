"""The contract of `podsched.serve.store.protocol`, on the fake and on a real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from podsched.serve.store.errors import (
    Closed,
    Compacted,
    InvalidRequest,
    LeaseNotFound,
    StoreError,
)
from podsched.serve.store.protocol import (
    Compare,
    CompareRelation,
    CompareTarget,
    Delete,
    EventType,
    Get,
    Put,
    Store,
    WatchBatch,
    WatchEvent,
    Write,
    WriteResult,
)
from support.eventually import PATIENCE


async def put(store: Store, key: str, value: bytes = b"value") -> int:
    """Set a key; returns the revision."""
    return (await store.write(Write((), (Put(key, value),)))).revision


async def collect(watch: AsyncIterator[WatchBatch], count: int) -> list[WatchEvent]:
    """The next `count` events of a watch."""
    events: list[WatchEvent] = []
    async with asyncio.timeout(PATIENCE):
        while len(events) < count:
            events += (await anext(watch)).events
    return events


async def test_a_key_reads_back_with_its_revisions_and_version(store: Store, prefix: str) -> None:
    created = await put(store, prefix + "a", b"one")
    changed = await put(store, prefix + "a", b"two")
    found = await store.get(prefix + "a")
    assert found.kv == (prefix + "a", b"two", created, changed, 2, 0)
    assert found.revision == changed == created + 1


async def test_an_absent_key_reads_as_none(store: Store, prefix: str) -> None:
    assert (await store.get(prefix + "a")).kv is None


async def test_a_key_is_readable_as_of_an_earlier_revision(store: Store, prefix: str) -> None:
    before = await put(store, prefix + "a", b"one")
    await store.write(Write((), (Delete(prefix + "a"),)))
    found = await store.get(prefix + "a", revision=before)
    assert found.kv is not None
    assert found.kv.value == b"one"
    assert (await store.get(prefix + "a")).kv is None


async def test_a_revision_of_the_future_is_an_invalid_request(store: Store, prefix: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.get(prefix + "a", revision=10**9)


async def test_a_range_holds_the_keys_under_its_prefix_in_order(store: Store, prefix: str) -> None:
    for name in ("b", "c", "a"):
        await put(store, prefix + name)
    await put(store, prefix[:-1] + "0")
    found = await store.range(prefix)
    assert [kv.key for kv in found.kvs] == [prefix + "a", prefix + "b", prefix + "c"]
    assert (found.more, found.total) == (False, 3)


async def test_a_range_is_read_page_by_page_as_of_one_revision(store: Store, prefix: str) -> None:
    for name in "abc":
        await put(store, prefix + name)
    page = await store.range(prefix, limit=2)
    assert (page.more, page.total, len(page.kvs)) == (True, 3, 2)
    await put(store, prefix + "d")
    rest = await store.range(prefix, start_after=page.kvs[-1].key, revision=page.revision)
    assert [kv.key for kv in rest.kvs] == [prefix + "c"]


async def test_a_write_whose_compare_fails_changes_nothing_and_tells_why(
    store: Store, prefix: str
) -> None:
    revision = await put(store, prefix + "a", b"one")
    write = Write(
        (Compare.mod_revision_is(prefix + "a", revision - 1), Compare.absent(prefix + "b")),
        (Put(prefix + "a", b"two"), Put(prefix + "c", b"two")),
    )
    result = await store.write(write)
    assert not result.succeeded
    assert set(result.current) == {prefix + "a", prefix + "b"}
    assert result.current[prefix + "b"] is None
    current = result.current[prefix + "a"]
    assert current is not None
    assert (current.value, current.mod_revision) == (b"one", revision)
    assert (await store.get(prefix + "c")).kv is None


async def test_a_write_whose_compares_hold_is_applied_whole_at_one_revision(
    store: Store, prefix: str
) -> None:
    revision = await put(store, prefix + "a")
    compares = (
        Compare.mod_revision_is(prefix + "a", revision),
        Compare(prefix + "a", CompareTarget.CREATE_REVISION, CompareRelation.EQUAL, revision),
        Compare.version_is(prefix + "a", 1),
        Compare(prefix + "a", CompareTarget.VALUE, CompareRelation.EQUAL, b"value"),
        Compare.exists(prefix + "a"),
        Compare.absent(prefix + "b"),
    )
    result = await store.write(Write(compares, (Delete(prefix + "a"), Put(prefix + "b", b"x"))))
    assert (result.succeeded, dict(result.current)) == (True, {})
    found = await store.get(prefix + "b")
    assert found.kv is not None
    assert found.kv.mod_revision == result.revision
    assert (await store.get(prefix + "a")).kv is None


@pytest.mark.parametrize("kind", ["version", "value", "exists", "absent"])
async def test_each_kind_of_compare_can_fail(store: Store, prefix: str, kind: str) -> None:
    await put(store, prefix + "here")
    compare = {
        "version": Compare.version_is(prefix + "here", 7),
        "value": Compare(prefix + "gone", CompareTarget.VALUE, CompareRelation.EQUAL, b""),
        "exists": Compare.exists(prefix + "gone"),
        "absent": Compare.absent(prefix + "here"),
    }[kind]
    assert not (await store.write(Write((compare,), (Put(prefix + "x", b""),)))).succeeded


async def test_deleting_an_absent_key_succeeds_and_changes_nothing(
    store: Store, prefix: str
) -> None:
    before = await put(store, prefix + "a")
    result = await store.write(Write((), (Delete(prefix + "b"),)))
    assert (result.succeeded, result.revision) == (True, before)


async def test_of_many_writes_each_succeeds_or_fails_by_itself(store: Store, prefix: str) -> None:
    await put(store, prefix + "3")
    writes = [
        Write((Compare.absent(f"{prefix}{n}"),), (Put(f"{prefix}{n}", b"new"),)) for n in range(300)
    ]
    outcomes = await store.write_many(writes)
    assert [n for n, o in enumerate(outcomes) if isinstance(o, WriteResult) and o.succeeded] == [
        n for n in range(300) if n != 3
    ]
    assert (await store.range(prefix)).total == 300


async def test_a_write_that_etcd_refuses_does_not_harm_those_beside_it(
    store: Store, prefix: str
) -> None:
    twice = Write((), (Put(prefix + "x", b"1"), Put(prefix + "x", b"2")))
    no_lease = Write((), (Put(prefix + "y", b"1", lease=12345),))
    writes = [Write((), (Put(f"{prefix}{n}", b""),)) for n in range(20)]
    writes[5:5] = [twice]
    writes[12:12] = [no_lease]
    outcomes = await store.write_many(writes)
    assert isinstance(outcomes[5], InvalidRequest)
    assert isinstance(outcomes[12], LeaseNotFound)
    assert sum(isinstance(outcome, WriteResult) for outcome in outcomes) == 20
    assert (await store.range(prefix)).total == 20


async def test_concurrent_increments_of_one_key_are_all_counted(store: Store, prefix: str) -> None:
    key = prefix + "counter"
    await put(store, key, b"0")

    async def increment() -> None:
        while True:
            kv = (await store.get(key)).kv
            assert kv is not None
            compare = Compare.mod_revision_is(key, kv.mod_revision)
            value = str(int(kv.value) + 1).encode()
            if (await store.write(Write((compare,), (Put(key, value),)))).succeeded:
                return

    await asyncio.gather(*[increment() for _ in range(20)])
    kv = (await store.get(key)).kv
    assert kv is not None
    assert kv.value == b"20"


async def test_writes_to_one_key_take_effect_in_the_order_submitted(
    store: Store, prefix: str
) -> None:
    await store.write_many([Write((), (Put(prefix + "a", str(n).encode()),)) for n in range(50)])
    kv = (await store.get(prefix + "a")).kv
    assert kv is not None
    assert (kv.value, kv.version) == (b"49", 50)


async def test_a_chain_of_writes_each_comparing_the_one_before_succeeds_whole(
    store: Store, prefix: str
) -> None:
    links = [
        Write((Compare.exists(f"{prefix}{n}"),), (Put(f"{prefix}{n + 1}", b""),)) for n in range(10)
    ]
    first = Write((Compare.absent(f"{prefix}0"),), (Put(f"{prefix}0", b""),))
    outcomes = await store.write_many([first, *links])
    assert all(isinstance(o, WriteResult) and o.succeeded for o in outcomes)


async def test_of_two_writes_that_each_compare_what_the_other_writes_one_fails(
    store: Store, prefix: str
) -> None:
    a, b = prefix + "a", prefix + "b"
    outcomes = await store.write_many(
        [
            Write((Compare.absent(a),), (Put(b, b""),)),
            Write((Compare.absent(b),), (Put(a, b""),)),
        ]
    )
    assert [isinstance(o, WriteResult) and o.succeeded for o in outcomes] == [True, False]


async def test_a_txn_answers_the_gets_of_the_branch_it_takes(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a", b"one")
    right = await store.txn(
        (Compare.mod_revision_is(prefix + "a", revision),),
        (Put(prefix + "a", b"two"), Get(prefix + "a"), Get(prefix + "b")),
    )
    assert right.succeeded
    assert [kv and kv.value for kv in right.kvs] == [b"two", None]
    wrong = await store.txn(
        (Compare.mod_revision_is(prefix + "a", revision),),
        (Put(prefix + "a", b"three"),),
        (Get(prefix + "a"),),
    )
    assert (wrong.succeeded, wrong.revision) == (False, right.revision)
    assert [kv and kv.value for kv in wrong.kvs] == [b"two"]


async def test_a_watch_from_a_revision_has_every_change_since(store: Store, prefix: str) -> None:
    first = await put(store, prefix + "a", b"one")
    await put(store, prefix + "a", b"two")
    await put(store, prefix[:-1] + "elsewhere")
    last = (await store.write(Write((), (Delete(prefix + "a"),)))).revision
    events = await collect(store.watch(prefix, start_revision=first), 3)
    assert [e.type for e in events] == [EventType.PUT, EventType.PUT, EventType.DELETE]
    assert [e.kv.value for e in events] == [b"one", b"two", b""]
    assert events[-1].kv.mod_revision == last


async def test_a_watch_from_now_first_tells_its_revision_and_then_only_what_follows(
    store: Store, prefix: str
) -> None:
    before = await put(store, prefix + "a")
    watch = store.watch(prefix)
    start = await anext(watch)
    assert (start.revision >= before, list(start.events)) == (True, [])
    after = await put(store, prefix + "b")
    assert [e.kv.mod_revision for e in await collect(watch, 1)] == [after]


async def test_a_watch_never_splits_a_revision(store: Store, prefix: str) -> None:
    start = await put(store, prefix + "start")
    value = bytes(30_000)
    for group in range(3):
        ops = [Put(f"{prefix}{group}-{n}", value) for n in range(40)]
        await store.write(Write((), ops))
    seen: list[int] = []
    async with asyncio.timeout(PATIENCE):
        async for batch in store.watch(prefix, start_revision=start + 1):
            revisions = [e.kv.mod_revision for e in batch.events]
            assert not set(revisions) & set(seen)
            assert batch.revision == revisions[-1]
            seen += revisions
            if len(seen) == 120:
                break
    assert [seen.count(r) for r in sorted(set(seen))] == [40, 40, 40]


async def test_a_watch_of_several_prefixes_has_the_changes_of_all_in_one_order(
    store: Store, prefix: str
) -> None:
    watch = store.watch((prefix + "a/", prefix + "c/"))
    await anext(watch)
    for name in ("c/1", "b/1", "a/1", "c/2"):
        await put(store, prefix + name)
    events = await collect(watch, 3)
    assert [e.kv.key.removeprefix(prefix) for e in events] == ["c/1", "a/1", "c/2"]


async def test_a_compacted_revision_can_be_neither_read_nor_watched(
    store: Store, prefix: str
) -> None:
    old = await put(store, prefix + "a", b"one")
    for _ in range(3):
        new = await put(store, prefix + "a", b"two")
    await store.compact(new)
    await store.compact(new - 1)  # done already
    with pytest.raises(Compacted):
        await store.get(prefix + "a", revision=old)
    with pytest.raises(Compacted) as refusal:
        await collect(store.watch(prefix, start_revision=old), 1)
    assert refusal.value.compact_revision == new


async def test_revoking_a_lease_deletes_its_keys(store: Store, prefix: str) -> None:
    lease = await store.lease_grant(60)
    await store.write(Write((), (Put(prefix + "a", b"", lease.id), Put(prefix + "b", b""))))
    kv = (await store.get(prefix + "a")).kv
    assert kv is not None
    assert kv.lease == lease.id
    assert await store.lease_keep_alive(lease.id) == 60
    await store.lease_revoke(lease.id)
    assert [kv.key for kv in (await store.range(prefix)).kvs] == [prefix + "b"]


async def test_a_lease_that_is_gone_can_be_neither_kept_alive_nor_revoked(store: Store) -> None:
    lease = await store.lease_grant(60)
    await store.lease_revoke(lease.id)
    with pytest.raises(LeaseNotFound):
        await store.lease_keep_alive(lease.id)
    with pytest.raises(LeaseNotFound):
        await store.lease_revoke(lease.id)


async def test_status_names_the_revision_and_the_term(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a")
    status = await store.status()
    assert status.revision == revision
    assert store.raft_term == status.raft_term


async def test_a_closed_store_refuses_calls_and_ends_its_watches(store: Store, prefix: str) -> None:
    watch = store.watch(prefix)
    await anext(watch)
    following = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await store.close()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Closed):
            await following
        with pytest.raises(Closed):
            await store.get(prefix + "a")
        with pytest.raises(StoreError):
            await put(store, prefix + "a")
