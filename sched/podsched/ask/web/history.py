"""The leaders of the last hour and their load."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from podsched.ask.web.sources import Leadership, Load

#: Seconds between two samples, and how many are kept: one hour.
PERIOD = 5.0
KEPT = 720
MOST_TERMS = 100
#: Age in seconds beyond which a replica's report of its load is too old for a sample.
_OLD = 30.0
Sample = list[float | int]
"""Time, pods bound and attempts failed per second, pods in the four queues, and the quantiles of
``Load`` in milliseconds. Without a leader, only the time."""


def _leadership_row(found: Leadership) -> dict[str, Any]:
    """Return the leadership in the page's form, without loads: samples have these."""
    return {
        "lock": found.lock,
        "leader": found.leader,
        "since": round(found.since, 1),
        "transitions": found.transitions,
        "paused": found.paused,
        "replicas": [[r.identity, r.state, r.term, r.page] for r in found.replicas],
    }


@dataclass(slots=True)
class Term:
    """The leadership of one replica, with times in Unix seconds.

    number: 0 while unknown; began: 0.0 if unknown; ended: 0.0 while it lasts.
    """

    leader: str
    number: int
    began: float
    ended: float


class History:
    """The last hour: leaders, and samples of the leader's load; bounded."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self.terms: deque[Term] = deque(maxlen=MOST_TERMS)
        #: The last loads of all replicas as of the last sample, and seen since then: counts of a
        #: replica include its earlier terms.
        self._before: dict[str, Load] = {}
        self._since: dict[str, Load] = {}
        self.changes: dict[str, Any] = {}
        """What the page has to be told."""
        self._leadership: dict[str, Any] = {}
        self._next_sample = 0.0

    def observe(self, found: Leadership, now: float, clock: float) -> None:
        """Note the leadership at a Unix time; take a sample if one is due by the clock."""
        if self.see(found, now):
            self.changes["terms"] = self.term_rows()
        if clock >= self._next_sample:
            self._next_sample = clock + PERIOD
            self.changes.setdefault("samples", []).append(self.sample(found, now))
        leadership = _leadership_row(found)
        if leadership != self._leadership:
            self._leadership = self.changes["leadership"] = leadership

    def state(self) -> dict[str, Any]:
        """Return all that the page shows of it."""
        return {
            "period": PERIOD,
            "leadership": self._leadership,
            "terms": self.term_rows(),
            "samples": list(self.samples),
        }

    def see(self, leadership: Leadership, now: float) -> bool:
        """Note the leader and the loads; return whether the leader has changed."""
        # The Lease of a killed replica may be another process's when the next sample is taken.
        self._since |= {r.identity: r.load for r in leadership.replicas if r.load is not None}
        current = self.terms[-1] if self.terms else None
        leading = leadership.leading
        number = leading.term if leading is not None else 0
        if current is not None and not current.ended:
            if current.leader == leadership.leader and number in (0, current.number):
                return False
            if current.leader == leadership.leader and not current.number:
                # A new leader's Lease is seen before its first report, which tells the number.
                current.number = number
                return True
            current.ended = min(now, leadership.since) if leadership.since > current.began else now
        elif not leadership.leader:
            return False
        if leadership.leader:
            began = leadership.since
            if current is not None and began < current.ended:
                began = current.ended
            self.terms.append(Term(leadership.leader, number, began, 0.0))
        return True

    def sample(self, leadership: Leadership, now: float) -> Sample:
        """Take a sample of what was seen since the last one, and of the leader's queues now."""
        rounded = round(now, 1)
        leading = leadership.leading
        load = leading.load if leading is not None else None
        found: Sample = [rounded]
        if load is not None and now - load.at < _OLD:
            # Of all replicas: the leader may have been another one when the last sample was taken.
            rates = [_rates(self._before.get(name), its) for name, its in self._since.items()]
            found += [round(sum(each), 1) for each in zip(*rates, strict=True)]
            found += [load.active, load.backoff, load.waiting, load.gated]
            quantiles = (load.attempt_p50, load.attempt_p99, load.pod_p50, load.pod_p99)
            found += [round(1000 * seconds, 3) for seconds in quantiles]
        self._before, self._since = self._since, {}
        self.samples.append(found)
        return found

    def term_rows(self) -> list[list[Any]]:
        """Return the terms in the page's form."""
        return [[t.leader, t.number, round(t.began, 1), round(t.ended, 1)] for t in self.terms]


def _rates(before: Load | None, now: Load) -> tuple[float, float]:
    """Return bound pods and failed attempts per second between two loads of a replica."""
    if before is None or now.at <= before.at:
        return 0.0, 0.0
    seconds = now.at - before.at
    failed = now.unschedulable + now.errors - before.unschedulable - before.errors
    return max(0, now.scheduled - before.scheduled) / seconds, max(0, failed) / seconds
