"""Estimates from the pods that a replica knows."""

from __future__ import annotations

from typing import Any

from podsched.ask.explain.eta import add_eta
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Explanation, WakeEvent
from support.engine_world import pod


def stamp(seconds: int) -> str:
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


def bound(number: int, at: int) -> v1.Pod:
    """A pod that has waited since midnight."""
    made = pod(f"p{number}", {"nodeName": "a"} | spec(), creationTimestamp=stamp(0))
    made.status.conditions.add(type="PodScheduled", status="True").last_transition_time.seconds = (
        made.metadata.creation_timestamp.seconds + at
    )
    return made


def spec() -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def explained(others: list[v1.Pod], *wake_events: str, backoff: float = 0.0) -> Explanation:
    waits = pod("waits", spec(), creationTimestamp=stamp(1))
    now = waits.metadata.creation_timestamp.seconds + 300.0
    answer = Explanation(wake_events=[WakeEvent(event=event) for event in wake_events])
    answer.queue.backoff_left_seconds = backoff
    add_eta(answer, [*others, waits], make_pod_info(waits, PodClasses()), now)
    return answer


def test_a_pod_is_told_when_pods_like_it_got_their_nodes_one_after_another() -> None:
    answer = explained([bound(number, 10 * number) for number in range(1, 31)])
    low, median, high = (quantile.seconds for quantile in answer.eta.quantiles)
    assert low < median < high
    assert 4 < median < 20, "room came every 10 s"
    assert answer.eta.basis == [
        "It is number 1 by priority and age; room came 29 times in 291 s."
    ], "no pod is known that had waited as long"


def test_nothing_is_told_where_no_pod_has_been_bound() -> None:
    assert not explained([]).HasField("eta")


def test_nothing_is_told_where_only_a_change_of_a_node_can_help() -> None:
    others = [bound(number, 10 * number) for number in range(1, 31)]
    assert not explained(others, "NodeAdd", "NodeUpdateNodeLabel").HasField("eta")
    assert explained(others, "NodeAdd", "AssignedPodDelete").HasField("eta")


def test_nothing_is_told_where_the_pod_is_too_large_for_every_node() -> None:
    others = [bound(number, 10 * number) for number in range(1, 31)]
    waits = pod("waits", spec(), creationTimestamp=stamp(1))
    answer = Explanation()
    answer.wake_events.add(event="NodeAdd", plugins=["NodeAffinity", "NodeResourcesFit"])
    answer.wake_events.add(event="PodDelete", plugins=["NodeResourcesFit"])
    answer.groups.add(plugin="NodeAffinity", code="UnschedulableAndUnresolvable", nodes=1)
    fit = answer.groups.add(plugin="NodeResourcesFit", code="UnschedulableAndUnresolvable", nodes=1)
    info, now = make_pod_info(waits, PodClasses()), waits.metadata.creation_timestamp.seconds + 300
    add_eta(answer, [*others, waits], info, now)
    assert not answer.HasField("eta")
    fit.code = "Unschedulable"
    add_eta(answer, [*others, waits], info, now)
    assert answer.HasField("eta")


def waits_since(name: str, second: int, **more: Any) -> v1.Pod:
    return pod(name, spec() | more, creationTimestamp=stamp(second))


def test_pods_that_wait_for_no_node_are_not_ahead() -> None:
    gated = waits_since("gated", 0, schedulingGates=[{"name": "example.com/not-yet"}])
    ended = waits_since("ended", 0)
    ended.status.phase = "Failed"
    ended.status.conditions.add(type="PodScheduled", status="False")
    waits, others = waits_since("waits", 0), [bound(number, 10 * number) for number in range(1, 31)]
    first = explained([*others, waits]).eta.basis
    assert first[0].startswith("It is number 2 by priority and age;")
    assert explained([*others, waits, gated, ended]).eta.basis == first


def test_a_pod_may_get_a_node_before_its_backoff_is_over() -> None:
    """It leaves backoff early when nothing else is ready."""
    others = [bound(number, 10 * number) for number in range(1, 31)]
    assert explained(others, backoff=60.0).eta == explained(others).eta


def test_nothing_is_told_of_a_pod_with_scheduling_gates() -> None:
    others = [bound(number, 10 * number) for number in range(1, 31)]
    gated = waits_since("waits", 1, schedulingGates=[{"name": "example.com/not-yet"}])
    answer, now = Explanation(), gated.metadata.creation_timestamp.seconds + 300
    add_eta(answer, [*others, gated], make_pod_info(gated, PodClasses()), now)
    assert not answer.HasField("eta")


def test_pods_of_the_same_second_are_before_it_or_after_it() -> None:
    others = [bound(number, 10 * number) for number in range(1, 31)]
    alone = explained(others).eta.quantiles
    twins = [waits_since(f"twin-{number}", 1) for number in range(9)]
    found = explained([*others, *twins])
    assert found.eta.basis[0].startswith("It is number 1 to 10 by priority and age;")
    low, median, high = (quantile.seconds for quantile in found.eta.quantiles)
    assert low == alone[0].seconds
    assert median > 3 * alone[1].seconds
    assert high > 3 * alone[2].seconds
