"""Decide which leader's calls an actor accepts, and how a new leader takes it over.

Actors are detached and outlive the leader that created them. A new leader calls ``adopt`` with its
term, which is higher than those of all leaders before it, and with the fingerprint of the actor
that it would create. An actor of this fingerprint follows that term and refuses calls of others.

    created --adopt(term >= own)--> follows the term --adopt(higher)--> follows that one
       |                                  |
       '--adopt(other fingerprint)--------'--> FOREIGN: the leader kills it and makes its own

After etcd is restored from a backup, the terms of new leaders may be lower. So a leader whose term
goes on for long although it is STALE to the actor makes its own, too.

Refusals are values, so that they cross Ray without being wrapped in errors.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import Any

from podsched import __version__


class Adoption(enum.Enum):
    """An actor's answer to a leader that wants to take it over."""

    ADOPTED = "follows the term from now on"
    STALE = "follows a higher term already"
    FOREIGN = "was made by other code or with another configuration"


@dataclass(frozen=True, slots=True)
class StaleTerm:
    """The answer to a call of a term that the actor does not follow; ``term`` is its own."""

    term: int


class TermGuard:
    """The term that an actor follows; 0 until the first adoption."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self.term = 0

    def adopt(self, term: int, fingerprint: str) -> Adoption:
        if fingerprint != self._fingerprint:
            return Adoption.FOREIGN
        # The same term is adopted again when its leader has lost Ray and joined it anew.
        if term < self.term:
            return Adoption.STALE
        self.term = term
        return Adoption.ADOPTED

    def refusal(self, term: int) -> StaleTerm | None:
        """Return the refusal of a call of this term; None if the actor follows the term."""
        return None if term == self.term else StaleTerm(self.term)


def fingerprint_of(*parts: Any) -> str:
    """Return a hash of podsched's version and of parts, as printed, to detect other actors.

    Processes pickle the same configuration differently: its models hold a set of given fields.
    """
    return hashlib.sha256(repr((__version__, parts)).encode()).hexdigest()
