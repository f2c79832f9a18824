"""Objects that the scheduler cannot use are set aside, and everything else goes on."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import ClusterQueue, Cohort, LocalQueue, PodGroup
from podsched.cache.invariants import check
from podsched.config.load import default_config
from podsched.registry import factories
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.term.state import SchedulingState, build_state
from support.cache_world import make_node, make_pod

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


def node(name: str, cpu: str = "4") -> Any:
    item = make_node(name)
    item.status.allocatable["cpu"] = cpu
    return item


def pod(name: str, cpu: str = "1", node_name: str = "") -> Any:
    item = make_pod(name, node=node_name)
    item.spec.scheduler_name = "default-scheduler"
    container = item.spec.containers[0] if item.spec.containers else item.spec.containers.add()
    container.resources.requests["cpu"] = cpu
    return item


class Replica:
    """A scheduling state, and the informer's batches as they come."""

    def __init__(self) -> None:
        self.state: SchedulingState = build_state(default_config(), factories(), seed=1)
        self._known: dict[str, Any] = {}

    def tell(self, *objects: Any) -> None:
        """Tell of objects as they are now, in one batch; the cache is consistent afterwards."""
        events = [self._event(item) for item in objects]
        self.state.apply_batch(Batch(1, events), 1.0)
        check(self.state.cache)

    def _event(self, item: Any) -> Event:
        kind, metadata = item.DESCRIPTOR.name, item.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        old = self._known.get(key)
        self._known[key] = item
        return Event(ADDED if old is None else MODIFIED, kind, key, old, item)

    def remove(self, key: str) -> None:
        old = self._known.pop(key)
        event = Event(DELETED, old.DESCRIPTOR.name, key, old, None)
        self.state.apply_batch(Batch(1, [event]), 1.0)
        check(self.state.cache)

    @property
    def nodes(self) -> list[str]:
        return sorted(n.metadata.name for n in self.state.cache.cluster.list("Node"))

    @property
    def waiting(self) -> list[str]:
        return [
            queued.key for queued in self.state.queue.attempts.pop_batch(2.0, 100, may_join=None)
        ]


class UnreadableGroups:
    """A cache that cannot read any PodGroup, and knows none."""

    def __init__(self) -> None:
        self.cluster = self

    def apply(self, kind: str, old: Any, new: Any) -> Any:
        raise ValueError(kind)

    def get(self, kind: str, namespace: str, name: str) -> None:
        return None


@pytest.fixture
def replica() -> Replica:
    return Replica()


def test_a_node_without_a_quantity_where_one_belongs_is_not_there(replica: Replica) -> None:
    replica.tell(node("a"), node("broken", "lots"), node("b"))
    assert replica.nodes == ["a", "b"]
    assert len(replica.state.set_aside) == 1
    assert "QuantityError" in replica.state.set_aside.reason("Node", "broken")


def test_a_node_that_becomes_unusable_goes_and_comes_back_with_its_pods(
    replica: Replica,
) -> None:
    replica.tell(node("a"), pod("p", node_name="a"))
    replica.tell(node("a", "lots"))
    assert replica.nodes == []
    replica.tell(node("a", "8"))
    assert replica.nodes == ["a"]
    assert len(replica.state.cache.held) == 1
    assert len(replica.state.set_aside) == 0


def cluster_queue(name: str, quota: str = "8", strategy: str = "") -> ClusterQueue:
    item = ClusterQueue()
    item.metadata.name, item.spec.queueing_strategy = name, strategy
    group = item.spec.resource_groups.add(covered_resources=["cpu"])
    group.flavors.add(name="default").resources.add(name="cpu", nominal_quota=quota)
    return item


def cohort(name: str, weight: str) -> Cohort:
    item = Cohort()
    item.metadata.name, item.spec.fair_sharing.weight = name, weight
    return item


def local_queue(name: str, weight: str = "1", used: str = "1") -> LocalQueue:
    item = LocalQueue()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.spec.fair_sharing.weight = weight
    status = item.status.fair_sharing.admission_fair_sharing_status
    status.consumed_resources["cpu"] = used
    return item


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (cluster_queue("good"), cluster_queue("bad", quota="much")),
        (cluster_queue("good"), cluster_queue("bad", strategy="Random")),
        (cohort("good", "2"), cohort("bad", "heavy")),
        (local_queue("good"), local_queue("bad", weight="heavy")),
        (local_queue("good"), local_queue("bad", used="much")),
    ],
    ids=["quota", "strategy", "weight of a Cohort", "weight of a LocalQueue", "past usage"],
)
def test_an_object_of_queues_with_an_unreadable_value_is_not_there(
    replica: Replica, good: Any, bad: Any
) -> None:
    replica.tell(good, bad)
    listed = replica.state.cache.cluster.list(good.DESCRIPTOR.name)
    assert [item.metadata.name for item in listed] == ["good"]
    for _ in replica.state.admission.refresh(2.0):
        pass


def test_a_pod_that_cannot_be_read_is_not_tried_and_the_next_one_is(replica: Replica) -> None:
    replica.tell(node("a"), pod("broken", "much"), pod("good"))
    assert replica.waiting == ["default/good"]
    ((reported, reason),) = replica.state.set_aside.take_unreported()
    assert (reported.metadata.name, "QuantityError" in reason) == ("broken", True)
    assert not replica.state.set_aside.take_unreported()


def test_a_pod_that_waited_and_becomes_unusable_leaves_the_queue(replica: Replica) -> None:
    replica.tell(pod("p"))
    replica.tell(pod("p", "much"))
    assert replica.waiting == []
    replica.tell(pod("p", "2"))
    assert replica.waiting == ["default/p"]


def test_a_bound_pod_is_counted_again_when_it_was_put_right(replica: Replica) -> None:
    replica.tell(node("a"), pod("p", node_name="a"))
    replica.tell(pod("p", "much", node_name="a"))
    assert len(replica.state.cache.held) == 0
    assert not replica.state.set_aside.take_unreported()
    replica.tell(pod("p", "2", node_name="a"))
    assert len(replica.state.cache.held) == 1


@pytest.mark.parametrize("broken", [node("x", "lots"), pod("x", "much")])
def test_what_is_deleted_is_not_set_aside_any_more(replica: Replica, broken: Any) -> None:
    replica.tell(broken)
    assert len(replica.state.set_aside) == 1
    metadata = broken.metadata
    replica.remove(f"{metadata.namespace}/{metadata.name}" if metadata.namespace else "x")
    assert len(replica.state.set_aside) == 0
    assert not replica.state.set_aside.take_unreported()


def test_a_pod_that_changes_before_it_is_reported_is_reported_as_it_is_then(
    replica: Replica,
) -> None:
    replica.tell(pod("p", "much"))
    changed = pod("p", "much")
    changed.metadata.labels["app"] = "web"
    replica.tell(changed)
    ((reported, _),) = replica.state.set_aside.take_unreported()
    assert reported.metadata.labels["app"] == "web"
    replica.tell(pod("p", "much"))
    assert not replica.state.set_aside.take_unreported()


def test_a_pod_is_reported_although_another_kind_of_the_same_name_is_put_right(
    replica: Replica,
) -> None:
    group = PodGroup(metadata={"name": "p", "namespace": "default"})
    set_aside, cache = replica.state.set_aside, replica.state.cache
    replica.tell(pod("p", "much"))
    set_aside.apply(UnreadableGroups(), Event(ADDED, "PodGroup", "default/p", None, group))  # type: ignore[arg-type]
    assert len(set_aside) == 2
    set_aside.apply(cache, Event(MODIFIED, "PodGroup", "default/p", group, group))
    ((reported, _),) = set_aside.take_unreported()
    assert reported.metadata.name == "p"
