"""What a client writes down of its calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podsched.lab.chaos import shapes
from podsched.lab.chaos.history import VERSION, World, load
from podsched.lab.chaos.recorder import Recorder
from podsched.lab.chaos.records import Begin, Call, Outcome
from podsched.lab.chaos.workload import Caller, LiveWorld
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, ClientError, OutcomeUnknown, Unavailable
from podsched.v1.api_pb2 import BatchResult


class Answering:
    """An API that answers every call in the same way."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def create_pods(self, pods: Any) -> Any:
        return await self._give()

    async def delete(self, *_: Any, **__: Any) -> Any:
        return await self._give()

    async def _give(self) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


async def calls(tmp_path: Path, answer: Any) -> list[Call]:
    """What is recorded of a creation of two pods and a deletion."""
    recorder = Recorder(tmp_path / "h")
    recorder.write(Begin(version=VERSION))
    live = cast(LiveWorld, SimpleNamespace(world=World(uids={"default/a": "u"})))
    caller = Caller("c", cast(ApiClient, Answering(answer)), recorder, live)
    try:
        await caller.create_pods([shapes.plain("a"), shapes.plain("b")])
        await caller.delete_pod("default/a", 0)
    finally:
        recorder.close()
    return load(tmp_path / "h").calls


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Unavailable("down"), Outcome.FAILED),
        (AlreadyExists("there"), Outcome.FAILED),
        (OutcomeUnknown("lost"), Outcome.UNKNOWN),
    ],
)
async def test_a_failed_call_is_told_from_one_whose_answer_was_lost(
    tmp_path: Path, answer: ClientError, outcome: Outcome
) -> None:
    found = await calls(tmp_path, answer)
    assert [(call.verb, call.key, call.uid) for call in found] == [
        ("create", "pods/default/a", ""),
        ("create", "pods/default/b", ""),
        ("delete", "pods/default/a", "u"),
    ]
    assert {call.outcome for call in found} == {outcome}
    assert found[0].error == f"{type(answer).__name__}: {answer}"


async def test_each_pod_of_a_batch_has_its_own_outcome(tmp_path: Path) -> None:
    answer = [BatchResult(resource_version=17), BatchResult(code=6, message="there")]
    first, second, _ = await calls(tmp_path, answer)
    assert (first.outcome, first.revision) == (Outcome.OK, 17)
    assert second.outcome is Outcome.FAILED


async def test_a_call_that_was_under_way_when_the_client_ended_may_have_been_done(
    tmp_path: Path,
) -> None:
    with pytest.raises(asyncio.CancelledError):
        await calls(tmp_path, asyncio.CancelledError())
    found = load(tmp_path / "h").calls
    assert [call.outcome for call in found] == [Outcome.UNKNOWN, Outcome.UNKNOWN]
