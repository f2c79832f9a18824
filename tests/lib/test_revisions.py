from __future__ import annotations

import asyncio

from podsched.lib.revisions import RevisionWaiters


async def test_a_revision_wakes_those_who_wait_for_it_or_an_earlier_one() -> None:
    waiters, woken = RevisionWaiters(), []

    async def wait(revision: int) -> None:
        await waiters.wait_for(revision)
        woken.append(revision)

    async with asyncio.TaskGroup() as group:
        for revision in (7, 5, 5, 6):
            group.create_task(wait(revision))
        await asyncio.sleep(0)
        waiters.reached(4)
        await asyncio.sleep(0)
        assert woken == []
        waiters.reached(6)
        await asyncio.sleep(0)
        assert woken == [5, 5, 6]
        waiters.reached(8)
    assert woken == [5, 5, 6, 7]


async def test_one_who_gives_up_waiting_does_not_keep_the_others_from_waking() -> None:
    waiters = RevisionWaiters()
    impatient = asyncio.create_task(waiters.wait_for(5))
    patient = asyncio.create_task(waiters.wait_for(5))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    waiters.reached(5)
    await patient
    assert impatient.cancelled()


async def test_those_who_gave_up_waiting_for_a_far_revision_are_forgotten() -> None:
    waiters = RevisionWaiters()
    for _ in range(100):
        impatient = asyncio.create_task(waiters.wait_for(10**12))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
    assert len(waiters) < 20
