"""The Service kubernetes: by which addresses pods find the API servers."""

from __future__ import annotations

from typing import cast

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import Endpoints, EndpointSlice, Lease, Service, timestamp
from podsched.serve.server.advertising import LEASE_SECONDS, Advertiser, advertised_address
from podsched.serve.server.core import ServerCore
from podsched.v1.api_pb2 import DeleteRequest
from support.api_world import World

KEY = "default/kubernetes"


def advertiser(world: World, address: str, core: ServerCore | None = None) -> Advertiser:
    core = core or world.core
    endpoint = (address, 6443)
    return Advertiser(core.creator, core.storage, core.cache, endpoint, lambda: world.now)


async def advertise(world: World, *these: Advertiser) -> None:
    for one in these:
        await one.advertise()
        await world.core.reflector.wait_until_fresh()
        for other in world.others:
            await other.reflector.wait_until_fresh()


def slice_of(world: World) -> list[str]:
    entry = world.core.cache.get(KINDS["EndpointSlice"], KEY)
    assert entry is not None
    return [a for one in cast(EndpointSlice, entry.message).endpoints for a in one.addresses]


async def test_the_service_has_the_address_and_port_of_the_api_server(world: World) -> None:
    await advertise(world, advertiser(world, "10.0.0.1"))
    service = cast(Service, (await world.core.storage.get(KINDS["Service"], KEY)).message)
    assert service.spec.cluster_ip == "10.0.0.1"
    assert [(port.name, port.port) for port in service.spec.ports] == [("https", 6443)]
    assert not service.spec.selector
    assert slice_of(world) == ["10.0.0.1"]
    found = cast(Endpoints, (await world.core.storage.get(KINDS["Endpoints"], KEY)).message)
    assert [a.ip for a in found.subsets[0].addresses] == ["10.0.0.1"]


async def test_a_service_that_is_already_there_stays(world: World) -> None:
    service = Service(metadata={"namespace": "default", "name": "kubernetes"})
    service.spec.cluster_ip = "10.96.0.1"
    service.spec.ports.add(port=443)
    await world.core.creator.create(service)
    await world.core.reflector.wait_until_fresh()
    await advertise(world, advertiser(world, "10.0.0.1"))
    kept = cast(Service, (await world.core.storage.get(KINDS["Service"], KEY)).message)
    assert kept.spec.cluster_ip == "10.96.0.1"


async def test_api_servers_are_listed_while_their_leases_are_valid(world: World) -> None:
    first, second = advertiser(world, "10.0.0.1"), advertiser(world, "10.0.0.2")
    await advertise(world, first, second, first)
    assert slice_of(world) == ["10.0.0.1", "10.0.0.2"]
    world.now += LEASE_SECONDS + 1
    await advertise(world, second)
    assert slice_of(world) == ["10.0.0.2"]
    await advertise(world, first)
    assert slice_of(world) == ["10.0.0.1", "10.0.0.2"]


async def test_a_lease_without_an_ip_address_is_left_out(world: World) -> None:
    item = Lease(metadata={"namespace": "kube-system", "name": "apiserver-other"})
    item.spec.holder_identity = "other_6443"
    item.spec.renew_time.CopyFrom(timestamp(world.now))
    await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    await advertise(world, advertiser(world, "10.0.0.1"))
    assert slice_of(world) == ["10.0.0.1"]


async def test_a_second_round_writes_only_the_lease(world: World) -> None:
    one = advertiser(world, "10.0.0.1")
    await advertise(world, one)
    kinds = ("Service", "EndpointSlice", "Endpoints")
    before = [(await world.core.storage.get(KINDS[kind], KEY)).revision for kind in kinds]
    world.now += 10
    await advertise(world, one)
    after = [(await world.core.storage.get(KINDS[kind], KEY)).revision for kind in kinds]
    assert after == before


async def test_what_was_deleted_is_made_again(world: World) -> None:
    one = advertiser(world, "10.0.0.1")
    await advertise(world, one)
    for kind in ("Service", "EndpointSlice", "Endpoints"):
        request = DeleteRequest(kind=kind, namespace="default", name="kubernetes")
        await world.core.deleter.delete(request)
    await world.core.reflector.wait_until_fresh()
    await advertise(world, one)
    assert slice_of(world) == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("given", "host", "found"),
    [
        ("", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.9", "0.0.0.0", "10.0.0.9"),
        ("", "[fd00::1]", "fd00::1"),
        ("", "127.0.0.1", ""),
        ("", "0.0.0.0", ""),
        ("", "api.example", ""),
        ("127.0.0.1", "10.0.0.1", ""),
    ],
)
def test_addresses_that_pods_cannot_use_are_not_advertised(
    given: str, host: str, found: str
) -> None:
    assert advertised_address(given, host) == found
