"""Which writes form a group, and what their callers are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.serve.store.errors import Closed, MaybeApplied, NoSpace, StoreError, TooLarge
from podsched.serve.store.groupcommit import (
    MOST_OVERDUE,
    OVERDUE,
    Commit,
    GroupCommit,
    GroupLimits,
    GroupQueue,
    Member,
    Pace,
)
from podsched.serve.store.protocol import Compare, Delete, Put, Write, WriteResult
from support.eventually import PATIENCE


def write(written: str = "", compared: str = "") -> Write:
    """A write of one-letter keys."""
    return Write([Compare.exists(key) for key in compared], [Put(key, b"") for key in written])


def member(of: Write, size: int = 1) -> Member:
    compared, written = [c.key for c in of.compares], [op.key for op in of.ops]
    width = max(len(compared), len(written), 1)
    return Member(of, bytes(size), compared, written, width, None, 0)  # type: ignore[arg-type]


def groups(writes: Sequence[Write], limits: GroupLimits | None = None) -> list[list[Write]]:
    """All groups that the queue makes of the writes."""
    queue = GroupQueue(limits or GroupLimits())
    for each in writes:
        queue.add(member(each))
    taken = []
    while group := queue.take():
        taken.append([m.write for m in group])
    return taken


def shapes(taken: list[list[Write]]) -> list[list[str]]:
    return [["".join(op.key for op in w.ops) for w in group] for group in taken]


def test_writes_of_different_keys_share_a_group_even_if_they_compare_the_same_key() -> None:
    assert shapes(groups([write("a", "af"), write("b", "bf")])) == [["a", "b"]]


def test_a_key_is_written_once_a_group() -> None:
    assert shapes(groups([write("a"), write("a"), write("b")])) == [["a", "b"], ["a"]]


def test_a_write_that_compares_what_an_earlier_one_writes_waits_for_it() -> None:
    assert shapes(groups([write("a"), write("b", "a")])) == [["a"], ["b"]]


def test_a_write_of_what_an_earlier_one_compares_waits_for_it() -> None:
    assert shapes(groups([write("b", "a"), write("a")])) == [["b"], ["a"]]


def test_no_write_overtakes_a_held_back_one_of_the_same_key() -> None:
    held = write("ab")
    assert shapes(groups([write("a"), held, write("b"), write("c")])) == [
        ["a", "c"],
        ["ab"],
        ["b"],
    ]


def test_a_group_leaves_room_for_its_widest_write_under_max_txn_ops() -> None:
    limits = GroupLimits(max_writes=120, max_txn_ops=10)
    narrow = [write(chr(n)) for n in range(97, 117)]
    assert [len(g) for g in groups(narrow, limits)] == [9, 9, 2]
    first, *_ = groups([write("012345"), *narrow], limits)
    assert len(first) == 4


def test_a_wide_write_does_not_join_a_group_that_is_too_long_for_it() -> None:
    limits = GroupLimits(max_txn_ops=10)
    writes = [write("a"), write("b"), write("c"), write("d"), write("efghijkl")]
    assert [len(g) for g in groups(writes, limits)] == [4, 1]


def test_a_group_stays_below_max_bytes_but_a_larger_write_goes_alone() -> None:
    queue = GroupQueue(GroupLimits(max_bytes=100))
    for key, size in (("a", 60), ("b", 40), ("c", 1), ("d", 500), ("e", 1)):
        queue.add(member(write(key), size))
    taken = []
    while group := queue.take():
        taken.append("".join(m.written[0] for m in group))
    assert taken == ["ab", "c", "d", "e"]


@given(
    st.lists(
        st.builds(
            lambda w, c: write("".join(sorted(w)), "".join(sorted(c))),
            st.sets(st.sampled_from("abcd"), max_size=3),
            st.sets(st.sampled_from("abcd"), max_size=3),
        ),
        max_size=25,
    ),
    st.integers(1, 4),
)
def test_groups_equal_the_writes_done_one_by_one(writes: list[Write], most: int) -> None:
    """Versions of all keys, as each write finds them, do not depend on the grouping."""
    taken = groups(writes, GroupLimits(max_writes=most))
    assert sorted(id(w) for group in taken for w in group) == sorted(id(w) for w in writes)
    one_by_one = _observations([[w] for w in writes])
    assert _observations(taken) == one_by_one


def _observations(taken: list[list[Write]]) -> dict[int, list[int]]:
    """What each write sees of the keys it touches; a group sees the state before it."""
    versions: dict[str, int] = {}
    seen = {}
    for group in taken:
        before = dict(versions)
        for each in group:
            keys = [c.key for c in each.compares] + [op.key for op in each.ops]
            seen[id(each)] = [before.get(key, 0) for key in keys]
            for op in each.ops:
                versions[op.key] = versions.get(op.key, 0) + 1
    return seen


class Etcd:
    """A commit that can be held, and that fails as it is told."""

    def __init__(self) -> None:
        self.groups: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self.held: list[asyncio.Event] = []
        self.asked = asyncio.Event()
        self.refuse: Callable[[str], StoreError | None] = lambda keys: None

    async def commit(self, group: Sequence[Member]) -> list[WriteResult]:
        keys = "".join(m.written[0] for m in group)
        self.groups.append(keys)
        self.asked.set()
        go = self.go
        await go.wait()
        fault = self.refuse(keys)
        if fault:
            raise fault
        return [WriteResult(True, len(self.groups), {}) for _ in group]


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


@pytest.fixture
async def commits(etcd: Etcd) -> AsyncIterator[GroupCommit]:
    driver = _driver(etcd.commit)
    yield driver
    await driver.close()


def _driver(commit: Commit) -> GroupCommit:
    return GroupCommit(commit, lambda w: b"-", GroupLimits())


async def test_writes_gather_while_a_group_is_in_flight(etcd: Etcd, commits: GroupCommit) -> None:
    etcd.go.clear()
    futures = [commits.submit((write("a"),))]
    await etcd.asked.wait()
    futures += [commits.submit((write(key),)) for key in "bcd"]
    etcd.go.set()
    await asyncio.gather(*futures)
    assert etcd.groups == ["a", "bcd"]


async def test_writes_submitted_in_one_go_share_the_first_group(
    etcd: Etcd, commits: GroupCommit
) -> None:
    await asyncio.gather(*[commits.submit((write(key),)) for key in "abc"])
    assert etcd.groups == ["abc"]


async def test_a_lost_answer_is_reported_to_every_caller_of_the_group(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.refuse = lambda keys: MaybeApplied("lost")
    outcomes = await commits.submit([write("a"), write("b")])
    assert [type(o) for o in outcomes] == [MaybeApplied, MaybeApplied]
    assert etcd.groups == ["ab"], "an unknown outcome is not repeated"


async def test_a_refused_group_is_halved_until_only_the_culprit_fails(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.refuse = lambda keys: TooLarge("too large") if "c" in keys else None
    outcomes = await commits.submit([write(key) for key in "abcd"])
    assert [isinstance(o, TooLarge) for o in outcomes] == [False, False, True, False]
    assert etcd.groups == ["abcd", "ab", "cd", "c", "d"]


async def test_of_a_group_without_space_the_deletions_are_done(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.refuse = lambda keys: NoSpace("full") if "a" in keys else None
    gone = Write((), [Delete("b")])
    outcomes = await commits.submit([write("a"), gone, write("c")])
    assert [isinstance(o, NoSpace) for o in outcomes] == [True, False, True]
    assert etcd.groups == ["abc", "b"]


async def test_a_group_of_deletions_without_space_is_not_repeated(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.refuse = lambda keys: NoSpace("full")
    outcomes = await commits.submit([Write((), [Delete(key)]) for key in "ab"])
    assert [type(o) for o in outcomes] == [NoSpace, NoSpace]
    assert etcd.groups == ["ab"]


async def test_a_cancelled_caller_does_not_disturb_its_group(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.go.clear()
    lost, kept = commits.submit((write("a"),)), commits.submit((write("b"),))
    await etcd.asked.wait()
    lost.cancel()
    etcd.go.set()
    assert isinstance((await kept)[0], WriteResult)


async def test_closing_tells_queued_writes_from_those_in_flight(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.go.clear()
    in_flight = commits.submit((write("a"),))
    await etcd.asked.wait()
    queued = commits.submit((write("b"),))
    await commits.close()
    late = commits.submit((write("c"),))
    assert [type((await f)[0]) for f in (in_flight, queued, late)] == [MaybeApplied, Closed, Closed]


async def test_closing_while_a_refused_group_is_halved_leaves_no_caller_waiting() -> None:
    halved = asyncio.Event()

    async def commit(group: Sequence[Member]) -> list[WriteResult]:
        if len(group) > 1:
            raise TooLarge("too large")
        halved.set()
        return await asyncio.get_running_loop().create_future()

    driver = _driver(commit)
    waiting = driver.submit([write("a"), write("b")])
    await halved.wait()
    await driver.close()
    async with asyncio.timeout(PATIENCE):
        assert [type(o) for o in await waiting] == [MaybeApplied, MaybeApplied]


async def test_a_bug_in_the_commit_leaves_no_caller_waiting() -> None:
    async def broken(group: Sequence[Member]) -> list[WriteResult]:
        raise ZeroDivisionError

    driver = _driver(broken)
    outcomes = await driver.submit([write("a"), write("a")])
    assert [type(o) for o in outcomes] == [MaybeApplied, Closed]
    await driver.close()


async def test_a_bug_in_the_commit_is_raised_to_those_who_wait_for_the_driver() -> None:
    async def broken(group: Sequence[Member]) -> list[WriteResult | StoreError]:
        raise ZeroDivisionError

    commits = GroupCommit(broken, lambda _: b"", GroupLimits())
    waiting = asyncio.create_task(commits.wait())
    await commits.submit([write("a")])
    with pytest.raises(ZeroDivisionError):
        await waiting
    await commits.close()


async def test_closing_ends_the_wait_for_the_driver(commits: GroupCommit) -> None:
    waiting = asyncio.create_task(commits.wait())
    await asyncio.sleep(0)
    await commits.close()
    await waiting


# ---------------------------------------------------------------------- gathering


def paced(writes_a_second: float, seconds: float = 1.0) -> tuple[Pace, float]:
    """A pace after writes that went alone, evenly; and when that is."""
    pace = Pace()
    for number in range(int(writes_a_second * seconds)):
        pace.sent(1, number / writes_a_second)
    return pace, seconds


def test_writes_of_a_hundred_pods_a_second_wait_for_nothing() -> None:
    pace, now = paced(300)
    assert pace.pause(now) == 0


def test_the_more_is_written_the_longer_a_group_gathers_up_to_twelve_milliseconds() -> None:
    pauses = [pace.pause(now) for pace, now in map(paced, (700, 1000, 1300, 10_000))]
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[1] < pauses[2] <= 0.012
    assert pauses[3] == pytest.approx(0.012, abs=2e-4)


def test_a_group_that_begins_long_after_the_last_one_gathers_for_half_an_interval() -> None:
    pace, now = paced(10_000)
    assert pace.pause(now + 0.02) == pytest.approx(0.006)


def test_what_was_written_a_third_of_a_second_ago_holds_up_nothing() -> None:
    pace, now = paced(5000)
    assert pace.pause(now + 0.33) == 0


@pytest.mark.looptime
async def test_while_much_is_written_writes_gather_that_come_one_after_the_other(
    etcd: Etcd, commits: GroupCommit
) -> None:
    await commits.submit([write(chr(200 + n)) for n in range(100)])
    futures = []
    for key in "abc":
        futures.append(commits.submit((write(key),)))
        await asyncio.sleep(0.001)
    await asyncio.gather(*futures)
    assert etcd.groups[1:] == ["abc"]


@pytest.mark.looptime
async def test_a_full_group_gathers_no_longer(etcd: Etcd, commits: GroupCommit) -> None:
    loop = asyncio.get_running_loop()
    await commits.submit([write(chr(200 + n)) for n in range(100)])
    began = loop.time()
    await commits.submit([write(chr(200 + n)) for n in range(GroupLimits().max_writes)])
    assert loop.time() == began


@pytest.mark.looptime
async def test_closing_ends_a_group_that_gathers(etcd: Etcd, commits: GroupCommit) -> None:
    await commits.submit([write(chr(200 + n)) for n in range(100)])
    gathering = commits.submit((write("a"),))
    await asyncio.sleep(0)
    await commits.close()
    assert [type(outcome) for outcome in await gathering] == [Closed]


# ---------------------------------------------------------------------- overdue groups


async def lasting(etcd: Etcd, commits: GroupCommit, key: str) -> asyncio.Future[list[Any]]:
    """A write whose group is in flight, and overdue, until it is told to go on."""
    etcd.go.clear()
    future = commits.submit((write(key),))
    await etcd.asked.wait()
    held, etcd.go = etcd.go, asyncio.Event()
    etcd.go.set()
    etcd.held.append(held)
    await asyncio.sleep(OVERDUE + 0.01)
    return future


@pytest.mark.looptime
async def test_a_group_that_takes_long_does_not_stop_writes_of_other_keys(
    etcd: Etcd, commits: GroupCommit
) -> None:
    overdue = await lasting(etcd, commits, "a")
    again = commits.submit((write("a"),))
    reads = commits.submit((write("b", "a"),))
    assert isinstance((await commits.submit((write("c"),)))[0], WriteResult)
    assert etcd.groups == ["a", "c"]
    assert not overdue.done()
    etcd.held[0].set()
    await asyncio.gather(overdue, again, reads)
    assert etcd.groups == ["a", "c", "a", "b"]


@pytest.mark.looptime
async def test_within_its_time_a_group_holds_up_all_others(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.go.clear()
    futures = [commits.submit((write("a"),))]
    await etcd.asked.wait()
    futures.append(commits.submit((write("b"),)))
    await asyncio.sleep(OVERDUE - 0.01)
    assert etcd.groups == ["a"]
    etcd.go.set()
    await asyncio.gather(*futures)


@pytest.mark.looptime
async def test_an_etcd_that_answers_nothing_gets_no_more_than_a_few_groups(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.go.clear()
    futures = []
    for key in "abcdefgh":
        futures.append(commits.submit((write(key),)))
        await asyncio.sleep(4 * OVERDUE)
    assert etcd.groups == list("abcde")
    assert MOST_OVERDUE == 4
    etcd.go.set()
    await asyncio.gather(*futures)
    assert sorted("".join(etcd.groups)) == list("abcdefgh")


@pytest.mark.looptime
async def test_a_write_gets_through_soon_after_etcd_has_another_leader() -> None:
    """What is sent before is lost: it gets no answer, and fails when the request times out."""
    loop = asyncio.get_running_loop()
    elected, times_out = loop.time() + 1.5, 5.0

    async def commit(group: Sequence[Member]) -> list[WriteResult]:
        if loop.time() < elected:
            await asyncio.sleep(times_out)
            raise MaybeApplied("etcd: Deadline Exceeded")
        return [WriteResult(True, 1, {}) for _ in group]

    commits = _driver(commit)
    futures = []
    for key in "abcdefgh":
        futures.append(commits.submit((write(key),)))
        await asyncio.sleep(OVERDUE)
    assert isinstance((await futures[-1])[0], WriteResult)
    assert loop.time() <= elected + 0.5
    await commits.close()


@pytest.mark.looptime
async def test_when_etcd_elects_a_leader_groups_in_flight_hold_up_no_others(
    etcd: Etcd, commits: GroupCommit
) -> None:
    etcd.go.clear()
    futures = []
    for key in "abcdefgh":
        futures.append(commits.submit((write(key),)))
        await asyncio.sleep(4 * OVERDUE)
    assert etcd.groups == list("abcde")
    lost, etcd.go = etcd.go, asyncio.Event()
    etcd.go.set()
    commits.elects()
    assert isinstance((await commits.submit((write("i"),)))[0], WriteResult)
    again = commits.submit((write("a"),))
    await asyncio.sleep(1)
    assert "".join(etcd.groups) == "abcdefghi"
    assert not any(future.done() for future in (*futures[:5], again))
    lost.set()
    await asyncio.gather(*futures, again)
    assert etcd.groups[-1] == "a"


@pytest.mark.looptime
async def test_closing_tells_overdue_writes_that_they_may_have_been_done(
    etcd: Etcd, commits: GroupCommit
) -> None:
    overdue = await lasting(etcd, commits, "a")
    held_back = commits.submit((write("a"),))
    await commits.close()
    assert [type((await f)[0]) for f in (overdue, held_back)] == [MaybeApplied, Closed]
