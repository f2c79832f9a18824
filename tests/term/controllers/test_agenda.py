"""What is due, and when."""

from __future__ import annotations

from podsched.term.controllers.agenda import Agenda


def test_each_key_is_due_once_at_its_earliest_time() -> None:
    agenda = Agenda()
    agenda.put("a", 5)
    agenda.put("b", 3)
    agenda.put("a", 1)
    agenda.put("a", 9)
    assert agenda.next == 1
    assert list(agenda.due(4)) == ["a", "b"]
    assert list(agenda.due(10)) == []
    assert agenda.next is None


def test_keys_that_are_not_taken_stay_due() -> None:
    agenda = Agenda()
    for key in "abc":
        agenda.put(key, 1)
    assert next(agenda.due(1)) == "a"
    assert list(agenda.due(1)) == ["b", "c"]


def test_a_key_may_be_put_again_while_it_is_taken() -> None:
    agenda = Agenda()
    agenda.put("a", 1)
    taken = agenda.due(2)
    assert next(taken) == "a"
    agenda.put("a", 2)
    assert list(taken) == ["a"]
