"""Calls at the gate: seats, waiting, refusals."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from podsched.serve.server.access.identity import UNSECURED, Authentication, Identity
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.flow_metrics import FlowTelemetry
from podsched.serve.server.fairness.flows import SPARSE_CALLS
from podsched.serve.server.fairness.gate import LONGEST_WAIT, RETRY_AFTER, Gate
from podsched.serve.server.fairness.intake import MAX_HELD_BYTES
from podsched.serve.server.fairness.levels import GLOBAL_DEFAULT
from podsched.serve.server.fairness.turns import (
    CALL_SECONDS,
    Lane,
    Seat,
    charge_call,
    current_seat,
    end_turn,
    set_seat,
)
from podsched.telemetry.instruments import MetricRegistry

pytestmark = pytest.mark.looptime

ALICE = Identity("alice", frozenset(), Authentication.CERTIFICATE)
BOB = Identity("bob", frozenset(), Authentication.CERTIFICATE)


async def fill(gate: Gate, identity: Identity) -> list[Seat]:
    """Take every seat that one user alone may have."""
    seats = []
    for _ in range(GLOBAL_DEFAULT.seats):
        gate.call_arrived(identity, "peer", "Get")
        seats.append(await gate.enter(identity, "peer", "Get", 0))
    return seats


async def test_a_call_that_must_wait_gets_the_seat_that_is_given_back() -> None:
    gate = Gate()
    seats = await fill(gate, ALICE)
    waiting = asyncio.create_task(gate.enter(ALICE, "peer", "Get", 0))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    seats[0].leave()
    assert (await waiting).flow is seats[0].flow


async def test_a_call_waits_only_so_long_and_is_told_when_to_try_again() -> None:
    gate = Gate()
    await fill(gate, ALICE)
    began = asyncio.get_running_loop().time()
    with pytest.raises(ApiError, match="too many requests") as refused:
        await gate.enter(ALICE, "peer", "Get", 0)
    assert refused.value.retry_after == RETRY_AFTER
    assert asyncio.get_running_loop().time() - began == pytest.approx(LONGEST_WAIT, abs=0.1)


async def test_refusals_are_paced() -> None:
    gate = Gate()
    await fill(gate, ALICE)
    calls = [
        asyncio.create_task(gate.enter(ALICE, "peer", "Get", 0))
        for _ in range(GLOBAL_DEFAULT.queue_length + 40)
    ]
    await asyncio.sleep(1.0)
    assert 18 <= sum(call.done() for call in calls) <= 21  # 20 a second
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_refusals_after_a_burst_come_soon_again() -> None:
    gate = Gate()
    await fill(gate, ALICE)
    full = GLOBAL_DEFAULT.queue_length
    burst = (gate.enter(ALICE, "peer", "Get", 0) for _ in range(full + 1000))
    await asyncio.gather(*burst, return_exceptions=True)
    waiting = [asyncio.create_task(gate.enter(ALICE, "peer", "Get", 0)) for _ in range(full)]
    await asyncio.sleep(1.0)
    began = asyncio.get_running_loop().time()
    with pytest.raises(ApiError):
        await gate.enter(ALICE, "peer", "Get", 0)
    assert asyncio.get_running_loop().time() - began < 0.1
    for call in waiting:
        call.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_calls_that_are_cancelled_leave_no_trace() -> None:
    gate = Gate()
    seats = await fill(gate, ALICE)
    waiting = asyncio.create_task(gate.enter(ALICE, "peer", "Get", 0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not seats[0].flow.waiting
    for seat in seats:
        seat.leave()
    assert seats[0].flow.held == 0 == gate.flows.held(GLOBAL_DEFAULT)


async def test_a_user_with_unread_answers_is_not_forgotten_while_it_is_quiet() -> None:
    """Otherwise it could leave as much unread again every few seconds."""
    gate = Gate()

    async def nothing() -> bytes:
        return b""

    _, intake = await gate.receive(ALICE, "peer", "List", nothing)
    assert intake is not None
    intake.hold(MAX_HELD_BYTES + 1)
    for _ in range(60):
        (await gate.enter(BOB, "peer", "Get", 0)).leave()
        await asyncio.sleep(1.0)
    asking = asyncio.create_task(gate.receive(ALICE, "peer", "List", nothing))
    await asyncio.sleep(1.0)
    assert not asking.done()
    intake.release(MAX_HELD_BYTES + 1)
    assert (await asking)[1] is intake


async def test_a_user_whose_requests_are_being_read_is_not_forgotten() -> None:
    gate = Gate()
    arrived = asyncio.Event()

    async def late() -> bytes:
        await arrived.wait()
        return b""

    first = [asyncio.create_task(gate.receive(ALICE, "peer", "Get", late)) for _ in range(4)]
    for _ in range(20):
        (await gate.enter(BOB, "peer", "Get", 0)).leave()
        await asyncio.sleep(1.0)
    arrived.set()
    fifth = await gate.receive(ALICE, "peer", "Get", late)
    assert {intake for _, intake in await asyncio.gather(*first)} == {fifth[1]}


async def test_another_user_gets_a_seat_as_soon_as_one_is_given_back() -> None:
    gate = Gate()
    seats = await fill(gate, ALICE)
    alices = [asyncio.create_task(gate.enter(ALICE, "peer", "Get", 0)) for _ in range(10)]
    await asyncio.sleep(0)
    bob = asyncio.create_task(gate.enter(BOB, "peer", "Get", 0))
    await asyncio.sleep(0)
    seats[0].leave()
    assert (await bob).flow is not seats[0].flow
    assert not any(call.done() for call in alices)


async def test_a_user_gets_the_seats_that_were_kept_for_another_one_who_has_left() -> None:
    gate = Gate()
    other = await gate.enter(BOB, "peer", "Get", 0)
    calls = [asyncio.create_task(gate.enter(ALICE, "peer", "Get", 0)) for _ in range(60)]
    await asyncio.sleep(0.01)
    assert not all(call.done() for call in calls)
    other.leave()
    await asyncio.sleep(0.2)
    assert all(call.done() for call in calls)


async def test_users_are_flows_and_without_users_connections_are() -> None:
    gate = Gate()
    one, same = [await gate.enter(ALICE, peer, "Get", 0) for peer in ("a", "b")]
    other, another = [await gate.enter(UNSECURED, peer, "Get", 0) for peer in ("a", "b")]
    assert one.flow is same.flow
    assert len({id(seat.flow) for seat in (one, other, another)}) == 3


async def test_a_connection_that_binds_is_handled_as_a_schedulers() -> None:
    gate = Gate()
    seat = await gate.enter(UNSECURED, "peer", "List", 0)
    (await gate.enter(UNSECURED, "peer", "BindPods", 0)).leave()
    assert seat.flow.schema.name == "kube-scheduler"


async def test_work_of_a_call_counts_for_its_flow() -> None:
    gate = Gate()
    seat = await gate.enter(ALICE, "peer", "Get", 0)
    set_seat(seat)
    assert current_seat() is seat
    before = seat.flow.used(gate.clock())
    charge_call(0.1)
    await end_turn(0.1)
    assert seat.flow.used(gate.clock()) > before + 0.2


async def test_a_call_counts_for_its_flow_also_if_it_is_given_up_while_it_waits() -> None:
    gate = Gate()
    flow = (await fill(gate, ALICE))[0].flow
    before = flow.used(gate.clock())
    gate.call_arrived(ALICE, "peer", "Watch")
    waiting = asyncio.create_task(gate.enter(ALICE, "peer", "Watch", 0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert flow.used(gate.clock()) == pytest.approx(before + CALL_SECONDS)


async def test_what_the_loop_does_is_measured_while_flows_compete() -> None:
    gate = Gate()
    for identity in (ALICE, BOB):
        for _ in range(5):
            (await gate.enter(identity, "peer", "Get", 0)).charge(0.001)
    await asyncio.sleep(0.06)
    await gate.enter(ALICE, "peer", "Get", 0)
    await asyncio.sleep(0.03)
    burnt = time.thread_time() + 0.05
    while time.thread_time() < burnt:
        pass
    await asyncio.sleep(0.1)
    assert gate.flows.loop.weight > 2
    gate.close()


async def test_between_two_turns_of_work_there_is_time_for_calls() -> None:
    clock = asyncio.get_running_loop().time
    lane = Lane(clock)
    began = []
    for _ in range(3):
        await lane.turn()
        began.append(clock())
    assert [round(after - before, 4) for before, after in pairwise(began)] == [0.0035, 0.0035]


async def test_work_waits_while_calls_keep_coming_in_but_not_for_ever() -> None:
    clock = asyncio.get_running_loop().time
    lane = Lane(clock)
    turn = asyncio.create_task(lane.turn())
    began = clock()
    while not turn.done():
        lane.call_arrived()
        await asyncio.sleep(0.001)
    assert clock() - began == pytest.approx(0.03, abs=0.003)
    lane.call_arrived()
    before = clock()
    await lane.turn()
    assert 0.001 < clock() - before < 0.004


async def test_a_call_in_the_rounds_before_a_turn_puts_it_off() -> None:
    """On a machine with other work to do a gap is over before the loop has seen who came in it."""
    lane = Lane(asyncio.get_running_loop().time)
    turn = asyncio.create_task(lane.turn())
    await asyncio.sleep(0)
    lane.call_arrived()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not turn.done()
    await turn


async def test_short_calls_that_come_together_are_seen_together() -> None:
    """None of them awaits anything: one after the other they would look like one connection's."""
    gate = Gate()
    held: list[int] = []

    async def short_call() -> None:
        gate.call_arrived(ALICE, "peer", "Get")
        seat = await gate.enter(ALICE, "peer", "Get", 0)
        held.append(seat.flow.held)
        seat.leave()

    (await gate.enter(BOB, "peer", "Get", 0)).charge(0.01)
    await asyncio.gather(*(short_call() for _ in range(300)))
    assert max(held) > SPARSE_CALLS
    assert gate.flows.competing
    gate.close()


async def test_callers_without_valid_credentials_are_refused_at_a_rate_for_all_together() -> None:
    gate = Gate()
    refusals = [asyncio.create_task(gate.delay_refusal(f"peer-{n}")) for n in range(3000)]
    await asyncio.sleep(1.0)
    assert 350 < sum(each.done() for each in refusals) <= 400
    await asyncio.sleep(LONGEST_WAIT)
    assert all(each.done() for each in refusals)


async def test_metrics_count_what_was_let_in_and_what_was_refused() -> None:
    registry = MetricRegistry()
    telemetry = FlowTelemetry(registry)
    gate = Gate(telemetry)
    telemetry.follow(gate.flows)
    await fill(gate, ALICE)
    with pytest.raises(ApiError):
        await gate.enter(ALICE, "peer", "Get", 0)
    text = registry.render()[0].decode()
    labels = 'flow_schema="global-default",priority_level="global-default"'
    seats = GLOBAL_DEFAULT.seats
    assert f"apiserver_flowcontrol_current_executing_seats{{{labels}}} {seats}.0" in text
    assert 'reason="time-out"} 1.0' in text


async def writes_at_once(count: int) -> int:
    """Return how many of 50 callers of a user who uses much may write ``count`` objects at once."""
    gate = Gate()
    (await gate.enter(BOB, "peer", "Get", 0)).charge(0.5)
    seat = await gate.enter(ALICE, "peer", "Get", 0)
    seat.charge(0.5)
    await asyncio.sleep(0.1)  # until the next update of the shares
    assert gate.flows.seconds_until_share(seat.flow, gate.clock()) > 0
    writing = 0

    async def write() -> None:
        nonlocal writing
        async with seat.writing(count):
            writing += 1
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        callers = [group.create_task(write()) for _ in range(50)]
        await asyncio.sleep(1)
        for caller in callers:
            caller.cancel()
    gate.close()
    return writing


async def test_clients_that_use_much_have_few_batches_at_the_store() -> None:
    assert await writes_at_once(100) == 2


async def test_clients_that_use_much_write_single_objects_side_by_side() -> None:
    """Each takes as long as a batch; with two at a time, some waited for seconds."""
    assert await writes_at_once(1) == 30
