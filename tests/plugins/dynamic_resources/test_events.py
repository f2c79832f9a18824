"""Which pods an event of a claim may help."""

from __future__ import annotations

from collections.abc import Iterable

from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.events import QueueingHint, Resource
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.events import dynamic_resources_events
from podsched.v1 import objects_pb2 as v1
from support.device_objects import resource_claim, user


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
    (found,) = [of for of in events if of.event.resource is Resource.RESOURCE_CLAIM]
    assert found.index is not None
    assert found.hint is not None
    index = found.index()
    for name, pod in PODS.items():
        index.add(name, pod)
    candidates: Iterable[object] | None = index.candidates(old, new)
    asked = {name for name, pod in PODS.items() if found.hint(pod, old, new) is QueueingHint.QUEUE}
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
