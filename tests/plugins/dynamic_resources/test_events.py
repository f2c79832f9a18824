"""Which pods an event of a claim may help."""

from __future__ import annotations

from collections.abc import Iterable

from podsched.api.extended_resources import EXTENDED_RESOURCE_CLAIM
from podsched.cache.pod_class import DEFAULT_SCHEDULER_NAME, PodClasses, make_pod_info
from podsched.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.events import dynamic_resources_events
from podsched.plugins.priority_sort import PrioritySort
from podsched.queue.scheduling_queue import SchedulingQueue
from podsched.v1 import objects_pb2 as v1
from support.device_objects import resource_claim, user
from support.engine_world import container, pod


def info(name: str, *, claim: str = "", created: str = "") -> PodInfo:
    """A pod that uses a claim, or that has one of a template once it is ``created``."""
    pod = user(name, claim=claim) if claim else user(name, template="gpus")
    if created:
        status = pod.status.resource_claim_statuses.add(name=pod.spec.resource_claims[0].name)
        status.resource_claim_name = created
    return make_pod_info(pod, PodClasses())


def allocated(name: str) -> v1.ResourceClaim:
    claim = resource_claim(name)
    claim.status.allocation.devices.results.add(driver="d", pool="p", device="0")
    return claim


PODS = {
    "waits": info("waits", claim="mine"),
    "created": info("created", created="of-created"),
    "not created": info("not-created"),
}


def helped(old: v1.ResourceClaim | None, new: v1.ResourceClaim | None) -> set[str]:
    """The pods that an event helps; the index and the hint have to agree."""
    events = dynamic_resources_events(lambda gone: False)
    (found,) = [
        of for of in events if of.event.resource is Resource.RESOURCE_CLAIM and not of.per_pod
    ]
    assert found.index is not None
    assert found.hint is not None
    index = found.index()
    for name, one in PODS.items():
        index.add(name, one)
    candidates: Iterable[object] | None = index.candidates(old, new)
    asked = {name for name, one in PODS.items() if found.hint(one, old, new) is QueueingHint.QUEUE}
    assert candidates is not None
    assert set(candidates) == asked
    return asked


def test_devices_that_are_given_back_help_pods_whose_claims_exist() -> None:
    for new in (None, resource_claim("other")):
        assert helped(allocated("other"), new) == {"waits", "created"}


def test_a_claim_helps_only_the_pod_that_uses_it() -> None:
    assert helped(None, resource_claim("mine")) == {"waits"}
    assert helped(None, allocated("of-created")) == {"created"}
    assert helped(None, resource_claim("other")) == set()


def test_the_claim_for_extended_resources_that_is_gone_helps_its_pod_among_equal_ones() -> None:
    events = {"DynamicResources": dynamic_resources_events(lambda gone: False)}
    queue = SchedulingQueue(PrioritySort(), {}, {DEFAULT_SCHEDULER_NAME: events})
    classes = PodClasses()
    spec = {"containers": [container({"example.com/gpu": "1"})]}
    first, second = (make_pod_info(pod(name, spec), classes) for name in ("first", "second"))
    assert first.cls is second.cls
    for waiting in (first, second):
        queue.add(waiting, 0.0)
    for tried in queue.attempts.pop_batch(0.0, 2):
        queue.attempts.add_unschedulable_if_not_present(
            tried, 0.0, unschedulable_plugins=events.keys()
        )
    gone = resource_claim("of-second")
    gone.metadata.annotations[EXTENDED_RESOURCE_CLAIM] = "true"
    gone.metadata.owner_references.add(kind="Pod", uid=second.uid, controller=True)
    deleted = ClusterEvent(Resource.RESOURCE_CLAIM, ActionType.DELETE)
    queue.move_all_to_active_or_backoff(deleted, gone, None, 0.5)
    assert [queue.place(one.uid) for one in (first, second)] == ["unschedulable", "backoff"]
