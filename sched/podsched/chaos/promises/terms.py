"""One leader at a time: terms increase, and no term writes once another has begun."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from podsched.chaos.history import History
from podsched.chaos.promises.violation import Violation
from podsched.chaos.replay import PODS, replay

INCREASE = "terms strictly increase"
FENCED = "no write of a term after a later term"


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
    """Find revisions, which number the terms, that do not increase; and writes of no known term."""
    last = 0
    for revision in history.revisions:
        if revision.number <= last:
            text = f"revision {revision.number} came after revision {last}"
            yield Violation(INCREASE, text, revision.at, revision.number)
        last = revision.number
    known = {term.number for term in terms_of(history)}
    for write in history.writes:
        if write.lock == history.begin.lock and write.term not in known:
            text = f"{write.server} has done {write.method} of term {write.term}, which never began"
            yield Violation(INCREASE, text, write.at, max(write.revisions, default=0))


def fenced(history: History) -> Iterator[Violation]:
    """Find pods bound, or evicted for a reason, by a term that did not hold the lock any more.

    Who wrote a revision is known from the API servers' records of fenced writes. A call of a
    deposed term may be answered with success although it wrote nothing, when another one had done
    the same before: so a revision counts for the term in office if that claims it as well.
    """
    terms = terms_of(history)
    starts = [term.number for term in terms]
    claims: dict[int, set[int]] = defaultdict(set)
    for write in history.writes:
        if write.lock == history.begin.lock:
            for number in write.revisions:
                claims[number].add(write.term)
    for moment in replay(history):
        number, at = moment.revision.number, moment.revision.at
        written = [
            c for c in moment.pods if c.bound or (c.marked and c.after and c.after.disrupted)
        ]
        if not written or not claims[number]:
            continue
        place = bisect_right(starts, number) - 1
        office = terms[place] if place >= 0 else None
        if office is not None and office.ended and office.ended <= number:
            office = None
        if office is not None and office.number in claims[number]:
            continue
        keys = tuple(PODS + change.key for change in written)
        since = f"term {office.number} began" if office else "it had ended"
        text = (
            f"term {max(claims[number])} wrote {', '.join(keys)} at revision {number}, "
            f"after {since}"
        )
        yield Violation(FENCED, text, at, number, keys)
