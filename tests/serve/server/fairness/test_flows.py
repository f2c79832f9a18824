"""How seats and time are divided among flows."""

from __future__ import annotations

import math

import pytest

from podsched.serve.server.fairness.flows import (
    LAG,
    LONGEST_PAUSE,
    MAX_SHARED_PART,
    MIN_SHARED_PART,
    SPARSE_CALLS,
    WINDOW,
    Flow,
    Flows,
    ProcessorTime,
    share_of,
)
from podsched.serve.server.fairness.levels import GLOBAL_DEFAULT, SCHEMAS, FlowSchema

DEFAULT = next(schema for schema in SCHEMAS if schema.level is GLOBAL_DEFAULT)
SCHEDULER = next(schema for schema in SCHEMAS if schema.name == "kube-scheduler")


def flooding(flows: Flows, key: str, now: float, schema: FlowSchema = DEFAULT) -> Flow:
    """Return a flow with many calls under way, which has used a whole core lately."""
    flow = flows.get(key, schema, now)
    for _ in range(5):
        flows.take(flow)
    flow.charge(WINDOW, now)
    return flow


def test_a_flow_alone_may_take_every_seat_and_all_the_time() -> None:
    flows = Flows()
    flow = flooding(flows, "a", 0.0)
    while flow.held < GLOBAL_DEFAULT.seats:
        assert flows.seconds_until_seat(flow, 1.0) == 0
        flows.take(flow)
    assert flows.seconds_until_seat(flow, 1.0) == math.inf


def test_sparse_flows_get_half_as_many_seats_again_when_another_has_taken_all() -> None:
    """Of a hundred long lists that take turns, none ends for seconds."""
    flows = Flows()
    flow = flooding(flows, "a", 0.0)
    while flows.seconds_until_seat(flow, 0.0) == 0:
        flows.take(flow)
    others = 0
    while flows.seconds_until_seat(sparse := flows.get(f"b-{others}", DEFAULT, 0.0), 0.0) == 0:
        flows.take(sparse)
        others += 1
    assert others == GLOBAL_DEFAULT.seats // 2


def test_competing_flows_leave_seats_for_the_next() -> None:
    flows = Flows()
    greedy, other = flows.get("a", DEFAULT, 0.0), flows.get("b", DEFAULT, 0.0)
    flows.take(greedy)
    flows.take(other)
    while flows.seconds_until_seat(greedy, 0.0) == 0:
        flows.take(greedy)
    assert greedy.held == GLOBAL_DEFAULT.seats // 3


def test_watches_take_no_part_of_the_seats() -> None:
    flows = Flows()
    for number in range(50):
        watch = flows.get(f"watch-{number}", DEFAULT, 0.0)
        watch.watches = 1
        watch.charge(0.01 * WINDOW, 0.0)
    greedy, other = flows.get("a", DEFAULT, 0.0), flows.get("b", DEFAULT, 0.0)
    for flow in (greedy, other):
        for _ in range(SPARSE_CALLS + 1):
            flows.take(flow)
    while flows.seconds_until_seat(greedy, 0.0) == 0:
        flows.take(greedy)
    assert greedy.held == GLOBAL_DEFAULT.seats // 3


def test_a_flow_over_its_share_waits_until_enough_is_forgotten() -> None:
    flows = Flows()
    flow = flooding(flows, "a", 0.0)
    flooding(flows, "b", 0.0)
    pause = flows.seconds_until_share(flow, 0.0)
    assert pause == pytest.approx(WINDOW * math.log(1 / (MAX_SHARED_PART / 2)))
    assert flow.part(pause) == pytest.approx(MAX_SHARED_PART / 2)
    assert flows.seconds_until_share(flow, pause + 1e-9) == 0


def test_a_sparse_flow_never_waits_for_those_that_flood() -> None:
    flows = Flows()
    for number in range(10):
        flooding(flows, f"flood-{number}", 0.0)
    ordinary = flows.get("ordinary", DEFAULT, 0.0)
    ordinary.charge(0.15 * WINDOW, 0.0)
    flows.take(ordinary)
    assert flows.seconds_until_share(ordinary, 0.0) == 0
    assert flows.reserve_turn(ordinary, 0.002, 0.0) == 0


def test_a_flow_competes_from_the_first_call_that_is_too_many_for_a_sparse_one() -> None:
    flows = Flows()
    crowd, other = flows.get("crowd", DEFAULT, 0.0), flows.get("other", DEFAULT, 0.0)
    flows.take(other)
    for _ in range(SPARSE_CALLS):
        assert flows.seconds_until_seat(crowd, 0.0) == 0
        flows.take(crowd)
    assert flows.seconds_until_seat(crowd, 0.0) == 0
    assert not flows.competing
    flows.take(crowd)
    flows.seconds_until_share(crowd, 0.0)
    assert flows.competing


def test_a_flow_with_many_calls_may_use_all_the_time_that_the_others_leave() -> None:
    flows = Flows()
    crowd = flows.get("crowd", DEFAULT, 0.0)
    for _ in range(SPARSE_CALLS + 1):
        flows.take(crowd)
    crowd.charge(0.6 * WINDOW, 0.0)
    for number in range(5):
        flows.take(flows.get(f"other-{number}", DEFAULT, 0.0))
    assert flows.seconds_until_share(crowd, 0.0) == 0
    assert flows.competing


def test_flows_with_many_calls_do_not_all_get_what_each_of_them_leaves() -> None:
    flows = Flows()
    floods = [flows.get(f"flood-{number}", DEFAULT, 0.0) for number in range(4)]
    for flow in floods:
        for _ in range(SPARSE_CALLS + 1):
            flows.take(flow)
        flow.charge(0.17 * WINDOW, 0.0)
    first = floods[0]
    assert flows.seconds_until_share(first, 0.0) == 0
    first.charge(0.05 * WINDOW, 0.1)
    assert flows.seconds_until_share(first, 0.1) > 0


def test_a_scheduler_never_waits_for_time() -> None:
    flows = Flows()
    leader = flooding(flows, "leader", 0.0, SCHEDULER)
    flooding(flows, "a", 0.0)
    flooding(flows, "b", 0.0)
    assert flows.seconds_until_share(leader, 0.0) == 0


def test_batch_after_batch_of_one_client_is_not_held_back_for_those_who_want_little() -> None:
    flows = Flows()
    submitter, other = flows.get("a", DEFAULT, 0.0), flows.get("b", DEFAULT, 0.0)
    for flow, seconds in ((submitter, WINDOW), (other, 0.05 * WINDOW)):
        flows.take(flow)
        flow.charge(seconds, 0.0)
    assert flows.seconds_until_share(submitter, 0.0) == 0
    assert not flows.competing


def test_turns_of_flows_that_flood_are_spaced() -> None:
    flows = Flows()
    greedy = [flooding(flows, str(number), 0.0) for number in range(3)]
    later = flows.seconds_until_share(greedy[0], 0.0) + 1e-9
    waits = [flows.reserve_turn(flow, 0.002, later) for flow in greedy]
    assert waits == pytest.approx([0.0, 0.002 / MAX_SHARED_PART, 0.004 / MAX_SHARED_PART])


def test_turns_that_could_not_wait_longer_do_not_delay_those_after_a_flood() -> None:
    flows = Flows()
    greedy = [flooding(flows, str(number), 0.0) for number in range(3)]
    for _ in range(1000):
        flows.reserve_turn(greedy[0], 0.002, 0.0)
    after = LONGEST_PAUSE
    for flow in greedy:
        flow.charge(WINDOW, after)
    pause = flows.seconds_until_share(greedy[0], after)
    assert flows.reserve_turn(greedy[0], 0.002, after) == pytest.approx(pause)


def test_of_those_that_wait_the_one_that_used_least_is_next() -> None:
    flows = Flows()
    much, little = flows.get("much", DEFAULT, 0.0), flows.get("little", DEFAULT, 0.0)
    much.charge(0.02, 0.0)
    little.charge(0.01, 0.0)
    for flow in (much, little):
        flow.waiting.append(object())
        flows.queued.add(flow)
    assert flows.next_flow(0.0) == (little, math.inf)


def test_what_is_shared_shrinks_while_the_loop_lags_and_grows_again() -> None:
    flows = Flows()
    flows.loop.adjust(2 * LAG)
    assert flows.loop.shared_part == MAX_SHARED_PART  # once may be the machine
    for _ in range(20):
        flows.loop.adjust(2 * LAG)
    assert flows.loop.shared_part == MIN_SHARED_PART
    for _ in range(100):
        flows.loop.adjust(0.0)
    assert flows.loop.shared_part == MAX_SHARED_PART


def test_the_uncharged_cost_of_calls_counts_with_what_is_charged() -> None:
    flows = Flows()
    flow, other = flooding(flows, "a", 0.0), flooding(flows, "b", 0.0)
    for each in (flow, other):
        each.charge(-0.9 * WINDOW, 0.0)  # a tenth each is charged, where they may have 0.35
    flows.measure(ProcessorTime(0.0, 0.0), 0.0)
    flows.measure(ProcessorTime(WINDOW, 0.0), 1e-9)
    assert flows.loop.weight == pytest.approx(5)
    assert flows.seconds_until_share(flow, 1e-9) == pytest.approx(
        WINDOW * math.log(0.5 / (MAX_SHARED_PART / 2))
    )


def test_what_a_busy_machine_keeps_from_the_loop_is_charged_to_no_flow() -> None:
    flows = Flows()
    flooding(flows, "a", 0.0)
    flows.measure(ProcessorTime(0.0, 0.0), 0.0)
    flows.measure(ProcessorTime(WINDOW, 0.75 * WINDOW), 1e-9)
    assert flows.loop.weight == pytest.approx(4)


def test_a_loop_that_waited_for_a_processor_is_not_late() -> None:
    flows = Flows()
    flows.measure(ProcessorTime(0.0, 0.0), 0.0)
    for number in range(1, 5):
        flows.measure(ProcessorTime(0.0, number * 2 * LAG), number * 0.02)
        flows.loop.adjust(2 * LAG)
    assert flows.loop.shared_part == MAX_SHARED_PART


def test_the_work_of_a_minute_without_competition_is_not_that_of_the_last_moment() -> None:
    flows = Flows()
    flooding(flows, "a", 60.0).charge(-0.5 * WINDOW, 60.0)
    flows.measure(ProcessorTime(0.0, 0.0), 0.0)
    flows.measure(ProcessorTime(30.0, 15.0), 60.0)
    # Half of the loop's time was charged and used; it waited for a processor a quarter of the time.
    assert flows.loop.weight == pytest.approx(1 / (1 - 0.25))


def test_no_measurement_makes_less_of_what_is_charged() -> None:
    flows = Flows()
    flooding(flows, "a", 0.0)
    flows.measure(ProcessorTime(0.0, 0.0), 0.0)
    flows.measure(ProcessorTime(0.001, 0.0), 1e-9)
    assert flows.loop.weight == 1


def test_a_flow_that_becomes_a_schedulers_takes_its_seats_along() -> None:
    flows = Flows()
    flow = flows.get("peer", DEFAULT, 0.0)
    flows.take(flow)
    flows.promote(flow, SCHEDULER)
    assert (flows.held(GLOBAL_DEFAULT), flows.held(SCHEDULER.level)) == (0, 1)
    flows.leave(flow)
    assert flows.held(SCHEDULER.level) == 0


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_flows_that_want_nothing_are_forgotten_when_another_one_comes(schema: FlowSchema) -> None:
    """Also those that never ask for a seat, as connections whose credentials are refused."""
    flows = Flows()
    flows.get("gone", schema, 0.0).charge(0.01, 0.0)
    stays = flows.get("stays", schema, 0.0)
    flows.take(stays)
    comes = flows.get("comes", schema, 60.0)
    assert list(flows) == [stays, comes]


@pytest.mark.parametrize(
    ("parts", "share"),
    [
        ([], math.inf),
        ([0.9], math.inf),
        ([0.9, 0.9], 0.3),
        ([0.1, 0.9, 0.9], 0.25),
        ([0.1, 0.1], 0.5),
        ([0.1, 0.45], 0.5),
    ],
)
def test_the_smallest_get_what_they_want_and_the_others_equal_shares(
    parts: list[float], share: float
) -> None:
    assert share_of(parts, 0.6) == pytest.approx(share)
