"""Where a pod stands in the queue, for those who ask."""

from __future__ import annotations

from podsched.queue.standing import standing_of
from support.queue_world import pod, queue_of, reject


def test_pods_ahead_are_counted_and_the_first_ones_named() -> None:
    queue = queue_of()
    for number in range(30):
        queue.add(pod(f"p{number:02}", priority=number), 1.0)
    standing = standing_of(queue, pod("p05").uid, 1.0)
    assert standing is not None
    assert (standing.queue, standing.ahead) == ("active", 24)
    assert [p.name for p in standing.ahead_first] == [f"p{n}" for n in range(29, 19, -1)]


def test_a_rejected_pod_tells_who_would_be_ahead_once_it_is_woken() -> None:
    queue = queue_of()
    queue.add(pod("web", priority=5), 1.0)
    rejected = reject(queue, 2.0, "Fit")
    for name, priority in (("low", 1), ("high", 9)):
        queue.add(pod(name, priority=priority), 3.0)
    standing = standing_of(queue, rejected.info.uid, 4.0)
    assert standing is not None
    assert (standing.queue, standing.ahead) == ("unschedulable", 1)
    assert standing.timeout_left == 298.0


def test_asking_sets_no_backoff_and_it_ends_when_the_queue_says_so() -> None:
    queue = queue_of(initial_backoff=4.0)
    queue.add(pod("web"), 1.0)
    rejected = reject(queue, 10.5)
    before = rejected.backoff_expiration
    standing = standing_of(queue, rejected.info.uid, 11.0)
    assert standing is not None
    assert rejected.backoff_expiration == before
    assert (standing.queue, standing.backoff) == ("backoff", 4.0)
    queue.timeouts.flush_backoff_completed(11.0 + standing.backoff_left - 0.01)
    assert queue.place(rejected.info.uid) == "backoff"
    queue.timeouts.flush_backoff_completed(11.0 + standing.backoff_left)
    assert queue.place(rejected.info.uid) == "active"


def test_a_pod_that_is_not_here_has_no_standing() -> None:
    assert standing_of(queue_of(), "nobody", 1.0) is None
