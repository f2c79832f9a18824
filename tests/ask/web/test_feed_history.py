"""The last hour: who led, and what the leader did."""

from __future__ import annotations

from dataclasses import replace

from podsched.ask.web.history import KEPT, MOST_TERMS, PERIOD, History
from podsched.ask.web.sources import Leadership, Load
from support.page_world import leadership, load

NOW = 10_000.0
A, B = "a_00000001", "b_00000002"


def test_a_term_lasts_from_when_the_lock_was_acquired_until_another_leads() -> None:
    history = History()
    assert history.see(leadership(A, 812, since=9_000.0), NOW)
    assert not history.see(leadership(A, 812, since=9_000.0), NOW + 1)
    assert history.see(leadership(B, 977, since=10_001.5), NOW + 2)
    assert history.term_rows() == [[A, 812, 9_000.0, 10_001.5], [B, 977, 10_001.5, 0.0]]


def test_a_term_of_the_same_replica_is_another_term() -> None:
    history = History()
    history.see(leadership(A, 812, since=9_000.0), NOW)
    history.see(leadership(A, 977, since=9_990.0), NOW + 1)
    assert [term[1] for term in history.term_rows()] == [812, 977]


def test_the_number_of_a_term_is_added_once_its_leader_tells_it() -> None:
    history = History()
    history.see(leadership(A, 0, since=9_000.0), NOW)
    assert history.see(leadership(A, 812, since=9_000.0), NOW + 1)
    assert history.term_rows() == [[A, 812, 9_000.0, 0.0]]


def test_there_is_no_leader_between_two_terms() -> None:
    history = History()
    history.see(leadership(A, 812, since=9_000.0), NOW)
    history.see(leadership("", since=0.0), NOW + 1)
    assert not history.see(leadership("", since=0.0), NOW + 2)
    history.see(leadership(B, 977, since=NOW + 3), NOW + 4)
    assert history.term_rows() == [[A, 812, 9_000.0, NOW + 1], [B, 977, NOW + 3, 0.0]]


def test_terms_and_samples_are_bounded() -> None:
    history = History()
    for number in range(1, 2 * KEPT):
        seen = leadership(A, number, since=NOW + number)
        history.see(seen, NOW + number)
        history.sample(seen, NOW + number)
    assert len(history.samples) == KEPT and len(history.term_rows()) == MOST_TERMS


def taken(history: History, seen: Leadership, now: float) -> list[float]:
    """A sample, taken as the page does."""
    history.see(seen, now)
    return history.sample(seen, now)


def sampled(*loads: tuple[str, Load]) -> list[list[float]]:
    """The samples of who led with which load, one after the other."""
    history = History()
    for count, (leader, its) in enumerate(loads):
        taken(history, leadership(leader, 1, loads={leader: its}), NOW + PERIOD * count)
    return list(history.samples)


def test_rates_are_those_between_two_words_of_the_leader() -> None:
    first, second = load(NOW, 100), load(NOW + 4, 900, unschedulable=2, errors=6)
    samples = sampled((A, first), (A, second))
    assert [sample[1:3] for sample in samples] == [[0.0, 0.0], [200.0, 2.0]]


def test_a_new_leader_is_not_credited_with_what_it_did_before() -> None:
    history = History()
    loads = {A: load(NOW, 100), B: load(NOW, 5_000)}
    taken(history, leadership(A, 1, loads=loads), NOW)
    loads = {A: load(NOW, 100), B: load(NOW + 5, 5_050)}
    assert taken(history, leadership(B, 2, loads=loads), NOW + 5)[1] == 10.0


def test_what_the_last_leader_did_since_the_last_sample_counts() -> None:
    history = History()
    taken(history, leadership(A, 1, loads={A: load(NOW, 100), B: load(NOW)}), NOW)
    # A has bound 40 pods and failed with 10 before B took over and bound 20.
    loads = {A: load(NOW + 5, 140, errors=10), B: load(NOW + 5, 20)}
    assert taken(history, leadership(B, 2, loads=loads), NOW + 5)[1:3] == [12.0, 2.0]
    assert taken(history, leadership(B, 2, loads=loads), NOW + 10)[1:3] == [0.0, 0.0]


def test_the_last_word_of_a_killed_leader_counts_though_its_lease_is_another_processs() -> None:
    history = History()
    taken(history, leadership(A, 1, loads={A: load(NOW, 100), B: load(NOW)}), NOW)
    history.see(leadership(A, 1, loads={A: load(NOW + 2, 140), B: load(NOW + 2)}), NOW + 2)
    seen = leadership(B, 2, loads={"a_00000003": load(NOW + 5), B: load(NOW + 5, 20)})
    assert taken(history, seen, NOW + 5)[1] == 24.0


def test_a_sample_has_the_queues_and_milliseconds() -> None:
    its = load(NOW, active=1, backoff=2, waiting=3, gated=4, attempt_p50=0.0015, pod_p99=2.0)
    assert sampled((A, its))[0][3:] == [1, 2, 3, 4, 1.5, 0.0, 0.0, 2000.0]


def test_without_a_leader_that_reports_a_sample_is_a_gap() -> None:
    assert sampled((A, replace(load(NOW), at=NOW - 60))) == [[NOW]]
    assert History().sample(leadership(""), NOW) == [NOW]
