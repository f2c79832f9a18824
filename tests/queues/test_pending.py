"""The workloads of a ClusterQueue that wait."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from podsched.queues.objects import Strategy, Workload
from podsched.queues.order import Requeue, queue_order, queue_time
from podsched.queues.pending import Pending, PendingByUsage
from support.examples import examples
from support.queue_trees import CPU, GPU, MEMORY


def pending(*workloads: Workload, strategy: Strategy = Strategy.BEST_EFFORT) -> Pending:
    waiting = Pending(strategy)
    for workload in workloads:
        waiting.push(workload)
    return waiting


def popped(waiting: Pending) -> list[str]:
    keys = []
    while (head := waiting.pop()) is not None:
        keys.append(head.key)
    return keys


def head_of(waiting: Pending) -> Workload:
    head = waiting.pop()
    assert head is not None
    return head


def test_the_head_has_the_highest_priority_then_the_earliest_time() -> None:
    early, late = Workload("early", queued_at=1), Workload("late", queued_at=2)
    assert popped(pending(late, early, Workload("high", priority=1, queued_at=3))) == [
        "high",
        "early",
        "late",
    ]


def test_past_usage_of_the_local_queue_comes_before_priority() -> None:
    heavy = Workload("heavy", priority=9, local_queue_usage=0.5)
    assert popped(pending(heavy, Workload("light", local_queue_usage=0.1))) == ["light", "heavy"]


def test_a_strict_head_blocks_its_queue_and_another_steps_aside() -> None:
    for strategy, then in ((Strategy.STRICT, "a"), (Strategy.BEST_EFFORT, "b")):
        waiting = pending(Workload("a", priority=1), Workload("b"), strategy=strategy)
        waiting.requeue(head_of(waiting), Requeue.NO_FIT)
        assert head_of(waiting).key == then


def test_a_preemptor_stays_the_head_until_it_cannot_be_admitted() -> None:
    waiting = pending(Workload("a"))
    waiting.requeue(head_of(waiting), Requeue.PENDING_PREEMPTION)
    waiting.push(Workload("later", priority=9))
    head = head_of(waiting)
    assert head.key == "a"
    waiting.requeue(head, Requeue.NO_FIT)
    assert head_of(waiting).key == "later"


def test_a_changed_preemptor_is_a_head_like_any_other() -> None:
    waiting = pending(Workload("a"))
    waiting.requeue(head_of(waiting), Requeue.PENDING_PREEMPTION)
    waiting.push(Workload("later", priority=9))
    waiting.push(Workload("a", priority=1))
    assert popped(waiting) == ["later", "a"]


def test_a_head_that_changed_in_its_cycle_waits_once_and_as_it_is_now() -> None:
    waiting = pending(Workload("a", shape=1))
    old = head_of(waiting)
    waiting.push(Workload("a", priority=1, shape=2))
    waiting.requeue(old, Requeue.PENDING_PREEMPTION)
    assert waiting.sticky is None
    assert list(waiting.active.values()) == [Workload("a", priority=1, shape=2)]


def test_all_of_a_hopeless_shape_wait_and_come_back_together() -> None:
    waiting = pending(*(Workload(f"large{index}", shape="large") for index in range(3)))
    waiting.push(Workload("small", shape="small", queued_at=9))
    waiting.requeue(head_of(waiting), Requeue.NO_FIT)
    waiting.push(Workload("large9", shape="large"))
    assert list(waiting.active) == ["small"]
    waiting.release()
    assert popped(waiting) == ["large0", "large1", "large2", "large9", "small"]
    waiting.push(Workload("large8", shape="large"))
    assert "large8" in waiting.active


def test_a_workload_that_was_queued_before_the_one_of_its_shape_that_failed_is_tried() -> None:
    """It may preempt others that are newer than it."""
    waiting = pending(Workload("late", shape=1, queued_at=2))
    waiting.requeue(head_of(waiting), Requeue.NO_CANDIDATES)
    for key, queued_at in (("later", 3), ("early", 1)):
        waiting.push(Workload(key, shape=1, queued_at=queued_at))
    assert list(waiting.active) == ["early"]
    waiting.requeue(head_of(waiting), Requeue.NO_CANDIDATES)
    waiting.push(Workload("between", shape=1, queued_at=1.5))
    assert not waiting.active


def test_a_release_does_not_end_a_backoff() -> None:
    waiting = pending(Workload("a"), Workload("b", queued_at=1))
    waiting.requeue(head_of(waiting), Requeue.NO_FIT, backoff=True)
    waiting.requeue(head_of(waiting), Requeue.NO_FIT)
    waiting.release()
    assert (list(waiting.active), list(waiting.inadmissible)) == (["b"], ["a"])
    waiting.push(Workload("a"))
    assert list(waiting.active) == ["b", "a"]


def test_a_release_of_something_else_than_a_shape_lacks_does_not_have_it_tried() -> None:
    waiting = pending(
        *(Workload(f"{shape}{index}", shape=shape) for shape in "gc" for index in "12")
    )
    for lacks in ({GPU}, {CPU, GPU}):
        waiting.requeue(head_of(waiting), Requeue.NO_FIT, lacks=frozenset(lacks))
    waiting.release({MEMORY})
    assert not waiting.active
    waiting.release({CPU, MEMORY})
    assert waiting.active.keys() == {"g1", "g2"}
    waiting.release({GPU})
    assert len(waiting.active) == 4


def test_a_shape_is_tried_again_once_no_workload_of_it_waits() -> None:
    waiting = pending(Workload("a", shape=1))
    waiting.requeue(head_of(waiting), Requeue.NO_FIT, lacks=frozenset({CPU}))
    waiting.remove("a")
    waiting.push(Workload("b", shape=1))
    assert list(waiting.active) == ["b"]


def test_the_cost_of_a_step_does_not_grow_with_the_number_that_wait() -> None:
    """Of a hundred thousand of ten shapes, what is hopeless is not looked at one by one."""
    looked_at = 0
    waiting = pending(*(Workload(f"w{index}", shape=index % 10) for index in range(100_000)))
    while (head := waiting.pop()) is not None:
        looked_at += 1
        waiting.requeue(head, Requeue.NO_FIT)
    waiting.release()
    assert looked_at == 10
    assert len(waiting.active) == 100_000


def test_untried_flavors_are_tried_at_once_and_backoff_is_waited_for() -> None:
    waiting = pending(Workload("a"))
    waiting.requeue(head_of(waiting), Requeue.GENERIC, untried=True)
    waiting.requeue(head_of(waiting), Requeue.FAILED_AFTER_NOMINATION, backoff=True)
    assert not waiting.active


def test_a_workload_is_retried_with_its_shape_and_no_other() -> None:
    alone, aside = Workload("alone"), Workload("aside")
    first, same, other = (Workload(key, shape=key[0]) for key in ("a1", "a2", "b"))
    waiting = pending(first, other, alone, aside)
    while (head := waiting.pop()) is not None:
        waiting.requeue(head, Requeue.NO_FIT)
    waiting.push(same)
    waiting.retry(first)
    assert popped(waiting) == ["a1", "a2"]
    waiting.retry(alone)
    assert popped(waiting) == ["alone"]
    waiting.retry(alone)  # It is gone.
    assert popped(waiting) == []


def test_a_workload_that_is_gone_is_not_the_head() -> None:
    waiting = pending(Workload("a", priority=1), Workload("b"))
    waiting.remove("a")
    assert popped(waiting) == ["b"]


def test_a_sticky_head_in_its_cycle_stays_sticky_though_no_other_waits_in_its_local_queue() -> None:
    waiting = PendingByUsage(Strategy.BEST_EFFORT, lambda _: 0.0)
    for key in ("a", "b"):
        waiting.push(Workload(key, local_queue="team"))
    first = waiting.pop()
    assert first is not None
    waiting.requeue(first, Requeue.PENDING_PREEMPTION)
    assert waiting.pop() == first
    waiting.remove("b")
    assert waiting.sticky == "a"


def test_local_queues_whose_workloads_are_gone_take_no_memory() -> None:
    waiting = PendingByUsage(Strategy.BEST_EFFORT, lambda queue: 0.0)
    waiting.push(Workload("w", local_queue="default/stays"))
    tracemalloc.start()
    try:
        for number in range(1000):
            waiting.push(Workload("w", local_queue=f"default/{number}"))
        assert tracemalloc.get_traced_memory()[0] < 1 << 17, "each takes more than 1 kB"
    finally:
        tracemalloc.stop()
    assert waiting.pop() is not None and waiting.pop() is None


def test_pods_that_were_not_ready_in_time_queue_up_anew_unless_configured() -> None:
    assert queue_time(1.0, "PodsReadyTimeout", 5.0) == 5.0
    assert queue_time(1.0, "PodsReadyTimeout", 5.0, by_creation=True) == 1.0
    assert queue_time(1.0, "AdmissionCheck", 5.0, by_creation=True) == 5.0
    assert queue_time(1.0, "Preempted", 5.0) == 1.0


def test_a_preemptor_that_waits_for_long_costs_nothing() -> None:
    waiting = pending(Workload("a"))
    for _ in range(1000):
        waiting.requeue(head_of(waiting), Requeue.PENDING_PREEMPTION)
    assert len(waiting._groups._heap) < 50


@given(st.data())
@examples(300)
def test_each_workload_is_in_one_place_and_the_head_is_the_first(data: st.DataObject) -> None:
    """After any steps, against a plain reading of the order."""
    waiting = Pending(data.draw(st.sampled_from(Strategy)))
    known: dict[str, Workload] = {}
    for _ in range(data.draw(st.integers(0, 25))):
        step = data.draw(st.sampled_from(("push", "pop", "remove", "release")))
        key = f"w{data.draw(st.integers(0, 5))}"
        if step == "push":
            shape = data.draw(st.none() | st.integers(0, 1))
            known[key] = Workload(key, priority=data.draw(st.integers(0, 2)), shape=shape)
            waiting.push(known[key])
        elif step == "remove":
            known.pop(key, None)
            waiting.remove(key)
        elif step == "release":
            waiting.release()
            assert not waiting.inadmissible
        else:
            active = dict(waiting.active)
            head = waiting.pop()
            first = active.get(waiting.sticky or "") or min(
                active.values(), key=queue_order, default=None
            )
            assert head is first
            if head is not None:
                waiting.requeue(head, data.draw(st.sampled_from(Requeue)))
        assert {**waiting.active, **waiting.inadmissible} == known
        assert not waiting.active.keys() & waiting.inadmissible.keys()
