"""Who may write which part of a claim's status."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from podsched.api.objects import ClusterRole, ResourceClaim
from podsched.serve.server.errors import ApiError
from podsched.serve.server.pipeline import Pipeline
from support.access_world import binding_of, calling, identity, rule
from support.api_world import World
from support.kube_client import KubeClient

BOB = identity("bob")
DRIVER = "gpu.example.com"
GROUPS = ("resource.k8s.io",)


async def permit(world: World, *rules: tuple[str, Sequence[str], Sequence[str]]) -> None:
    """Give bob resourceclaims/status, and these rules: resource, verbs, names."""
    role = ClusterRole()
    role.metadata.name = "claims"
    for verb in ("patch", "update"):
        role.rules.append(rule(verb, "resourceclaims/status", groups=GROUPS))
    for resource, verbs, names in rules:
        role.rules.add(verbs=verbs, api_groups=GROUPS, resources=[resource], resource_names=names)
    for item in (role, binding_of("claims", "bob")):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()


@pytest.fixture
async def claim(world: World) -> ResourceClaim:
    item = ResourceClaim()
    item.metadata.name, item.metadata.namespace = "c", "default"
    request = item.spec.devices.requests.add(name="gpu")
    request.exactly.device_class_name = DRIVER
    await world.core.creator.create(item)
    return item


def allocate(claim: ResourceClaim) -> ResourceClaim:
    place = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
    claim.status.allocation.devices.results.add(request="gpu", **place)
    return claim


def tell(claim: ResourceClaim) -> ResourceClaim:
    claim.status.devices.add(driver=DRIVER, pool="node-1", device="gpu-0")
    return claim


async def refusal(world: World, claim: ResourceClaim) -> str:
    with calling(world.core, BOB):
        try:
            await world.core.registry.update(claim, status=True)
        except ApiError as error:
            return error.message
    return ""


async def test_an_allocation_needs_binding_in_all_namespaces(
    world: World, claim: ResourceClaim
) -> None:
    await permit(world)
    assert await refusal(world, allocate(claim)) == (
        'ResourceClaim.resource.k8s.io "c" is invalid: status: Forbidden: changing '
        "status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="update" permission: '
        'resourceclaims.resource.k8s.io is forbidden: User "bob" cannot update resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )


async def test_kubernetes_face_refuses_it_as_well(world: World, claim: ResourceClaim) -> None:
    await permit(world)
    asking = Pipeline(authenticate=lambda _: BOB, authorize=world.core.authorizer.rights_of)
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status"
    patch = {"status": {"allocation": {}}}
    client = KubeClient(world.core, asking)
    media = {"content-type": "application/merge-patch+json"}
    refused = await client.request("PATCH", path, patch, media)
    assert refused.status == 422
    assert 'requires resource="resourceclaims/binding", verb="patch"' in refused.json["message"]


async def test_who_has_binding_allocates_and_does_not_tell_of_devices(
    world: World, claim: ResourceClaim
) -> None:
    await permit(world, ("resourceclaims/binding", ["update"], []))
    assert await refusal(world, allocate(claim)) == ""
    assert await refusal(world, tell(claim)) == (
        'ResourceClaim.resource.k8s.io "c" is invalid: status: Forbidden: changing status.devices '
        'requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: '
        'resourceclaims.resource.k8s.io "gpu.example.com" is forbidden: User "bob" cannot '
        'arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in '
        'the namespace "default"'
    )


@pytest.mark.parametrize(("name", "permitted"), [(DRIVER, True), ("nic.example.com", False)])
async def test_a_driver_tells_of_its_own_devices(
    world: World, claim: ResourceClaim, name: str, permitted: bool
) -> None:
    await world.core.registry.update(allocate(claim), status=True)
    await permit(world, ("resourceclaims/driver", ["arbitrary-node:update"], [name]))
    assert (await refusal(world, tell(claim)) == "") is permitted


async def test_what_drivers_tell_is_removed_by_who_may_tell_it(
    world: World, claim: ResourceClaim
) -> None:
    await world.core.registry.update(tell(allocate(claim)), status=True)
    await permit(world)
    del claim.status.devices[:]
    assert "changing status.devices requires" in await refusal(world, claim)


async def test_the_scheduler_allocates_and_frees(world: World, claim: ResourceClaim) -> None:
    scheduler = identity("system:kube-scheduler")
    await world.core.reflector.wait_until_fresh()
    with calling(world.core, scheduler):
        await world.core.registry.update(tell(allocate(claim)), status=True)
        claim.ClearField("status")
        await world.core.registry.update(claim, status=True)
