"""Divides a priority level's seats, and the event loop's time, fairly among flows. Pure.

A flow is the calls of one client. Two resources are divided, each among the flows that want it:

    seats   The number of calls handled at once. A single flow may take all. If n flows have calls,
            each may take 1/(n+1) of the seats, so that some are left for the next flow.
    time    The time of the event loop, which does all work. The use of a flow is a sum of charges
            that decays exponentially within ``WINDOW`` seconds. Flows compete if at least two of
            them use much, or one has many calls under way. Then they share a part of the loop's
            time (``shared_part``), divided max-min fair: the smallest get what they want, the
            others equal shares. A flow that has used more than its share waits. Turns of long work
            are spaced, so that calls of flows far below their share run in between.

``shared_part`` is adjusted like a congestion window: it shrinks by a factor while the loop lags
behind its own work, and grows slowly afterwards.

Charges are estimates, because much of the cost of a call is not measured (gRPC, the cache). So the
sum of all charges is scaled to the processor time that the loop has really used (``weight``). If
other processes use the machine, the loop gets only a part of a processor, and that part is divided.

A flow below its share never waits for a flow above its share. Neither does a sparse flow, which has
few small calls under way at a time, like an ordinary client; flooding clients have many or large
calls. Times are seconds of any monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from podsched.serve.server.fairness.levels import FlowSchema, PriorityLevel

#: Seconds in which the recorded use of a flow decays to 1/e.
WINDOW: Final = 0.5
#: Max and min part of the event loop's time for competing flows, 0 to 1. The rest is for flows that
#: never wait: schedulers, nodes, health checks.
MAX_SHARED_PART, MIN_SHARED_PART = 0.7, 0.05
#: Seconds by which the loop may be late. Being later twice in a row shrinks the shared part; once
#: may be caused by other work on the machine.
LAG: Final = 0.01
#: Factors by which the shared part shrinks and grows.
_SHRINK, _GROW = 0.7, 1.05
#: Max calls under way, and max part of the loop's time, of a sparse flow.
SPARSE_CALLS, SPARSE_PART = 4, 0.2
#: Max seconds of one pause.
LONGEST_PAUSE: Final = 1.0
#: A flow that uses at least this part of the loop's time counts as wanting a share.
_BUSY: Final = 0.002
#: Max ratio of the used time to the charged time.
_MAX_UNCHARGED: Final = 10.0
#: Seconds for which an idle flow is kept, and between two looks for idle flows.
_KEPT: Final = 10 * WINDOW
#: Seconds between two updates of the shares, and additional seconds for each flow: an update visits
#: all flows, so with many it is made less often.
_UPDATE_EVERY, _UPDATE_PER_FLOW = 0.05, 20e-6
#: Max flows with which the shares are updated at once when a flow gets many calls: a tenth of a
#: millisecond.
_FEW_FLOWS: Final = 100


class ProcessorTime(NamedTuple):
    """Processor time used and time waited for a processor, in seconds since an arbitrary start."""

    used: float
    delayed: float


class Flow:
    """The calls of one user, or of one unauthenticated connection, in one priority level."""

    __slots__ = (
        "_used",
        "_used_at",
        "held",
        "intake",
        "key",
        "refuse_at",
        "schema",
        "uploads",
        "waiting",
        "watches",
    )

    def __init__(self, key: Hashable, schema: FlowSchema, now: float) -> None:
        self.key = key
        self.schema = schema
        #: Seats taken, streams open, and those among them on which requests come.
        self.held = 0
        self.watches = 0
        self.uploads = 0
        #: Calls that wait for a seat, the oldest first.
        self.waiting: deque[Any] = deque()
        #: Limits the reading of requests; None before the first.
        self.intake: Any = None
        #: Time of the last refusal, sent or scheduled.
        self.refuse_at = now
        self._used = 0.0
        self._used_at = now

    def charge(self, seconds: float, now: float) -> None:
        """Add seconds of work to the flow's recently used time."""
        self._used = self.used(now) + seconds
        self._used_at = now

    def used(self, now: float) -> float:
        """Return the recently used seconds: the sum of all charges, each decayed by its age."""
        return self._used * math.exp((self._used_at - now) / WINDOW)

    def part(self, now: float) -> float:
        """Return the recently used part of the loop's time."""
        return self.used(now) / WINDOW

    def is_sparse(self, part: float) -> bool:
        """Return whether it has few small calls at a time; ``part``: recently used part."""
        return part < SPARSE_PART and not self.is_crowded

    @property
    def is_crowded(self) -> bool:
        """Whether it has many calls under way."""
        return self.held + len(self.waiting) + self.watches > SPARSE_CALLS

    def is_idle(self, now: float) -> bool:
        """Return whether it has no calls and unread answers, and its recorded use has decayed."""
        busy = self.watches or self.held or self.waiting
        # An unread answer has no seat. Forgotten, it would not count, and the client could leave
        # as much unread again every few seconds.
        busy = busy or (self.intake is not None and self.intake.is_used)
        return not busy and now > self._used_at + _KEPT


class LoopCapacity:
    """What the event loop can do, as measured while flows compete."""

    def __init__(self) -> None:
        #: Part of the event loop for competing flows.
        self.shared_part = MAX_SHARED_PART
        #: Factor from charged seconds to seconds of the loop's capacity.
        self.weight = 1.0
        self._late = 0
        self._effort: ProcessorTime | None = None
        self._measured_at = -math.inf
        #: Recent processor time of the loop, and recent time that it waited for a processor, both
        #: decayed like charges.
        self._worked = self._kept_waiting = 0.0
        #: The time that it waited for a processor in the last period that was measured.
        self._delay = 0.0

    def measure(self, effort: ProcessorTime, charged: float, now: float) -> None:
        """Update ``weight`` from the loop's processor time and the recent charges of all flows."""
        before, self._effort = self._effort, effort
        self._delay = effort.delayed - before.delayed if before is not None else 0.0
        seconds, self._measured_at = now - self._measured_at, now
        if before is None or seconds <= 0:
            return
        kept = math.exp(-seconds / WINDOW)
        # The last measurement may be minutes old, because nothing is measured while no flows
        # compete. So the work since then counts as spread evenly over the time. Counted as that of
        # the last moment, it made the first burst of calls wait for a second at an idle server.
        recent = WINDOW * (1 - kept) / seconds
        self._worked = self._worked * kept + (effort.used - before.used) * recent
        self._kept_waiting = self._kept_waiting * kept + self._delay * recent
        if charged <= 0:
            return
        # Charges and measurements decay at the same rate, so that they cover the same time.
        unseen = min(max(self._worked / charged, 1.0), _MAX_UNCHARGED)
        self.weight = unseen / max(1 - self._kept_waiting / WINDOW, 1 / _MAX_UNCHARGED)

    def adjust(self, lag: float) -> None:
        """Adjust the shared part to the event loop's lag in seconds.

        Time waited for a processor since the last ``measure`` does not count as lag, because
        sharing less would not reduce it.
        """
        lag -= self._delay
        self._late = self._late + 1 if lag > LAG else 0
        if self._late >= 2:
            self.shared_part = max(self.shared_part * _SHRINK, MIN_SHARED_PART)
        elif not self._late:
            self.shared_part = min(self.shared_part * _GROW, MAX_SHARED_PART)


class Flows:
    """All flows of a server."""

    def __init__(self) -> None:
        self._flows: dict[Hashable, Flow] = {}
        #: By priority level: seats taken, and flows that want seats.
        self._held: dict[str, int] = {}
        self._wanting: dict[str, int] = {}
        self.loop = LoopCapacity()
        self._next_turn = -math.inf
        #: Max part of the loop's time for each competing flow; inf while none compete.
        self._share = math.inf
        self._update_at = self._drop_at = -math.inf
        #: Flows with waiting calls.
        self.queued: set[Flow] = set()

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())

    def get(self, key: Hashable, schema: FlowSchema, now: float) -> Flow:
        """Return the flow with this key; a new one belongs to the schema."""
        flow = self._flows.get(key)
        if flow is None:
            self._drop_idle(now)
            flow = self._flows[key] = Flow(key, schema, now)
            # It wants a seat now; not to wait for the next update leaves it its part of the seats.
            self._wanting[schema.level.name] = self._wanting.get(schema.level.name, 0) + 1
        return flow

    def _drop_idle(self, now: float) -> None:
        """Drop idle flows, unless this was done recently."""
        if now >= self._drop_at:
            self._drop_at = now + _KEPT
            self._flows = {key: flow for key, flow in self._flows.items() if not flow.is_idle(now)}

    def promote(self, flow: Flow, schema: FlowSchema) -> None:
        """Move a flow to another schema."""
        if flow.schema is schema:
            return
        before, after = flow.schema.level.name, schema.level.name
        for counts, number in ((self._held, flow.held), (self._wanting, 1)):
            counts[before] = counts.get(before, 0) - number
            counts[after] = counts.get(after, 0) + number
        flow.schema = schema

    def held(self, level: PriorityLevel) -> int:
        """Return how many seats of a level are taken."""
        return self._held.get(level.name, 0)

    def take(self, flow: Flow) -> None:
        """Take a seat."""
        flow.held += 1
        if flow.held == SPARSE_CALLS + 1 and len(self._flows) <= _FEW_FLOWS:
            # It may compete from now on.
            self._update_at = -math.inf
        name = flow.schema.level.name
        self._held[name] = self._held.get(name, 0) + 1

    def leave(self, flow: Flow) -> None:
        """Release a seat."""
        flow.held -= 1
        self._held[flow.schema.level.name] -= 1

    def seconds_until_seat(self, flow: Flow, now: float) -> float:
        """Return the seconds until a flow may have a seat; 0: now, inf: when one is released.

        This does not compare the flow with others that wait; ``next_flow`` does.
        """
        level = flow.schema.level
        if not level.seats:
            return 0.0
        self._update_shares(now)
        flows = self._wanting.get(level.name, 1)
        most = max(1, level.seats // (flows + 1)) if flows > 1 else level.seats
        # Sparse flows may have more seats than the level has: another may have taken all of them
        # before, and none of its calls may end for seconds.
        seats = level.seats
        if flow.is_sparse(self._part(flow, now)):
            seats += level.seats // 2
        if self.held(level) >= seats:
            return math.inf
        if flow.held >= most:
            # Fewer flows may want seats by the next update, without a seat being released.
            return self._update_at - now
        return self.seconds_until_share(flow, now)

    def seconds_until_share(self, flow: Flow, now: float) -> float:
        """Return the seconds until a flow has used no more than its share of the loop's time."""
        if not flow.schema.level.shared:
            return 0.0
        self._update_shares(now)
        part = self._part(flow, now)
        # While none compete, the share is inf, and so nothing is over it.
        over = 0.0 if flow.is_sparse(part) else part / self._share
        # Without further charges, the part decays as part * exp(-t / WINDOW): solved for t.
        return WINDOW * math.log(over) if over > 1 else 0.0

    def reserve_turn(self, flow: Flow, seconds: float, now: float) -> float:
        """Reserve a turn of ``seconds`` of work; return the seconds until it begins."""
        pause = self.seconds_until_share(flow, now)
        if self.is_far_below_share(flow, now):
            return pause
        begins = max(now + pause, self._next_turn)
        next_turn = max(now, self._next_turn) + seconds / self.loop.shared_part
        # What was reserved beyond has not waited for it.
        self._next_turn = min(next_turn, now + LONGEST_PAUSE)
        return begins - now

    def is_far_below_share(self, flow: Flow, now: float) -> bool:
        """Return whether a flow uses far less than its share, or is exempt from sharing."""
        if not (flow.schema.level.shared and self.competing):
            return True
        part = self._part(flow, now)
        return flow.is_sparse(part) or part < self._share / 2

    def is_light(self, flow: Flow, now: float) -> bool:
        """Return whether a flow is sparse, or exempt from sharing."""
        return not flow.schema.level.shared or flow.is_sparse(self._part(flow, now))

    def _part(self, flow: Flow, now: float) -> float:
        """Return the part of the loop's capacity that a flow has recently used."""
        return flow.part(now) * self.loop.weight

    @property
    def competing(self) -> bool:
        """Whether several flows want a share of the loop's time."""
        return self._share < math.inf

    def next_flow(self, now: float) -> tuple[Flow | None, float]:
        """Return the waiting flow that gets the next seat, and the seconds after which to retry.

        It is the flow that has used least of those that may have a seat; None if there is none. To
        retry after inf seconds means: when a seat is released.
        """
        due: Flow | None = None
        soonest = math.inf
        for flow in self.queued:
            wait = self.seconds_until_seat(flow, now)
            if wait > 0:
                soonest = min(soonest, wait)
            elif due is None or flow.used(now) < due.used(now):
                due = flow
        return due, soonest

    def _update_shares(self, now: float) -> None:
        """Recompute the shares, unless this was done recently."""
        if now < self._update_at:
            return
        self._update_at = now + _UPDATE_EVERY + _UPDATE_PER_FLOW * len(self._flows)
        self._wanting = {}
        parts = []
        heavy = crowded = 0
        for flow in self._flows.values():
            part = self._part(flow, now)
            calls = flow.held + len(flow.waiting)
            if calls:
                # Watches want no seats: counted, they made the calls of a busy client wait while
                # most seats were free.
                name = flow.schema.level.name
                self._wanting[name] = self._wanting.get(name, 0) + 1
            if (part >= _BUSY or calls) and flow.schema.level.shared:
                # With many calls under way, and near its share, it wants more than it gets. If
                # its use counted, flows that are held to their shares would all get what each
                # of them leaves.
                more = calls > SPARSE_CALLS and part >= self._share / 2
                parts.append(math.inf if more else part)
                heavy += not flow.is_sparse(part)
                crowded += flow.is_crowded
        # One flow with much use and some small ones do not compete: it may use what they leave.
        contested = heavy >= 2 or crowded > 0
        self._share = share_of(parts, self.loop.shared_part) if contested else math.inf

    def measure(self, effort: ProcessorTime, now: float) -> None:
        """Compare the loop's processor time with the charges of all flows."""
        self.loop.measure(effort, sum(flow.used(now) for flow in self._flows.values()), now)


def share_of(parts: Sequence[float], total: float) -> float:
    """Return the max share of a flow by max-min fairness; inf if at most one flow wants any.

    parts: the part of the loop wanted by each flow (inf: as much as possible); total: the part
    available to all. Flows are visited in ascending order: each takes its part as long as that is
    at most an equal share of what is left for it and the larger ones.
    """
    if len(parts) < 2:
        return math.inf
    left = total
    for others, part in zip(range(len(parts), 0, -1), sorted(parts), strict=True):
        # The largest may use all that the others leave.
        if others == 1 or part > left / others:
            break
        left -= part
    return left / others
