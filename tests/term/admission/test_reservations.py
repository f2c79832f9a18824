"""When the waiting units are tried again because promised starts have moved."""

from __future__ import annotations

from podsched.term.admission.reservations import LONGEST_PAUSE, PAUSE, Rounds


def test_the_first_round_begins_as_soon_as_it_is_wanted() -> None:
    rounds = Rounds()
    assert not rounds.begin(7.0) and rounds.next_time() is None
    rounds.want()
    assert rounds.begin(7.0)
    assert not rounds.begin(7.0) and rounds.next_time() is None


def test_rounds_that_follow_each_other_pause_for_longer_and_longer() -> None:
    rounds, now, pauses = Rounds(), 0.0, list[float]()
    for _ in range(8):
        rounds.want()
        assert rounds.begin(now)
        rounds.want()
        assert not rounds.begin(now)
        at = rounds.next_time()
        assert at is not None
        pauses.append(at - now)
        now = at
    assert pauses == [PAUSE, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_after_a_calm_time_the_pause_is_short_again() -> None:
    rounds, now = Rounds(), 0.0
    for _ in range(3):
        rounds.want()
        assert rounds.begin(now)
        now += 4 * PAUSE
    now += 100.0
    rounds.want()
    assert rounds.begin(now)
    rounds.want()
    assert rounds.next_time() == now + PAUSE
