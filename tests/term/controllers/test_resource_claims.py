"""ResourceClaims: made from templates, reserved, given back."""

from __future__ import annotations

import re

import pytest

from podsched.api.device_claims import CLAIM_FINALIZER, POD_CLAIM_NAME
from podsched.api.objects import Pod, PodGroup, ResourceClaim, ResourceClaimTemplate
from podsched.api.owners import add_controller
from podsched.api.queue_labels import QUEUE_NAME
from podsched.serve.client.errors import Invalid, Unavailable
from podsched.term.controllers.resource_claims import IDLE, ResourceClaimController
from podsched.term.controllers.write_queues import AbsentObject
from support.controller_world import ControllerWorld, bound_pod


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(ResourceClaimController(world, world, world))
    return world


def template(name: str = "gpus") -> ResourceClaimTemplate:
    item = ResourceClaimTemplate()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.spec.metadata.labels["team"] = "x"
    item.spec.metadata.annotations["note"] = "y"
    item.spec.spec.devices.requests.add(name="r").exactly.device_class_name = "gpu"
    return item


def pod(name: str = "p", node: str = "", *, of: str = "gpus", claim: str = "") -> Pod:
    made = bound_pod(name, node)
    made.metadata.uid = f"uid-{name}"
    if claim:
        made.spec.resource_claims.add(name="c", resource_claim_name=claim)
    else:
        made.spec.resource_claims.add(name="c", resource_claim_template_name=of)
    return made


def allocated(name: str, *pods: str, finalizer: bool = True) -> ResourceClaim:
    """A claim with a device that is reserved for pods, and what its driver told."""
    item = ResourceClaim()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.metadata.finalizers.extend([CLAIM_FINALIZER] * finalizer)
    item.status.allocation.devices.results.add(request="r", driver="d", pool="p", device="0")
    item.status.devices.add(driver="d", pool="p", device="0")
    for of in pods:
        item.status.reserved_for.add(resource="pods", name=of, uid=f"uid-{of}")
    return item


def claims(world: ControllerWorld) -> list[ResourceClaim]:
    found = world.objects("ResourceClaim")
    return [item for _, item in sorted(found.items()) if isinstance(item, ResourceClaim)]


def claim(world: ControllerWorld, name: str = "c") -> ResourceClaim:
    found = world.get("ResourceClaim", f"default/{name}")
    assert isinstance(found, ResourceClaim)
    return found


def consumers(world: ControllerWorld, name: str = "c") -> list[str]:
    return [of.name for of in claim(world, name).status.reserved_for]


def is_free(item: ResourceClaim) -> bool:
    status = item.status
    left = status.HasField("allocation") or status.reserved_for or status.devices
    return not left and CLAIM_FINALIZER not in item.metadata.finalizers


def named(world: ControllerWorld, name: str = "p") -> dict[str, str]:
    """The generated claims that a pod's status names."""
    statuses = world.pod(f"default/{name}").status.resource_claim_statuses
    return {of.name: of.resource_claim_name for of in statuses}


# ------------------------------------------------------------------ templates


def test_a_pod_gets_its_claim_from_the_template_and_controls_it(world: ControllerWorld) -> None:
    world.put(template())
    world.put(pod())
    world.settle()
    [made] = claims(world)
    assert made.metadata.name.startswith("p-c-") and len(made.metadata.name) == len("p-c-") + 5
    assert named(world) == {"c": made.metadata.name}
    assert made.spec.devices.requests[0].exactly.device_class_name == "gpu"
    assert dict(made.metadata.labels) == {"team": "x"}
    assert dict(made.metadata.annotations) == {"note": "y", POD_CLAIM_NAME: "c"}
    [owner] = made.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("v1", "Pod", "p", "uid-p")
    assert owner.controller and owner.block_owner_deletion


def test_a_pod_with_two_templates_gets_two_claims(world: ControllerWorld) -> None:
    world.put(template())
    world.put(template("nics"))
    both = pod()
    both.spec.resource_claims.add(name="net", resource_claim_template_name="nics")
    world.put(both)
    world.settle()
    assert sorted(named(world)) == ["c", "net"]
    assert {item.metadata.name for item in claims(world)} == set(named(world).values())


def test_long_names_are_cut_so_that_both_can_be_read(world: ControllerWorld) -> None:
    world.put(template())
    long = pod("p" * 60)
    long.spec.resource_claims[0].name = "c" * 40
    world.put(long)
    world.settle()
    [made] = claims(world)
    assert made.metadata.name[:-5] == "p" * 33 + "-" + "c" * 22 + "-"


def test_a_pod_is_told_why_its_claim_cannot_be_created(world: ControllerWorld) -> None:
    world.refuse = lambda item: Invalid("no label") if isinstance(item, ResourceClaim) else None
    world.put(template())
    world.put(pod())
    world.settle()
    [told] = world.recorded
    assert re.fullmatch(r"PodResourceClaim c: create ResourceClaim p-c-\w{5}: no label", told)


def test_an_outage_is_not_told_to_pods_whose_claims_are_created_later(
    world: ControllerWorld,
) -> None:
    world.refuse = lambda item: (
        Unavailable("no server") if isinstance(item, ResourceClaim) else None
    )
    world.put(template())
    world.put(pod())
    world.settle()
    assert world.recorded == []


def test_a_pod_waits_for_its_template_and_is_told_so_once(world: ControllerWorld) -> None:
    world.put(pod())
    world.settle()
    world.put(pod())
    world.settle()
    assert world.recorded == [
        'PodResourceClaim c: resource claim template "gpus": '
        'resourceclaimtemplate.resource.k8s.io "gpus" not found'
    ]
    world.put(template())
    world.settle()
    assert list(named(world)) == ["c"]


def test_a_name_that_another_claim_has_is_not_used(world: ControllerWorld) -> None:
    world.put(template())
    world.put(pod())
    world.settle()
    name = named(world)["c"]
    world.remove("Pod", "default/p")
    world.remove("ResourceClaim", f"default/{name}")
    foreign = ResourceClaim()
    foreign.metadata.name, foreign.metadata.namespace = name, "default"
    world.put(foreign)
    world.put(pod())
    world.settle()
    assert named(world)["c"] != name
    assert len(claims(world)) == 2


def test_a_claim_of_another_namespace_that_names_a_pod_as_its_owner_is_not_its_claim(
    world: ControllerWorld,
) -> None:
    stranger = ResourceClaim()
    stranger.metadata.name, stranger.metadata.namespace = "stranger", "other"
    stranger.metadata.annotations[POD_CLAIM_NAME] = "c"
    add_controller(stranger.metadata, pod())
    world.put(stranger)
    world.put(template())
    world.put(pod())
    world.settle()
    assert named(world)["c"].startswith("p-c-")


def test_a_generated_claim_that_is_deleted_is_made_again(world: ControllerWorld) -> None:
    world.put(template())
    world.put(pod())
    world.settle()
    world.remove("ResourceClaim", f"default/{named(world)['c']}")
    world.settle()
    assert [item.metadata.name for item in claims(world)] == [named(world)["c"]]


def test_pods_that_end_or_are_deleted_get_no_claim(world: ControllerWorld) -> None:
    world.put(template())
    ended, going = pod("ended"), pod("going", "n")
    ended.status.phase = "Succeeded"
    going.metadata.deletion_timestamp.seconds = 1
    world.put(ended)
    world.put(going)
    world.settle()
    assert not claims(world)


def test_a_new_leader_names_the_claim_that_its_predecessor_made() -> None:
    """The predecessor was killed between the two writes."""
    world = ControllerWorld()
    world.put(template())
    world.put(pod())
    made = ResourceClaim()
    made.metadata.name, made.metadata.namespace = "p-c-old", "default"
    made.metadata.annotations[POD_CLAIM_NAME] = "c"
    made.metadata.owner_references.add(
        api_version="v1", kind="Pod", name="p", uid="uid-p", controller=True
    )
    world.put(made)
    world.start(ResourceClaimController(world, world, world))
    assert named(world) == {"c": "p-c-old"}
    assert len(claims(world)) == 1


# ------------------------------------------------------------------ reservations


def test_devices_are_free_when_the_last_pod_is_gone(world: ControllerWorld) -> None:
    world.put(pod("a", "n", claim="c"))
    world.put(pod("b", "n", claim="c"))
    world.put(allocated("c", "a", "b"))
    world.settle()
    world.remove("Pod", "default/a")
    world.settle()
    assert consumers(world) == ["b"]
    assert claim(world).status.HasField("allocation")
    ended = pod("b", "n", claim="c")
    ended.status.phase = "Failed"
    world.put(ended)
    world.settle()
    assert is_free(claim(world))


def test_a_pod_that_shuts_down_keeps_its_devices(world: ControllerWorld) -> None:
    world.put(allocated("c", "p"))
    going = pod("p", "n", claim="c")
    going.metadata.deletion_timestamp.seconds = 1
    world.put(going)
    world.settle()
    assert consumers(world) == ["p"]


def test_a_pod_that_is_deleted_before_it_was_bound_keeps_none(world: ControllerWorld) -> None:
    world.put(allocated("c", "p"))
    going = pod("p", claim="c")
    going.metadata.deletion_timestamp.seconds = 1
    world.put(going)
    world.settle()
    assert is_free(claim(world))


def test_another_pod_of_the_same_name_is_no_consumer(world: ControllerWorld) -> None:
    world.put(allocated("c", "p"))
    other = pod("p", claim="c")
    other.metadata.uid = "another"
    world.put(other)
    world.settle()
    assert is_free(claim(world))


def test_a_pod_that_only_the_api_server_knows_keeps_its_devices(world: ControllerWorld) -> None:
    world.hidden.add(AbsentObject("Pod", "default", "ghost", "uid-ghost"))
    world.put(allocated("c", "ghost"))
    world.settle()
    assert consumers(world) == ["ghost"]
    world.hidden.clear()
    world.put(claim(world))
    world.settle()
    assert is_free(claim(world))


def test_consumers_that_are_no_pods_are_not_judged(world: ControllerWorld) -> None:
    item = allocated("c", "gone")
    item.status.reserved_for.add(api_group="example.com", resource="things", name="x", uid="u")
    world.put(item)
    world.settle()
    assert consumers(world) == ["x"]
    assert claim(world).status.HasField("allocation")


def test_an_unreserved_allocation_stays_for_a_while(world: ControllerWorld) -> None:
    world.put(allocated("c"))
    world.wait(IDLE)
    assert claim(world).status.HasField("allocation")
    world.wait(1)
    assert is_free(claim(world))


def test_work_returns_when_an_allocation_is_idle_long_enough_however_many_claims_it_examined(
    world: ControllerWorld,
) -> None:
    world.put(allocated("idle"))
    for number in range(99):
        world.put(allocated(f"used{number}", finalizer=False))
    assert world.settle() == world.now.monotonic + IDLE


def test_an_allocation_stays_as_long_as_a_pod_may_want_it(world: ControllerWorld) -> None:
    world.put(allocated("c"))
    world.put(pod("p", claim="c"))
    world.wait(IDLE * 2)
    assert claim(world).status.HasField("allocation")
    world.remove("Pod", "default/p")
    world.wait(IDLE - 1)
    assert claim(world).status.HasField("allocation")
    world.put(pod("q", claim="c"))
    world.wait(2)
    assert claim(world).status.HasField("allocation")
    world.remove("Pod", "default/q")
    world.wait(IDLE + 1)
    assert is_free(claim(world))


@pytest.mark.parametrize("labelled", ["Pod", "PodGroup"])
def test_an_allocation_does_not_stay_for_a_pod_that_waits_in_a_queue(
    world: ControllerWorld, labelled: str
) -> None:
    waits, group = pod("p", claim="c"), PodGroup()
    group.metadata.name, group.metadata.namespace = "g", "default"
    waits.spec.scheduling_group.pod_group_name = "g"
    of = {"Pod": waits, "PodGroup": group}[labelled]
    of.metadata.labels[QUEUE_NAME] = "team"
    for item in (group, waits, allocated("c")):
        world.put(item)
    world.wait(IDLE - 1)
    assert claim(world).status.HasField("allocation")
    world.wait(2)
    assert is_free(claim(world))


def test_an_allocation_stays_for_a_pod_of_a_queue_that_runs(world: ControllerWorld) -> None:
    waits = pod("p", claim="c")
    waits.metadata.labels[QUEUE_NAME] = "team"
    world.put(waits)
    world.put(allocated("c"))
    world.wait(IDLE - 1)
    waits.spec.node_name = "n"
    world.put(waits)
    world.wait(IDLE)
    assert consumers(world) == ["p"]


def test_an_ended_pod_does_not_want_an_allocation(world: ControllerWorld) -> None:
    world.put(allocated("c"))
    item = pod("p", "n", claim="c")
    item.status.phase = "Succeeded"
    world.put(item)
    world.wait(IDLE + 1)
    assert is_free(claim(world))


def test_an_allocation_made_by_hand_stays_without_a_user(world: ControllerWorld) -> None:
    """It has no finalizer."""
    world.put(allocated("c", finalizer=False))
    world.wait(IDLE * 2)
    assert claim(world).status.HasField("allocation")


def test_a_new_leader_frees_what_its_predecessor_left_without_a_user() -> None:
    world = ControllerWorld()
    world.put(allocated("c"))
    world.start(ResourceClaimController(world, world, world))
    world.wait(IDLE)
    assert is_free(claim(world))


def test_a_deleted_claim_goes_when_no_pod_uses_it(world: ControllerWorld) -> None:
    world.put(pod("p", "n", claim="c"))
    world.mark(world.put(allocated("c", "p")))
    world.settle()
    assert consumers(world) == ["p"]
    world.remove("Pod", "default/p")
    world.settle()
    assert not claims(world)
    world.mark(world.put(allocated("unused")))
    world.settle()
    assert not claims(world)


def test_an_allocation_of_another_allocator_is_not_cleared(world: ControllerWorld) -> None:
    """Without the scheduler's finalizer, the allocator of the claim takes its devices back."""
    world.put(allocated("c", "gone", finalizer=False))
    world.settle()
    assert not consumers(world)
    assert claim(world).status.HasField("allocation")


def test_generated_claims_of_ended_pods_are_deleted(world: ControllerWorld) -> None:
    world.put(template())
    world.put(pod())
    world.settle()
    name = named(world)["c"]
    taken = claim(world, name)
    taken.MergeFrom(allocated(name, "p"))
    world.put(taken)
    ended = world.pod("default/p")
    ended.status.phase = "Succeeded"
    world.put(ended)
    world.settle()
    assert not claims(world)
    assert world.deleted == [f"ResourceClaim default/{name} "]


def test_pods_bound_by_hand_are_added_to_claims_that_are_allocated(world: ControllerWorld) -> None:
    world.put(pod("p", "n", claim="c"))
    world.put(allocated("c", "p"))
    unallocated = ResourceClaim()
    unallocated.metadata.name, unallocated.metadata.namespace = "free", "default"
    world.put(unallocated)
    world.put(pod("q", "n", claim="c"))
    world.put(pod("r", "n", claim="free"))
    world.put(pod("waiting", claim="c"))
    world.settle()
    assert consumers(world) == ["p", "q"]
    assert not consumers(world, "free")


def test_no_claim_gets_more_consumers_than_the_api_permits(world: ControllerWorld) -> None:
    names = [f"p{number}" for number in range(257)]
    for name in names:
        world.put(pod(name, "n", claim="c"))
    world.put(allocated("c", *names[:255]))
    while world.settle() is not None:
        pass
    assert len(consumers(world)) == 256


def test_a_new_leader_drops_the_reservations_of_pods_that_are_gone() -> None:
    world = ControllerWorld()
    world.put(allocated("c", "gone"))
    world.start(ResourceClaimController(world, world, world))
    assert is_free(claim(world))


def test_nothing_is_remembered_of_pods_and_claims_that_are_gone(world: ControllerWorld) -> None:
    world.put(pod(of="missing"))
    world.put(template())
    world.put(pod("q"))
    world.settle()
    for kind in ("Pod", "ResourceClaim"):
        for key in list(world.objects(kind)):
            world.remove(kind, key)
    world.settle()
    kept = vars(vars(world.controller)["_index"])
    assert not any(kept[name] for name in ("users", "_waiting", "_queue"))
    assert not any(kept["owned"].values())
