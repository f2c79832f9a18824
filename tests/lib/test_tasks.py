"""Tasks that have an owner: what fails is raised, and nothing outlives its set."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from podsched.lib.tasks import TaskSet, in_background, task_group

pytestmark = pytest.mark.looptime


async def fail_after(seconds: float, error: Exception) -> NoReturn:
    await asyncio.sleep(seconds)
    raise error


async def slow_to_leave(ended: list[str]) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(1)
        ended.append("slow")


async def test_the_first_failure_is_raised_with_the_names_of_task_and_owner() -> None:
    tasks = TaskSet("the term")
    tasks.start(fail_after(1, ValueError("first")), "one")
    tasks.start(fail_after(2, ValueError("second")), "two")
    with pytest.raises(ValueError, match="first") as raised:
        await tasks.run()
    assert raised.value.__notes__ == ['in task "one" of the term']


async def test_a_failure_ends_all_other_tasks_before_it_is_raised() -> None:
    tasks = TaskSet("the term")
    ended: list[str] = []

    tasks.start(slow_to_leave(ended), "slow")
    tasks.start(fail_after(1, ValueError()), "one")
    with pytest.raises(ValueError):
        await tasks.run()
    assert ended == ["slow"]
    assert len(tasks) == 0


async def test_a_task_that_returns_or_is_cancelled_by_its_owner_is_no_failure() -> None:
    tasks = TaskSet("the term")
    tasks.start(asyncio.sleep(1), "short")
    tasks.start(asyncio.sleep(60), "cancelled").cancel()
    running = asyncio.create_task(tasks.run())
    await asyncio.sleep(2)
    assert len(tasks) == 0
    assert not running.done()
    running.cancel()


async def test_an_endless_task_that_returns_is_a_failure() -> None:
    tasks = TaskSet("the term")
    tasks.start(asyncio.sleep(1), "loop", endless=True)
    with pytest.raises(RuntimeError, match="never should"):
        await tasks.run()


async def test_the_owner_hears_of_each_end_even_of_a_task_that_never_began() -> None:
    tasks = TaskSet("the term")
    heard: list[str] = []
    never = tasks.start(asyncio.sleep(60), "never", ended=lambda t: heard.append(t.get_name()))
    never.cancel()
    tasks.start(asyncio.sleep(1), "short", ended=lambda t: heard.append(t.get_name()))
    await asyncio.sleep(2)
    assert heard == ["never", "short"]


async def test_what_the_owner_raises_when_a_task_ends_is_not_lost() -> None:
    tasks = TaskSet("the term")

    def ended(task: asyncio.Task[None]) -> None:
        raise ValueError("a bug of the owner's")

    tasks.start(asyncio.sleep(1), "short", ended=ended)
    with pytest.raises(ValueError, match="of the owner's"):
        await tasks.run()


async def test_the_owner_may_end_the_set_for_a_reason_of_its_own() -> None:
    tasks = TaskSet("the term")
    forever = tasks.start(asyncio.sleep(60), "forever")
    tasks.fail(KeyError("over"))
    tasks.fail(ValueError("too late"))
    with pytest.raises(KeyError):
        await tasks.run()
    assert forever.cancelled()


async def test_a_set_may_be_ended_without_a_failure() -> None:
    tasks = TaskSet("the term")
    forever = tasks.start(asyncio.sleep(60), "forever")
    tasks.end()
    await tasks.run()
    assert forever.cancelled()


async def test_a_failure_on_the_way_out_is_raised() -> None:
    tasks = TaskSet("the term")

    async def fail_when_cancelled() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("on the way out")

    tasks.start(fail_when_cancelled(), "one")
    await asyncio.sleep(0)
    tasks.end()
    with pytest.raises(ValueError, match="on the way out"):
        await tasks.run()


async def test_a_set_ends_while_a_finished_task_has_not_been_collected_yet() -> None:
    tasks = TaskSet("the term")
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await outcome

    task = tasks.start(wait(), "one")
    await asyncio.sleep(0)
    outcome.set_result(None)
    await asyncio.sleep(0)
    assert task.done() and len(tasks) == 1
    await tasks.stop()
    assert len(tasks) == 0


async def test_tasks_end_when_their_owner_is_cancelled() -> None:
    tasks = TaskSet("the term")
    forever = tasks.start(asyncio.sleep(60), "forever")
    running = asyncio.create_task(tasks.run())
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert forever.cancelled()


async def test_nothing_is_started_in_a_set_that_has_ended() -> None:
    tasks = TaskSet("the term")
    await tasks.stop()
    with pytest.raises(RuntimeError, match="the term has ended"):
        tasks.start(asyncio.sleep(60), "late")


async def test_a_group_of_tasks_fails_with_what_failed_first_and_not_with_a_group() -> None:
    with pytest.raises(ValueError, match="first"):
        async with task_group() as group:
            group.create_task(fail_after(1, ValueError("first")))
            group.create_task(fail_after(2, ValueError("second")))


async def test_a_task_in_the_background_ends_with_the_block_and_its_error_is_not_raised() -> None:
    ended: list[str] = []

    async with (
        in_background(slow_to_leave(ended), "slow"),
        in_background(fail_after(1, ValueError("dropped")), "failing") as failing,
    ):
        await asyncio.sleep(2)
        assert failing.done()
    assert ended == ["slow"]
