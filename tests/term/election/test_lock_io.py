"""What is logged of a lock that cannot be read."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from structlog.testing import capture_logs

from podsched.lib.tasks import TaskSet
from podsched.serve.store.errors import StoreError
from podsched.term.election.election_lock import ElectionLock
from podsched.term.election.lock_io import LockIO
from podsched.term.election.record import Snapshot

pytestmark = pytest.mark.looptime


class Away:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def read(self) -> Snapshot:
        if self.error is not None:
            raise self.error
        await asyncio.sleep(60)
        raise AssertionError


@pytest.mark.parametrize(
    ("error", "text"), [(None, "no answer in time"), (StoreError('no "lease"'), 'no "lease"')]
)
async def test_a_lock_that_cannot_be_read_is_reported_in_words(
    error: Exception | None, text: str
) -> None:
    tasks = TaskSet("election")
    io = LockIO(
        cast(ElectionLock, Away(error)),
        tasks,
        longest=2.0,
        shortest=1.0,
        post=lambda event: None,
        on_renewal=lambda outcome, seconds: None,
    )
    with capture_logs() as logs:
        io.read()
        await asyncio.sleep(3)
    assert [line["error"] for line in logs] == [text]
    await tasks.stop()
