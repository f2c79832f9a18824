"""The queues of a cluster, kept current with the cache."""

from __future__ import annotations

from collections import deque

from podsched.api.objects import AnyObject, ClusterQueue, LocalQueue
from podsched.cache.cache import Cache
from podsched.config.queues import AdmissionFairSharing, QueuesConfiguration
from podsched.term.admission.admission import Admission
from support.gangs import gang
from support.whatif_world import owned


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


class Queues:
    """The queues of a cache that is told of each object."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.admission = Admission(self.cache, QueuesConfiguration())

    def apply(self, kind: str, old: AnyObject | None, new: AnyObject | None) -> None:
        self.cache.apply(kind, old, new)
        if kind != "Pod":
            self.admission.note(kind, old, new)

    def cluster_queue(self, name: str) -> None:
        made = ClusterQueue()
        made.metadata.name = name
        made.spec.namespace_selector.SetInParent()
        self.apply("ClusterQueue", None, made)

    def queue_of(self, pod: str) -> str:
        return self.admission.turns.workloads[f"default/pod:{pod}"].queue


def test_a_queue_that_is_made_again_during_a_refresh_has_its_pods_in_another_one_after_it() -> None:
    def local_queue(uid: str, of: str) -> LocalQueue:
        made = LocalQueue()
        made.metadata.name, made.metadata.namespace = "default", "default"
        made.metadata.uid, made.spec.cluster_queue = uid, of
        return made

    queues, old, new = Queues(), local_queue("uid-1", "first"), local_queue("uid-2", "second")
    queues.cluster_queue("first")
    queues.apply("LocalQueue", None, old)
    queues.apply("Pod", None, owned("a"))
    deque(queues.admission.refresh(1_000.0), maxlen=0)
    assert queues.queue_of("a") == "first"
    queues.cache.cluster.known_pods.note("default/a")
    for _ in queues.admission.refresh(1_001.0):
        if "default/b" not in queues.cache.cluster.pods:
            queues.cluster_queue("second")
            queues.apply("LocalQueue", old, new)
            queues.apply("Pod", None, owned("b"))
    deque(queues.admission.refresh(1_002.0), maxlen=0)
    assert (queues.queue_of("a"), queues.queue_of("b")) == ("second", "second")
