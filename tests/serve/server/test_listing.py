"""Lists: selectors, pages, one revision, and what another server has just written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.reasons import StatusCode
from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.flows import Flow
from podsched.serve.server.fairness.gate import Gate
from podsched.serve.server.fairness.intake import Intake
from podsched.serve.server.fairness.levels import schema_of
from podsched.serve.server.fairness.turns import Seat, set_seat
from podsched.serve.server.listing import Page
from podsched.serve.store.protocol import GetResult, Put, RangeResult, Write
from podsched.v1 import api_pb2 as v1
from support.api_objects import binding, node, pod
from support.api_world import World

ALICE = Identity("alice", frozenset(), Authentication.CERTIFICATE)


async def listed(world: World, token: str = "", **fields: object) -> Page:
    request = v1.ListRequest(kind="Pod", **fields)  # type: ignore[arg-type]
    setattr(request, "continue", token)
    return await world.core.lister.page(request)


def keys(page: Page) -> list[str]:
    return [entry.key.removeprefix("default/") for entry in page.entries]


async def test_a_list_sees_what_another_server_has_just_written(world: World) -> None:
    """The write has been answered, so the list has it, though the watch may lag."""
    other = await world.another()
    for number in range(5):
        await other.creator.create(pod(f"p{number}"))
        assert len((await listed(world)).entries) == number + 1


async def test_a_list_is_not_held_up_by_keys_it_does_not_watch(world: World) -> None:
    """etcd's revision moves for others' keys too; the cache does not wait for ever."""
    await world.core.creator.create(pod("a"))
    await world.store.write(Write((), (Put("/elsewhere/x", b""),)))
    assert keys(await listed(world)) == ["a"]


async def test_selectors_choose(world: World) -> None:
    """By label, field and namespace."""
    await world.core.creator.create_many(
        [pod("a", app="x"), pod("b", app="y"), pod("c", app="x"), pod("d", "other", app="x")]
    )
    await world.core.pods.bind([binding("a", "worker-1")], None)
    assert keys(await listed(world, label_selector="app=x", namespace="default")) == ["a", "c"]
    assert keys(await listed(world, label_selector="app in (x,y)", namespace="other")) == [
        "other/d"
    ]
    assert keys(await listed(world, field_selector="spec.nodeName=worker-1")) == ["a"]
    assert keys(await listed(world, field_selector="spec.nodeName!=node-1,metadata.name=c")) == [
        "c"
    ]


async def test_pages_show_one_revision(world: World) -> None:
    """What changes between two pages does not show in the later ones."""
    await world.core.creator.create_many([pod(f"p{n}") for n in range(5)])
    first = await listed(world, limit=2)
    assert keys(first) == ["p0", "p1"]
    assert first.remaining == 3
    await world.core.deleter.delete(v1.DeleteRequest(kind="Pod", name="p3"))
    await world.core.creator.create(pod("p9"))
    second = await listed(world, limit=2, token=first.token)
    third = await listed(world, limit=2, token=second.token)
    assert keys(second) + keys(third) == ["p2", "p3", "p4"]
    assert (second.revision, third.revision, third.token) == (first.revision, first.revision, "")


async def test_pages_of_a_quiet_kind_come_from_memory(world: World) -> None:
    """Compaction does no harm while nothing of the kind has changed."""
    await world.core.creator.create_many([pod(f"p{n}") for n in range(3)])
    first = await listed(world, limit=2)
    await world.core.creator.create(node())
    await world.store.compact((await world.store.status()).revision)
    assert keys(await listed(world, limit=2, token=first.token)) == ["p2"]


async def test_a_list_of_a_former_state_is_decoded_in_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.core.creator.create_many([pod(f"p{n:03}") for n in range(240)])
    first = await listed(world, limit=2)
    await world.core.creator.create(pod("p999"))
    await world.core.reflector.wait_until_fresh()
    decoded, is_readable = [0], Entry.is_readable

    class Busy(Seat):
        """A seat whose turns end at once."""

        turn = -1.0

        def __init__(self) -> None:
            self.flow = Flow("alice", schema_of(ALICE), 0.0)

        def charge(self, seconds: float) -> None:
            pass

        async def give_way(self) -> None:
            decoded.append(0)

    def counted(entry: Entry) -> bool:
        decoded[-1] += 1
        return is_readable(entry)

    monkeypatch.setattr(Entry, "is_readable", counted)
    set_seat(Busy())
    page = await listed(world, label_selector="no=1", token=first.token)
    assert keys(page) == []
    assert (decoded[0], sum(decoded)) == (0, 238)
    assert max(decoded) <= 100


async def test_former_states_are_read_for_one_list_of_a_client_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read may be hundreds of large objects."""
    await world.core.creator.create_many([pod(f"p{n}") for n in range(3)])
    first = await listed(world, limit=2)
    await world.core.creator.create(pod("p9"))
    await world.core.reflector.wait_until_fresh()
    reading, at_once, from_store = 0, [0], world.store.range

    async def counted(*args: Any, **options: Any) -> RangeResult:
        nonlocal reading
        reading += 1
        at_once.append(reading)
        await asyncio.sleep(0)
        reading -= 1
        return await from_store(*args, **options)

    monkeypatch.setattr(world.store, "range", counted)
    seat = await Gate().enter(ALICE, "peer", "List", 0)
    seat.flow.intake = Intake()
    set_seat(seat)
    pages = await asyncio.gather(*(listed(world, limit=2, token=first.token) for _ in range(5)))
    assert [keys(page) for page in pages] == [["p2"]] * 5
    assert max(at_once) == 1


async def test_an_expired_token_says_so(world: World) -> None:
    """OUT_OF_RANGE: list again."""
    await world.core.creator.create_many([pod(f"p{n}") for n in range(3)])
    first = await listed(world, limit=2)
    await world.core.creator.create(pod("p9"))
    await world.core.reflector.wait_until_fresh()
    await world.store.compact((await world.store.status()).revision)
    with pytest.raises(ApiError) as refused:
        await listed(world, limit=2, token=first.token)
    assert refused.value.code is StatusCode.OUT_OF_RANGE


async def test_a_selection_is_paged_too(world: World) -> None:
    """A page counts what matches."""
    await world.core.creator.create_many([pod(f"p{n}", odd=str(n % 2)) for n in range(6)])
    first = await listed(world, limit=2, label_selector="odd=1")
    assert keys(first) == ["p1", "p3"]
    assert keys(await listed(world, limit=2, label_selector="odd=1", token=first.token)) == ["p5"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"label_selector": "a in ("}, "labelSelector"),
        ({"field_selector": "spec.nothing=1"}, "fieldSelector"),
        ({"limit": -1}, "limit"),
        ({"token": "!!"}, "continue"),
    ],
)
async def test_a_list_that_cannot_be_understood_is_refused(
    world: World, fields: dict[str, object], field: str
) -> None:
    """INVALID_ARGUMENT with the field."""
    with pytest.raises(ApiError) as refused:
        await listed(world, **fields)  # type: ignore[arg-type]
    assert refused.value.code is StatusCode.INVALID_ARGUMENT
    assert refused.value.violations[0].field == field


async def test_reads_that_wait_together_share_a_question(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred lists that arrive while etcd is being asked cost one question more."""
    asked: list[str] = []
    answer = asyncio.Event()
    get = world.store.get

    async def slow(key: str) -> GetResult:
        asked.append(key)
        await answer.wait()
        return await get(key)

    monkeypatch.setattr(world.store, "get", slow)
    lists = [asyncio.ensure_future(listed(world))]
    for _ in range(100):
        await asyncio.sleep(0)
        lists.append(asyncio.ensure_future(listed(world)))
    answer.set()
    await asyncio.gather(*lists)
    assert len(asked) == 2
