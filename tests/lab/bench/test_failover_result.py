"""Figures of takeovers."""

from __future__ import annotations

from podsched.lab.bench.failover import FailoverLoad, FailoverResult, Takeover

ROUNDS = [
    Takeover("SIGKILL", 0.1 * n, 0.2 * n, 0.3 * n, [(f"default/p{n}", 1.0 * n)])
    for n in range(1, 11)
] + [Takeover("SIGTERM", 0.0, 0.1, 0.2)]


def test_each_step_of_each_fault_has_a_distribution() -> None:
    result = FailoverResult(FailoverLoad(10, 20, 100.0), 2, ROUNDS)
    assert list(result.faults) == ["SIGKILL", "SIGTERM"]
    assert result.figures("SIGKILL")["bound"] == {"p50": 1.5, "p90": 2.7, "p99": 3.0, "max": 3.0}
    assert result.figures("SIGTERM")["elected"] == dict.fromkeys(("p50", "p90", "p99", "max"), 0.1)
    assert max(map(len, result.lines())) <= 80


def test_the_pods_that_waited_longest_are_named() -> None:
    waited = FailoverResult(FailoverLoad(10, 20, 100.0), 2, ROUNDS).waited_longest()
    assert waited[0] == ("default/p10", 10.0, "SIGKILL")
    assert len(waited) == 5
