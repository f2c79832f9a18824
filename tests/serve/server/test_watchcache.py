"""The cache of objects and changes."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.serve.server.change_ring import ExpiredError
from podsched.serve.server.entries import Entry
from podsched.serve.server.watchcache import Derived, WatchCache, WrittenNotes
from podsched.serve.store.protocol import EventType, KeyValue, WatchBatch, WatchEvent
from podsched.v1.api_pb2 import ADDED, DELETED, MODIFIED
from support.api_objects import pod

POD = KINDS["Pod"]


def put(name: str, revision: int) -> WatchEvent:
    value = pod(name).SerializeToString()
    key = object_key(POD, f"default/{name}")
    return WatchEvent(EventType.PUT, KeyValue(key, value, revision, revision, 1))


def removal(name: str, revision: int) -> WatchEvent:
    key = object_key(POD, f"default/{name}")
    return WatchEvent(EventType.DELETE, KeyValue(key, b"", 0, revision, 0))


def batch(*events: WatchEvent) -> WatchBatch:
    return WatchBatch(events[-1].kv.mod_revision, events)


@pytest.fixture
def cache() -> WatchCache:
    cache = WatchCache(max_events=10, max_bytes=1 << 20)
    cache.load([], 1)
    return cache


def test_a_change_is_typed_by_what_was_there(cache: WatchCache) -> None:
    """The first put adds, the second modifies, a delete deletes with the last state."""
    cache.apply(batch(put("a", 2), put("a", 3), removal("a", 4)))
    changes = cache.ring.changes_from(cache.ring.position_after(1), 100)
    assert [c.type for c in changes] == [ADDED, MODIFIED, DELETED]
    assert changes[2].old is not None and changes[2].old.key == "default/a"
    assert not cache.objects(POD)


def test_objects_are_listed_in_the_order_of_their_keys(cache: WatchCache) -> None:
    """Sorted by key, whatever the order of arrival; an earlier list does not change."""
    cache.apply(batch(put("b", 2), put("a", 3)))
    before = cache.in_order(POD)
    cache.apply(batch(put("0", 4)))
    assert [e.key for e in before] == ["default/a", "default/b"]
    assert [e.key for e in cache.in_order(POD)] == ["default/0", "default/a", "default/b"]


def test_what_is_derived_from_objects_is_computed_again_after_a_restore(cache: WatchCache) -> None:
    """Also if the next change then has the revision of the last one before."""
    names = Derived(cache, lambda: [*cache.objects(POD)], POD)
    cache.apply(batch(put("a", 7)))
    assert names() == ["default/a"]
    cache.load([], 5)
    cache.apply(batch(put("b", 7)))
    assert names() == ["default/b"]


def test_a_revision_is_never_split(cache: WatchCache) -> None:
    """A limit within a revision is stretched to its end."""
    cache.apply(batch(put("a", 2), put("b", 2), put("c", 2), put("d", 3)))
    changes = cache.ring.changes_from(cache.ring.position_after(1), 1)
    assert [c.revision for c in changes] == [2, 2, 2]


def test_what_has_left_the_ring_is_expired(cache: WatchCache) -> None:
    """The oldest changes go by whole revisions; who needs them is told to list again."""
    for revision in range(2, 30):
        cache.apply(batch(put(f"a{revision}", revision), put(f"b{revision}", revision)))
    assert cache.ring.floor > 2
    with pytest.raises(ExpiredError):
        cache.ring.position_after(cache.ring.floor - 1)
    kept = cache.ring.changes_from(cache.ring.position_after(cache.ring.floor), 100)
    assert kept[0].revision == cache.ring.floor + 1
    assert len(kept) <= 10
    assert len(kept) % 2 == 0


def test_the_ring_is_bounded_in_bytes() -> None:
    """Large events push out old ones before their number does."""
    cache = WatchCache(max_events=1000, max_bytes=2000)
    cache.load([], 1)
    for revision in range(2, 50):
        cache.apply(batch(put(f"a{revision}", revision)))
    kept = cache.ring.changes_from(cache.ring.position_after(cache.ring.floor), 1000)
    assert 0 < sum(len(c.frame) for c in kept) <= 2000


def test_a_large_object_that_was_replaced_is_kept_undecoded(cache: WatchCache) -> None:
    """Its fields would take ten times the bytes that the ring counts."""
    large = pod("a")
    large.metadata.annotations["padding"] = "x" * 10_000
    cache.load([Entry(POD, "default/a", large.SerializeToString(), 2, 2)], 2)
    before = cache.objects(POD)["default/a"].message
    cache.apply(batch(put("a", 3)))
    (change,) = cache.ring.changes_from(cache.ring.position_after(2), 10)
    assert change.old is not None
    assert change.old.message == before
    assert change.old.message is not before


def test_a_position_from_before_a_reload_is_expired(cache: WatchCache) -> None:
    """After loading anew no watch goes on as if nothing had been missed."""
    cache.apply(batch(put("a", 2)))
    position = cache.ring.end
    cache.load([Entry(POD, "default/z", pod("z").SerializeToString(), 8, 8)], 9)
    with pytest.raises(ExpiredError):
        cache.ring.changes_from(position, 10)
    assert list(cache.objects(POD)) == ["default/z"]
    assert cache.ring.position_after(9) == cache.ring.end


async def test_a_wait_for_a_revision_ends_when_it_arrives(cache: WatchCache) -> None:
    """Not before it, and also by an empty batch."""
    waiting = asyncio.ensure_future(cache.progress.wait_for(5))
    cache.apply(batch(put("a", 4)))
    await asyncio.sleep(0)
    assert not waiting.done()
    cache.apply(WatchBatch(6, ()))
    await waiting


def test_a_follower_is_told_of_each_change_of_its_kind() -> None:
    cache = WatchCache(max_events=10, max_bytes=1 << 20)
    told: list[tuple[str, bool]] = []
    cache.follow(POD, lambda key, entry: told.append((key, entry is not None)))
    cache.load([], 1)
    cache.apply(batch(put("a", 2), put("a", 3), removal("a", 4), removal("a", 5)))
    assert told == [("default/a", True), ("default/a", True), ("default/a", False)]


def test_a_follower_is_told_of_everything_again_when_the_cache_is_loaded() -> None:
    cache = WatchCache(max_events=10, max_bytes=1 << 20)
    present: set[str] = set()

    def changed(key: str, entry: Entry | None) -> None:
        present.discard(key) if entry is None else present.add(key)

    cache.follow(POD, changed)
    cache.load([], 1)
    cache.apply(batch(put("a", 2)))
    other = Entry.of(put("b", 3).kv)
    assert other is not None
    cache.load([other], 3)
    assert present == {"default/b"}


def test_the_notes_of_writes_that_fail_have_a_limit_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A note shows in that its bytes are not checked: these could not be decoded."""
    monkeypatch.setattr("podsched.serve.server.watchcache._MAX_WRITTEN_BYTES", 100)
    notes = WrittenNotes()
    for name, size in (("a", 40), ("b", 40), ("c", 40)):
        notes.note(POD, name, b"\xff" * size)
    assert not notes.is_readable(Entry(POD, "a", b"\xff" * 40, 1, 1))
    assert notes.is_readable(Entry(POD, "c", b"\xff" * 40, 1, 1))
