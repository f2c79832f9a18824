"""What browsers are sent, and that it costs nothing while no page is open."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from typing import Any

import orjson
import pytest

from podsched.ask.web import feed as feeds
from podsched.ask.web.details import find_pods, pod_group_details
from podsched.ask.web.feed import MOST_CLIENTS, RESET, TICK, Feed, TooManyBrowsersError
from support.page_changes import Browser
from support.page_world import START, World, leadership, node, pod

pytestmark = pytest.mark.looptime


def fed(world: World, encoded: list[str] | None = None) -> Feed:
    """A feed. encoded: gets an item each time that a state is encoded."""

    def about() -> dict[str, Any]:
        if encoded is not None:
            encoded.append("a state")
        return {"name": "test"}

    def wall() -> float:
        return START + asyncio.get_running_loop().time()

    def clock() -> float:
        return asyncio.get_running_loop().time()

    seen = leadership("a_00000001", 7, since=START)
    return Feed(world, lambda _: seen, about, wall=wall, clock=clock)


@pytest.fixture
def world() -> World:
    made = World()
    made.put(node("n0"))
    made.put(pod("p0"))
    return made


async def state_of(feed: Feed) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await feed.state()).plain)
    return found


def told(message: bytes) -> list[dict[str, Any]]:
    """The deltas in a message."""
    lines = message.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


async def following(feed: Feed, position: str, caller: str = "ann") -> AsyncGenerator[bytes, None]:
    """The messages after a position; the first, a sign of life, is taken."""
    messages = feed.deltas(position, caller)
    assert await anext(messages) == b": still here\n\n"
    return messages


async def test_nothing_is_followed_without_viewers(world: World) -> None:
    feed = fed(world)
    for _ in range(3):
        await feed.tick()
    assert not world.following and feed.board is None


async def test_a_state_has_all_that_the_page_shows(world: World) -> None:
    feed = fed(world)
    await feed.tick()
    snapshot = await feed.state()
    state = json.loads(snapshot.plain)
    assert world.following
    assert json.loads(gzip.decompress(snapshot.compressed)) == state
    assert state["nodes"] == [[0, "n0", 0, 0, 0]]
    assert state["totals"]["pending"] == 1
    assert state["leadership"]["leader"] == "a_00000001"
    assert state["terms"] == [["a_00000001", 7, START, 0.0]]
    assert state["samples"] == [[START]]


async def test_a_browser_that_applies_the_deltas_knows_the_later_state(world: World) -> None:
    feed = fed(world)
    state = await state_of(feed)
    browser = Browser(state)
    messages = await following(feed, state["id"])
    world.put(pod("p0", "n0"))
    world.put(node("n1"))
    await feed.tick()
    world.remove("Pod", "default/p0")
    await feed.tick()
    for delta in told(await anext(messages)):
        browser.apply(delta)
    assert browser.seen() == Browser(await state_of(feed)).seen()
    await messages.aclose()


async def test_all_browsers_get_the_same_state_between_two_ticks(world: World) -> None:
    feed = fed(world)
    assert await feed.state() is await feed.state()


async def test_requests_for_details_keep_the_board_without_a_state_being_encoded(
    world: World,
) -> None:
    encoded: list[str] = []
    feed = fed(world, encoded)
    board = await feed.followed()
    for _ in range(100):
        await asyncio.sleep(TICK)
        await feed.tick()
        assert await feed.followed() is board
    assert world.following
    assert not encoded


async def test_a_browser_that_comes_back_goes_on_where_it_was(world: World) -> None:
    feed = fed(world)
    state = await state_of(feed)
    for number in range(3):
        world.put(node(f"more-{number}"))
        await feed.tick()
    epoch = state["id"].partition("-")[0]
    messages = await following(feed, f"{epoch}-1")
    assert len(told(await anext(messages))) == 2
    await messages.aclose()


@pytest.mark.parametrize("position", ["", "nonsense", "{epoch}-99", "other-0", "{epoch}-x"])
async def test_a_browser_at_an_unknown_position_begins_anew(world: World, position: str) -> None:
    feed = fed(world)
    epoch = (await state_of(feed))["id"].partition("-")[0]
    messages = await following(feed, position.format(epoch=epoch))
    assert [message async for message in messages] == [RESET]


async def test_a_browser_that_lags_too_far_begins_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_KEPT_DELTAS", 2)
    feed = fed(world)
    state = await state_of(feed)
    messages = await following(feed, state["id"])
    for number in range(3):
        world.put(node(f"more-{number}"))
        await feed.tick()
    assert [message async for message in messages] == [RESET]


async def test_all_begin_anew_when_changes_were_missed(world: World) -> None:
    feed = fed(world)
    messages = await following(feed, (await state_of(feed))["id"])
    world.lost = True
    await feed.tick()
    assert [message async for message in messages] == [RESET]
    assert (await state_of(feed))["totals"]["nodes"] == 1


async def test_a_quiet_stream_says_that_it_stands(world: World) -> None:
    feed = fed(world)
    messages = await following(feed, (await state_of(feed))["id"])
    assert await anext(messages) == b": still here\n\n"
    await messages.aclose()


async def test_browsers_are_bounded(world: World) -> None:
    feed = fed(world)
    position = (await state_of(feed))["id"]
    streams = [await following(feed, position, str(i)) for i in range(MOST_CLIENTS)]
    with pytest.raises(TooManyBrowsersError):
        await anext(feed.deltas(position, "ann"))
    await streams.pop().aclose()
    await (await following(feed, position)).aclose()
    for stream in streams:
        await stream.aclose()


async def test_one_caller_leaves_room_for_the_browsers_of_others(world: World) -> None:
    feed = fed(world)
    position = (await state_of(feed))["id"]
    streams = [await following(feed, position) for _ in range(MOST_CLIENTS // 2)]
    with pytest.raises(TooManyBrowsersError):
        await anext(feed.deltas(position, "ann"))
    await (await following(feed, position, "bob")).aclose()
    await streams.pop().aclose()
    streams.append(await following(feed, position))
    for stream in streams:
        await stream.aclose()


async def test_following_ends_a_minute_after_the_last_browser(world: World) -> None:
    feed = fed(world)
    messages = await following(feed, (await state_of(feed))["id"])
    running = asyncio.create_task(feed.run())
    await asyncio.sleep(300)
    assert world.following, "somebody looks"
    await messages.aclose()
    await asyncio.sleep(50)
    assert world.following, "he may come back"
    await asyncio.sleep(20)
    assert not world.following
    assert (await state_of(feed))["totals"]["nodes"] == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_following_ends_with_a_browser_that_leaves_before_the_board_is_built(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        async def pause(self) -> None:
            await asyncio.sleep(1)

    monkeypatch.setattr(feeds, "Turn", Slow)
    feed = fed(world)
    opening = asyncio.create_task(feed.state())
    await asyncio.sleep(1.5)
    assert world.following and feed.board is None
    opening.cancel()
    await asyncio.sleep(0)
    await feed.tick()
    assert not world.following


async def test_requests_beyond_64_bits_do_not_end_the_page(world: World) -> None:
    """As the page's end would be that of the API server, or of the scheduler."""
    feed = fed(world)
    await state_of(feed)
    for number in range(3):
        world.put(pod(f"huge{number}", "n0", cpu="9223372036854775", group="g"))
    await feed.tick()
    [[_, _, _, _, _, cpu, _, pods]] = (await state_of(feed))["nodes"]
    assert (cpu, pods) == ((1 << 53) - 1, 3)
    board = await feed.followed()
    found = await find_pods(world, board, "g", "")
    assert orjson.dumps([found, pod_group_details(world, board, "default/g")])


async def test_changes_between_two_ticks_are_one_delta(world: World) -> None:
    feed = fed(world)
    messages = await following(feed, (await state_of(feed))["id"])
    for number in range(50):
        world.put(pod(f"p{number}", "n0"))
    await feed.tick()
    (delta,) = told(await anext(messages))
    assert delta["use"] == [[0, 50 * 500, 0, 50]]
    await messages.aclose()


async def test_samples_are_taken_every_five_seconds(world: World) -> None:
    feed = fed(world)
    running = asyncio.create_task(feed.run())
    await asyncio.sleep(20 + TICK / 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    times = [sample[0] - START for sample in (await state_of(feed))["samples"]]
    assert len(times) == 4 and times[1] - times[0] == 5
