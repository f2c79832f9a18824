"""A pod that keeps ending terms is at fault; pods worked on together with it are not."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.serve.client.errors import FenceLost
from podsched.term.faulty_pods import FaultyPods, PodFault, working_on
from support.cache_world import make_pod


def ended(faulty: FaultyPods, *pods: Any) -> None:
    with pytest.raises(PodFault) as fault, working_on(*pods):
        raise IndexError("a bug")
    faulty.add(fault.value)


def test_the_third_term_that_ends_on_a_pod_sets_it_aside() -> None:
    faulty, bad = FaultyPods(), make_pod("bad")
    for _ in range(2):
        ended(faulty, bad)
        assert not faulty.reason("default/bad", bad)
    ended(faulty, bad)
    assert faulty.reason("default/bad", bad) == "3 terms ended on it: IndexError('a bug')"


def test_of_several_pods_none_is_at_fault_but_each_is_tried_alone_from_then_on() -> None:
    faulty, bad, good = FaultyPods(), make_pod("bad"), make_pod("good")
    for _ in range(5):
        ended(faulty, good, bad)
    assert faulty.is_suspected("default/bad") and faulty.is_suspected("default/good")
    assert not faulty.reason("default/bad", bad)


@pytest.mark.parametrize("change", ["labels", "spec", "uid"])
def test_a_pod_that_has_changed_is_tried_again(change: str) -> None:
    faulty, bad, after = FaultyPods(), make_pod("bad"), make_pod("bad")
    for _ in range(3):
        ended(faulty, bad)
    if change == "labels":
        after.metadata.labels["a"] = "b"
    elif change == "spec":
        after.spec.priority = 7
    else:
        after.metadata.uid = "another"
    assert not faulty.reason("default/bad", after)
    assert not faulty.reason("default/bad", bad), "forgotten"


def test_what_schedulers_write_themselves_is_no_change() -> None:
    faulty, bad, after = FaultyPods(), make_pod("bad"), make_pod("bad")
    for _ in range(3):
        ended(faulty, bad)
    after.status.conditions.add(type="PodScheduled")
    after.metadata.resource_version = "5"
    assert faulty.reason("default/bad", after)


def test_a_pod_that_is_bound_is_never_set_aside() -> None:
    faulty, bad = FaultyPods(), make_pod("bad")
    for _ in range(3):
        ended(faulty, bad)
    assert not faulty.reason("default/bad", make_pod("bad", node="n1"))


def test_a_lost_fence_is_charged_to_no_pod() -> None:
    with pytest.raises(FenceLost), working_on(make_pod("a")):
        raise FenceLost("over")


def test_only_so_many_are_remembered() -> None:
    faulty = FaultyPods()
    for number in range(1100):
        ended(faulty, make_pod(f"p{number}"))
    assert not faulty.is_suspected("default/p0")
    assert faulty.is_suspected("default/p1099")
