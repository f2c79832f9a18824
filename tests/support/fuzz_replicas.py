"""Who answers questions while a server is attacked: a replica, and those who pretend to be one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

import grpc

from podsched.app.answering import Answerer, Answering, answerer
from podsched.app.decision_answers import checkpoint_answerer, log_answerer
from podsched.app.explaining import Explaining
from podsched.app.reconfiguring import Reconfiguring
from podsched.app.term_runner import TermRunner
from podsched.ask.decisions.log import DecisionLog
from podsched.config.load import SchedulerConfiguration, default_config
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.cluster import InformerPort
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ConfigMetrics
from podsched.v1.scheduling_pb2 import Question, ReplicaState
from support.fuzz_requests import ANSWER, Fuzzer

#: Programs that pretend at the same time.
_MOST = 3
#: Seconds for which calls that one of them was asked for may still go on.
_AFTERWARDS = 5.0


def answering(
    address: str, runner: TermRunner, informer: InformerPort, decisions: DecisionLog, term: int
) -> Answering:
    """A leader's answers to all questions, as a replica gives them."""
    state = ReplicaState(name="replica-1", identity="replica-1", leading=True, term=term)

    async def apply(config: SchedulerConfiguration) -> None:
        await runner.reconfigure(config, None)

    reconfiguring = Reconfiguring(
        default_config(), apply, None, lambda: state, ConfigMetrics(MetricRegistry())
    )
    explaining = Explaining(
        lambda: runner.whole_state if informer.synced.is_set() else None,
        lambda: state,
        informer,
        decisions,
    )
    handlers: dict[str, Answerer] = {
        "explain": explaining.answer,
        "decisions": log_answerer(decisions),
        "apply_config": reconfiguring.answer,
        "checkpoint": checkpoint_answerer(runner.checkpoint),
    }
    return Answering([address], ClientOptions(), lambda: state, answerer(handlers))


class Pretenders:
    """Programs that say to be replicas, and what they answer when they are asked."""

    def __init__(self, channel: grpc.aio.Channel, fuzzer: Fuzzer) -> None:
        self._channel = channel
        self._fuzzer = fuzzer
        self._tasks: deque[asyncio.Task[None]] = deque()
        #: Monotonic seconds until which a call may have to do with one of them.
        self.last_seen = -1.0
        self.answered = 0

    async def add(self, raw: bytes) -> tuple[str, str]:
        """Open a stream and say something; return the status if it has ended, else OK."""
        call = self._channel.stream_stream(ANSWER)()
        said = asyncio.create_task(self._live(call, raw), name="pretend to be a replica")
        self._tasks.append(said)
        if len(self._tasks) > _MOST:
            self._tasks.popleft().cancel()
        await asyncio.wait([said], timeout=0.01)
        if call.done():
            return (await call.code()).name, await call.details() or ""
        return "OK", ""

    @property
    def answer(self) -> bool:
        """Whether one of them may answer a question now."""
        return any(not task.done() for task in self._tasks) or time.monotonic() < self.last_seen

    async def _live(self, call: Any, raw: bytes) -> None:
        try:
            await call.write(raw)
            while (asked := await call.read()) is not grpc.aio.EOF:
                question = Question.FromString(asked)
                if question.cancel:
                    continue
                for _ in range(self._fuzzer.rng.choice((0, 1, 1, 1, 2, 100))):
                    self.answered += 1
                    await call.write(self._fuzzer.answer(question))
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            pass  # the server has ended the stream
        finally:
            self.last_seen = time.monotonic() + _AFTERWARDS
            call.cancel()

    async def close(self) -> None:
        """End all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
