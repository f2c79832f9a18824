"""Estimates against what came of them, in a run with a queue."""

from __future__ import annotations

import heapq
import random

from podsched.lab.replay.calibration import calibrate, calibration_line
from podsched.lab.replay.history import History, PodHistory


def queue(seed: int, servers: int = 20, mean: float = 100.0, count: int = 400) -> History:
    """Pods of one kind that arrive a little faster than they end."""
    chance = random.Random(seed)
    free = [0.0] * servers
    at, pods = 0.0, {}
    for number in range(count):
        at += chance.expovariate(1.02 * servers / mean)
        begins = max(at, free[0])
        ends = begins + chance.expovariate(1 / mean)
        heapq.heapreplace(free, ends)
        name = f"p-{number}"
        pods[name] = PodHistory(name, name, {"cpu": 1}, at, bound=begins, node="n", ended=ends)
    return History(max(free), pods)


def test_four_of_five_pods_or_more_are_bound_within_the_interval() -> None:
    found = calibrate(queue(1))
    assert found.estimates > 100
    assert found.within / found.estimates >= 0.8
    assert 0.5 < found.ratio < 2


def crowded(seed: int, count: int = 400) -> History:
    """Pods of which two of three get a node within seconds, in no order, and the others never."""
    chance = random.Random(seed)
    pods = {}
    for number in range(count):
        at, name = 10.0 * number, f"p-{number}"
        pods[name] = pod = PodHistory(name, name, {"cpu": 1}, at)
        if chance.random() < 0.67:
            pod.bound, pod.node = at + chance.uniform(2, 40), "n"
    return History(10.0 * count, pods)


def test_estimates_hold_where_pods_do_not_go_in_turn() -> None:
    found = calibrate(crowded(1))
    assert found.estimates > 100
    assert found.within / found.estimates >= 0.8
    assert found.open > found.estimates / 2


def test_a_run_in_which_no_pod_waits_says_so() -> None:
    assert calibration_line(calibrate(History(10.0))) == (
        "ETA: no pod waited that could be estimated"
    )
