"""What is due, and when."""

from __future__ import annotations

from podsched.term.controllers.workqueue import DelayingQueue, WorkQueue


def test_each_key_is_due_once_at_its_earliest_time() -> None:
    queue = DelayingQueue()
    queue.put("a", 5)
    queue.put("b", 3)
    queue.put("a", 1)
    queue.put("a", 9)
    assert queue.next == 1
    assert list(queue.due(4)) == ["a", "b"]
    assert list(queue.due(10)) == []
    assert queue.next is None


def test_keys_that_are_not_taken_stay_due() -> None:
    queue = DelayingQueue()
    for key in "abc":
        queue.put(key, 1)
    assert next(queue.due(1)) == "a"
    assert list(queue.due(1)) == ["b", "c"]


def test_a_key_may_be_put_again_while_it_is_taken() -> None:
    queue = DelayingQueue()
    queue.put("a", 1)
    taken = queue.due(2)
    assert next(taken) == "a"
    queue.put("a", 2)
    assert list(taken) == ["a"]


def test_a_key_is_taken_once_however_often_it_was_added() -> None:
    queue = WorkQueue[str]()
    queue.update("ab")
    queue.add("a")
    assert list(queue.take(1)) == ["a"]
    assert list(queue.take()) == ["b"]
    assert not queue


def test_a_key_that_is_added_while_keys_are_taken_is_left_for_the_next_time() -> None:
    queue = WorkQueue[str]()
    queue.update("ab")
    for key in queue.take():
        queue.adder(key)()
    assert list(queue.take()) == ["a", "b"]
