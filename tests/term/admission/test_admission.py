"""The queues of a cluster, kept current with the cache."""

from __future__ import annotations

from collections import deque

from podsched.cache.cache import Cache
from podsched.config.queues import AdmissionFairSharing, QueuesConfiguration
from podsched.term.admission.admission import Admission


def test_nothing_is_due_while_there_are_no_queues() -> None:
    """The leader would wake for it at once, again and again: nothing is done then."""
    settings = QueuesConfiguration(admission_fair_sharing=AdmissionFairSharing())
    admission = Admission(Cache(), settings)
    deque(admission.refresh(1_000.0), maxlen=0)
    assert admission.next_time() is None
