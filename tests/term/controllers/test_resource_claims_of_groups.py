"""Claims of PodGroups: made from templates, named in statuses, reserved and given back."""

from __future__ import annotations

import pytest

from podsched.api.device_claims import CLAIM_FINALIZER, POD_CLAIM_NAME
from podsched.api.objects import Pod, PodGroup, ResourceClaim, ResourceClaimTemplate
from podsched.term.controllers.resource_claims import ResourceClaimController
from podsched.term.controllers.write_queues import AbsentObject
from support.controller_world import ControllerWorld, bound_pod


def template() -> ResourceClaimTemplate:
    item = ResourceClaimTemplate()
    item.metadata.name, item.metadata.namespace = "gpus", "default"
    item.spec.metadata.labels["team"] = "x"
    item.spec.spec.devices.requests.add(name="r").exactly.device_class_name = "gpu"
    return item


def group(name: str = "g", **statuses: str) -> PodGroup:
    item = PodGroup()
    item.metadata.name, item.metadata.namespace, item.metadata.uid = name, "default", f"uid-{name}"
    item.spec.resource_claims.add(name="c", resource_claim_template_name="gpus")
    for claim, generated in statuses.items():
        item.status.resource_claim_statuses.add(name=claim, resource_claim_name=generated)
    return item


def member(name: str, node: str = "", *, other: bool = False) -> Pod:
    made = bound_pod(name, node)
    made.metadata.uid = f"uid-{name}"
    made.spec.scheduling_group.pod_group_name = "g"
    made.spec.resource_claims.add(name="c", resource_claim_template_name="gpus")
    if other:
        made.spec.resource_claims.add(name="own", resource_claim_template_name="gpus")
    return made


def claims(world: ControllerWorld) -> list[ResourceClaim]:
    found = world.objects("ResourceClaim").values()
    return [item for item in found if isinstance(item, ResourceClaim)]


def told(world: ControllerWorld, kind: str, name: str) -> dict[str, str]:
    found = world.get(kind, f"default/{name}")
    assert isinstance(found, Pod | PodGroup)
    return {of.name: of.resource_claim_name for of in found.status.resource_claim_statuses}


def begun() -> ControllerWorld:
    world = ControllerWorld()
    world.start(ResourceClaimController(world, world, world))
    return world


def test_a_claim_is_made_for_the_group_and_named_in_its_status() -> None:
    world = begun()
    world.put(template())
    world.put(group())
    world.settle()
    [claim] = claims(world)
    assert claim.metadata.name.startswith("g-c-")
    assert dict(claim.metadata.labels) == {"team": "x"}
    assert claim.metadata.annotations[POD_CLAIM_NAME] == "c"
    [owner] = claim.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller) == ("PodGroup", "g", True)
    assert owner.api_version.startswith("scheduling.k8s.io/")
    assert told(world, "PodGroup", "g") == {"c": claim.metadata.name}


def test_pods_without_claims_stay_ignored_while_only_groups_own_claims() -> None:
    world = ControllerWorld()
    controller = ResourceClaimController(world, world, world)
    world.start(controller)
    world.put(template())
    world.put(group())
    world.settle()
    assert len(claims(world)) == 1
    assert controller.ignores_bare_pods


def test_a_group_waits_for_its_template_and_is_told_so() -> None:
    world = begun()
    world.put(group())
    world.settle()
    assert claims(world) == []
    assert world.recorded == [
        'PodGroupResourceClaim c: resource claim template "gpus": '
        'resourceclaimtemplate.resource.k8s.io "gpus" not found'
    ]
    world.put(template())
    world.settle()
    assert len(claims(world)) == 1


def test_a_claim_that_is_deleted_is_made_again() -> None:
    world = begun()
    world.put(template())
    world.put(group())
    world.settle()
    [claim] = claims(world)
    world.remove("ResourceClaim", f"default/{claim.metadata.name}")
    world.settle()
    [again] = claims(world)
    assert told(world, "PodGroup", "g") == {"c": again.metadata.name}


def test_a_claim_whose_status_was_not_written_is_found() -> None:
    world = begun()
    world.put(template())
    world.put(group())
    world.settle()
    world.put(group())  # Its status is lost.
    world.settle()
    assert len(claims(world)) == 1
    assert told(world, "PodGroup", "g") == {"c": claims(world)[0].metadata.name}


def test_members_name_the_claim_of_the_group_and_make_only_their_own() -> None:
    world = begun()
    world.put(template())
    world.put(group())
    world.put(member("p", other=True))
    world.settle()
    made = {claim.metadata.name for claim in claims(world)}
    [shared] = told(world, "PodGroup", "g").values()
    [own] = made - {shared}
    assert own.startswith("p-own-")
    assert told(world, "Pod", "p") == {"c": shared, "own": own}


def allocated() -> ResourceClaim:
    item = ResourceClaim()
    item.metadata.name, item.metadata.namespace = "g-c-abcde", "default"
    item.metadata.finalizers.append(CLAIM_FINALIZER)
    item.metadata.owner_references.add(
        api_version="scheduling.k8s.io/v1alpha2", kind="PodGroup", name="g", uid="uid-g",
        controller=True,
    )  # fmt: skip
    item.status.allocation.devices.results.add(request="r", driver="d", pool="p", device="0")
    return item


def reserved(item: ResourceClaim) -> ResourceClaim:
    item.status.reserved_for.add(
        api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-g"
    )
    return item


def consumers(world: ControllerWorld) -> list[tuple[str, str]]:
    [claim] = claims(world)
    return [(of.resource, of.uid) for of in claim.status.reserved_for]


def test_a_claim_is_reserved_for_the_group_of_a_pod_that_was_bound_by_hand() -> None:
    world = begun()
    world.put(group(c="g-c-abcde"))
    world.put(allocated())
    world.put(member("p", "n1"))
    world.settle()
    assert consumers(world) == [("podgroups", "uid-g")]


@pytest.mark.parametrize("seen", [True, False])
def test_the_devices_are_given_back_when_the_group_is_gone(*, seen: bool) -> None:
    world = begun()
    if seen:
        world.put(group(c="g-c-abcde"))
    world.put(reserved(allocated()))
    if seen:
        world.settle()
        assert consumers(world) == [("podgroups", "uid-g")]
        world.remove("PodGroup", "default/g")
    world.settle()
    assert consumers(world) == []
    assert not claims(world)[0].status.HasField("allocation")


def test_a_group_that_only_the_api_server_has_keeps_its_claim() -> None:
    world = begun()
    world.hidden.add(AbsentObject("PodGroup", "default", "g", "uid-g"))
    world.put(reserved(allocated()))
    world.settle()
    assert consumers(world) == [("podgroups", "uid-g")]


def test_a_group_that_is_gone_waits_for_no_template() -> None:
    world = begun()
    world.put(group())
    world.settle()
    world.remove("PodGroup", "default/g")
    world.settle()
    assert not vars(world.controller)["_index"]._waiting
