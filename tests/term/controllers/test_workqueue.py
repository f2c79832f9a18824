"""Keys of objects to examine."""

from __future__ import annotations

from podsched.term.controllers.workqueue import WorkQueue


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
