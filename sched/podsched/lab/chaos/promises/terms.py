"""One leader at a time: terms increase, and no term writes once another has begun."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsched.lab.chaos.history import PODS, History, Violation, disrupted, replay
from podsched.lab.chaos.records import FencedWrite

INCREASE = "terms strictly increase"
FENCED = "no write of a term after a later term"
#: Seconds between a call that its caller gave up and what it may have written all the same.
LATE = 30.0


@dataclass(slots=True)
class Term:
    """A term. ``ended``: the revision of its release or of the next term; 0: it goes on."""

    number: int
    holder: str
    began_at: float
    ended: int = 0
    ended_at: float = 0.0


def terms_of(history: History) -> list[Term]:
    """Return the terms of the history's lock, in the order of revisions."""
    key = f"terms/{history.begin.lock}"
    terms: list[Term] = []
    for revision in history.revisions:
        for change in revision.changes:
            if change.key != key:
                continue
            if terms and not terms[-1].ended:
                terms[-1].ended, terms[-1].ended_at = revision.number, revision.at
            if not change.deleted:
                terms.append(Term(revision.number, change.holder, revision.at))
    return terms


def terms_increase(history: History) -> Iterator[Violation]:
    """Find terms that do not increase, and writes of unknown terms."""
    last = 0
    for revision in history.revisions:
        if revision.number <= last:
            text = f"revision {revision.number} came after revision {last}"
            yield Violation(INCREASE, text, revision.at, revision.number)
        last = revision.number
    known = {term.number for term in terms_of(history)}
    for write in history.writes:
        if write.lock == history.begin.lock and write.revisions and write.term not in known:
            text = f"{write.server} has done {write.method} of term {write.term}, which never began"
            yield Violation(INCREASE, text, write.at, max(write.revisions, default=0))


def fenced(history: History) -> Iterator[Violation]:
    """Find pods that were bound or evicted by a term that no longer held the lock.

    The writers are known from the API servers' audit logs. A call of an old term may succeed
    without a write, if the same was done before; so a write that the present term may have made
    counts as its own.
    """
    terms = terms_of(history)
    calls = _Calls(history)
    for moment in replay(history):
        number, at = moment.revision.number, moment.revision.at
        current = _term_at(terms, number)
        for change in moment.pods:
            evicted = change.marked and change.after is not None and disrupted(change.after)
            if not (change.bound or evicted):
                continue
            writers = calls.writers(change.key, number, at)
            if not writers or (current is not None and current.number in writers):
                continue
            if current is not None and calls.may_be_unnamed(current.number, at):
                continue
            since = f"term {current.number} began" if current else "it had ended"
            text = f"term {max(writers)} wrote pod {change.key} at revision {number}, after {since}"
            yield moment.violation(FENCED, text, PODS + change.key)


def _term_at(terms: Sequence[Term], revision: int) -> Term | None:
    """Return the term that held the lock when a revision was written."""
    place = bisect_left([term.number for term in terms], revision) - 1
    if place < 0 or (terms[place].ended and terms[place].ended <= revision):
        return None
    return terms[place]


class _Calls:
    """The calls of all terms, by pod and by revision."""

    def __init__(self, history: History) -> None:
        self._by_pod: dict[str, list[FencedWrite]] = defaultdict(list)
        self._by_revision: dict[int, list[FencedWrite]] = defaultdict(list)
        #: Calls that their callers gave up, and whose pods are not all named.
        self._unnamed: list[FencedWrite] = []
        for call in history.writes:
            if call.lock == history.begin.lock:
                for pod in call.pods:
                    self._by_pod[pod].append(call)
                for number in call.revisions if call.more else ():
                    self._by_revision[number].append(call)
                if call.more and call.unheard:
                    self._unnamed.append(call)

    def may_be_unnamed(self, term: int, at: float) -> bool:
        """Return whether a term may have written any pod at a time: an audit log names a few."""
        return any(call.term == term and abs(call.at - at) < LATE for call in self._unnamed)

    def writers(self, pod: str, revision: int, at: float) -> set[int]:
        """Return the terms that have, or may have, written a pod at a revision."""
        return {
            call.term
            for call in self._by_pod[pod]
            if revision in call.revisions or (call.unheard and abs(call.at - at) < LATE)
        } | {call.term for call in self._by_revision[revision]}
