"""Gives each call to the API a seat, queues it, or refuses it.

A call of a flow within its share passes in a few microseconds. Others wait in order of arrival, at
most ``LONGEST_WAIT`` seconds and ``queue_length`` per flow; further calls are refused with
RESOURCE_EXHAUSTED and a retry time. A flow gets at most ``_REFUSALS_PER_SECOND`` refusals, because
they take time, too, and to slow down clients that retry without a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from podsched.serve.server import errors
from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.fairness.flow_metrics import FlowTelemetry
from podsched.serve.server.fairness.flows import Flow, Flows, ProcessorTime
from podsched.serve.server.fairness.intake import Intake, within_time
from podsched.serve.server.fairness.levels import UNAUTHENTICATED, promoted_schema, schema_of
from podsched.serve.server.fairness.turns import (
    CALL_SECONDS,
    RECEIVED_BYTE,
    Lane,
    Seat,
    WriteLimits,
)

#: Seconds that a call may wait for a seat.
LONGEST_WAIT: Final = 5.0
#: Max open streams of a flow, and of those among them that it sends requests on: of a request that
#: has not come to its end gRPC holds up to 16 MiB, and such a stream may be silent for ever.
MAX_WATCHES, MAX_UPLOADS = 200, 32
#: Seconds after which a refused client may retry.
RETRY_AFTER: Final = 1.0
_REFUSALS_PER_SECOND: Final = 20
#: Refusals a second for all callers without valid credentials together: each takes 0.2 ms, and one
#: address may have a thousand connections.
_STRANGERS_PER_SECOND: Final = 400
#: Additional cost, in seconds of the event loop, of methods that work before their first charge.
_SECONDS: Final = {"List": 0.3e-3, "CreatePods": 0.6e-3, "CreateBatch": 0.6e-3}
#: Seconds between two measurements of the event loop's lag, while flows compete.
_PROBE_EVERY: Final = 0.02
#: Min seconds until seats are dispatched again by a timer.
_SOONEST: Final = 0.002
#: Nanoseconds that the reading thread has run and has waited for a processor (Linux).
_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")


def _time_of_loop() -> Callable[[], float]:
    """Return a function that returns the running event loop's time.

    It looks up the loop only once, because the lookup takes three times as long as reading the
    clock, and each call to the API reads the clock nine times.
    """
    known: Callable[[], float] | None = None

    def now() -> float:
        nonlocal known
        if known is None:
            known = asyncio.get_running_loop().time
        return known()

    return now


class Gate:
    """Admits the calls of one server.

    A waiting call is a future in its flow's queue. ``_dispatch`` completes it when a seat is free,
    and runs when a seat is released, a call begins to wait, and when a flow's pause is over.
    """

    def __init__(
        self, observer: FlowTelemetry | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        """clock: monotonic seconds; by default those of the event loop."""
        self.flows = Flows()
        self.clock = clock or _time_of_loop()
        self._observer = observer
        self._limits = WriteLimits()
        self._lane = Lane(self.clock)
        self._timer: asyncio.TimerHandle | None = None
        self._probe = LagProbe(self.flows, self.clock)
        #: Time of the last refusal of a caller without valid credentials, sent or scheduled.
        self._stranger_at = -math.inf

    def call_arrived(self, identity: Identity, peer: str, method: str) -> None:
        """Charge a call that has arrived, and delay long work for the calls behind it.

        It is charged at once, because a call that its client cancels while waiting costs as much.
        """
        self._lane.call_arrived()
        self._flow_of(identity, peer, method).charge(CALL_SECONDS, self.clock())

    async def receive(
        self, identity: Identity, peer: str, method: str, read: Callable[[], Awaitable[bytes]]
    ) -> tuple[bytes, Intake | None]:
        """Read a request, after waiting for the flow's earlier ones if it has too many.

        Returns the bytes, and the flow's intake, whose ``release`` must follow (None for flows that
        are not limited). Raises ApiError, RESOURCE_EXHAUSTED if too many calls of the flow wait.
        """
        flow = self._flow_of(identity, peer, method)
        if not flow.schema.level.shared:
            return await within_time(read), None
        if len(flow.waiting) >= flow.schema.level.queue_length:
            await self._refuse(flow, "queue-full")
        if flow.intake is None:
            flow.intake = Intake()
        intake: Intake = flow.intake
        return await intake.read(read), intake

    async def enter(self, identity: Identity, peer: str, method: str, size: int) -> Seat:
        """Return a seat, which the caller must release. Raises ApiError RESOURCE_EXHAUSTED.

        peer: the connection; size: bytes of the request.
        """
        flow = self._flow_of(identity, peer, method)
        # Also behind the flow's waiting calls, even if a seat is free: they are served in order.
        if flow.waiting or self.flows.seconds_until_seat(flow, self.clock()) > 0:
            await self._wait(flow)
        else:
            self.flows.take(flow)
            if self._observer is not None:
                self._observer.dispatched(flow, 0.0)
        if self.flows.competing and self._probe.timer is None:
            self._probe.start()
        flow.charge(_SECONDS.get(method, 0.0) + size * RECEIVED_BYTE, self.clock())
        seat = Seat(self.flows, flow, self.clock, self._limits, self._lane, self.left)
        try:
            if not self.flows.is_light(flow, self.clock()):
                # Calls that have come together get their seats first. If each went on to its end,
                # a hundred connections with short calls would look like one with few.
                await asyncio.sleep(0)
            if seat.competes:
                # A flow above its share waits before its handler starts.
                await seat.give_way()
        except BaseException:
            seat.leave()
            raise
        return seat

    def _flow_of(self, identity: Identity, peer: str, method: str) -> Flow:
        """Return a call's flow: that of its user or, without authentication, of its connection."""
        now = self.clock()
        schema = schema_of(identity)
        if identity.how is not Authentication.NONE:
            return self.flows.get((schema.name, identity.user), schema, now)
        flow = self.flows.get(peer, schema, now)
        if (higher := promoted_schema(method)) is not None:
            self.flows.promote(flow, higher)
        return flow

    async def _wait(self, flow: Flow) -> None:
        """Wait for a seat and take it. Raises ApiError."""
        began = self.clock()
        if len(flow.waiting) >= flow.schema.level.queue_length:
            await self._refuse(flow, "queue-full")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow.waiting.append(turn)
        self.flows.queued.add(flow)
        self._dispatch()
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await turn
        except BaseException as error:
            with contextlib.suppress(ValueError):
                flow.waiting.remove(turn)
            if turn.done() and not turn.cancelled():
                # The seat was given at the moment of the timeout or cancellation.
                self.left(flow)
            self._dispatch()
            if isinstance(error, TimeoutError):
                await self._refuse(flow, "time-out")
            raise
        if self._observer is not None:
            self._observer.dispatched(flow, self.clock() - began)

    async def _refuse(self, flow: Flow, reason: str) -> None:
        """Raise ApiError RESOURCE_EXHAUSTED, after the pause since the flow's last refusal."""
        await self._pause(flow, reason)
        raise errors.too_many_requests(
            "this client has too many calls under way or waiting", RETRY_AFTER
        )

    async def _pause(self, flow: Flow, reason: str) -> None:
        """Wait until the flow may get another refusal."""
        if self._observer is not None:
            self._observer.rejected(flow, reason)
        now = self.clock()
        flow.refuse_at = _next_refusal(flow.refuse_at, _REFUSALS_PER_SECOND, now)
        await asyncio.sleep(flow.refuse_at - now)

    async def delay_refusal(self, peer: str) -> None:
        """Wait before refusing a caller without valid credentials, at the rate of other refusals.

        peer: the connection.
        """
        self._lane.call_arrived()
        flow = self.flows.get(("unauthenticated", peer), UNAUTHENTICATED, self.clock())
        now = self.clock()
        flow.charge(CALL_SECONDS, now)
        self._stranger_at = _next_refusal(self._stranger_at, _STRANGERS_PER_SECOND, now)
        await asyncio.sleep(self._stranger_at - now)
        await self._pause(flow, "unauthenticated")

    def left(self, flow: Flow) -> None:
        """Release a flow's seat, and dispatch it to the next flow."""
        self.flows.leave(flow)
        if self.flows.queued:
            self._dispatch()

    def _dispatch(self) -> None:
        """Give seats to waiting flows while any may have one."""
        flows, now = self.flows, self.clock()
        for flow in [flow for flow in flows.queued if not flow.waiting]:
            flows.queued.discard(flow)
        while True:
            due, again = flows.next_flow(now)
            if due is None:
                break
            turn = due.waiting.popleft()
            if not due.waiting:
                flows.queued.discard(due)
            if not turn.done():
                flows.take(due)
                turn.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if again < math.inf:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(again, _SOONEST), self._dispatch)

    def close(self) -> None:
        """Cancel the timers; all calls must have ended."""
        for timer in (self._timer, self._probe.timer):
            if timer is not None:
                timer.cancel()


def _next_refusal(last: float, per_second: float, now: float) -> float:
    """Return the time of the next refusal, ``LONGEST_WAIT`` from now at the latest."""
    return min(max(now, last + 1 / per_second), now + LONGEST_WAIT)


class LagProbe:
    """Measures the event loop's lag while flows compete."""

    def __init__(self, flows: Flows, clock: Callable[[], float]) -> None:
        self._flows = flows
        self._clock = clock
        self.timer: asyncio.TimerHandle | None = None
        """For the next measurement; None while no flows compete."""

    def start(self) -> None:
        """Measure until no flows compete."""
        due = self._clock() + _PROBE_EVERY
        self.timer = asyncio.get_running_loop().call_later(_PROBE_EVERY, self._measure, due)

    def _measure(self, due: float) -> None:
        self.timer = None
        now = self._clock()
        # First, since ``adjust`` leaves out the delay that this measures.
        self._flows.measure(processor_time_of_thread(), now)
        self._flows.loop.adjust(now - due)
        if self._flows.competing:
            self.start()


def processor_time_of_thread() -> ProcessorTime:
    """Return the calling thread's processor time and waiting time (0 if the system has none)."""
    try:
        delayed = int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        delayed = 0.0
    return ProcessorTime(time.thread_time(), delayed)
