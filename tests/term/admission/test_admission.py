"""The queues of a cluster, kept current with the cache."""

from __future__ import annotations

from collections import deque

from podsched.api.objects import LocalQueue
from podsched.cache.cache import Cache
from podsched.config.queues import AdmissionFairSharing, QueuesConfiguration
from podsched.term.admission.admission import Admission
from support.gangs import gang


def test_nothing_is_due_while_there_are_no_queues() -> None:
    """The leader would wake for it at once, again and again: nothing is done then."""
    settings = QueuesConfiguration(admission_fair_sharing=AdmissionFairSharing())
    admission = Admission(Cache(), settings)
    deque(admission.refresh(1_000.0), maxlen=0)
    assert admission.next_time() is None


def test_it_is_known_that_units_are_being_read() -> None:
    cache = Cache()
    cache.apply("LocalQueue", None, LocalQueue())
    _, [pod] = gang("g", 1, 1)
    cache.apply("Pod", None, pod)
    admission = Admission(cache, QueuesConfiguration())
    assert [admission.is_refreshing for _ in admission.refresh(1_000.0)][:1] == [True]
    assert not admission.is_refreshing


def test_a_standby_collects_no_units_although_their_pod_groups_change() -> None:
    cache = Cache()
    admission = Admission(cache, QueuesConfiguration())
    admission.note("LocalQueue", None, LocalQueue())
    group, [pod] = gang("g", 1, 1)
    cache.apply("Pod", None, pod)
    cache.apply("PodGroup", None, group)
    admission.note("PodGroup", None, group)
    assert not admission._stale_later
