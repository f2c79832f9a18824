"""Addresses of Services and their ports on nodes: each is given once, on both stores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from podsched.api.etcd_keys import ADDRESSES, NODE_PORTS, ROOT
from podsched.api.kinds import KINDS
from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, ResourceQuota, Service
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rewriting import Rewrite
from podsched.serve.server.service_addresses import usable_network
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.etcd import EtcdOptions, connect
from podsched.serve.store.protocol import Delete, Store, Write
from podsched.testing.memory_store import MemoryStore
from podsched.v1.api_pb2 import DeleteRequest, PatchRequest

#: 14 addresses.
RANGE = "10.0.0.0/28"
_SERVICE = KINDS["Service"]


class World:
    """Two API servers on one store, each with its own connection."""

    def __init__(self, stores: list[Store]) -> None:
        self.store = stores[0]
        settings = ServerSettings(bookmark_seconds=0.05, service_cluster_ip_range=RANGE)
        self.cores = [ServerCore(settings, store) for store in stores]

    async def create(self, name: str, core: int = 0, dry_run: bool = False, **spec: Any) -> Any:
        """Create a Service; return its spec, or the message of the refusal."""
        spec = {"selector": {"app": "a"}, "ports": [{"port": 80}], **spec}
        document = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {key: value for key, value in spec.items() if value is not None},
        }
        creator = self.cores[core].creator
        try:
            entry = await creator.create(from_manifest(document).message, dry_run=dry_run)
        except ApiError as error:
            return error.message
        return _spec(entry.message)

    async def change(self, name: str, **fields: Any) -> Any:
        """Replace fields of a Service's spec; return its spec, or the message of the refusal."""

        def make(entry: Any) -> AnyObject:
            message = entry.decode()
            for field in fields:
                message.spec.ClearField(field)
            message.spec.MergeFrom(type(message.spec)(**fields))
            return message  # type: ignore[no-any-return]

        change = Rewrite(_SERVICE, "default", name, "update", "", make)
        try:
            entry = await self.cores[0].rewriter.rewrite(change)
        except ApiError as error:
            return error.message
        return _spec(entry.message)

    async def delete(self, name: str) -> None:
        request = DeleteRequest(kind="Service", namespace="default", name=name)
        await self.cores[0].deleter.delete(request)

    async def keys(self, prefix: str) -> dict[str, str]:
        kvs = (await self.store.range(prefix)).kvs
        return {kv.key.removeprefix(prefix): kv.value.decode() for kv in kvs}


def _spec(message: AnyObject) -> Any:
    assert isinstance(message, Service)
    return message.spec


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.integration)])
def endpoint(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("etcd_endpoint") if request.param == "etcd" else None


@pytest.fixture
async def world(endpoint: str | None) -> AsyncIterator[World]:
    stores: list[Store] = []
    if endpoint is None:
        memory = MemoryStore()
        stores += [memory, memory.session()]
    else:
        stores += [await connect(EtcdOptions((endpoint,))) for _ in range(2)]
    async with AsyncExitStack() as stack:
        world = World(stores)
        for core in world.cores:
            await core.start()
            stack.push_async_callback(core.stop)
        yield world
    kvs = (await stores[0].range(ROOT)).kvs
    await stores[0].write_many([Write((), (Delete(kv.key),)) for kv in kvs])
    for store in stores:
        await store.close()


async def test_a_service_gets_an_address_and_what_belongs_to_it(world: World) -> None:
    spec = await world.create("web")
    assert [spec.cluster_ip] == [*spec.cluster_ips]
    assert ([*spec.ip_families], spec.ip_family_policy) == (["IPv4"], "SingleStack")
    assert spec.internal_traffic_policy == "Cluster"
    assert await world.keys(ADDRESSES) == {spec.cluster_ip: "default/web"}


async def test_two_servers_that_create_at_once_give_each_address_once(world: World) -> None:
    """All addresses of the range are given, and the two Services beyond are refused."""
    made = await asyncio.gather(*(world.create(f"s{n}", n % 2) for n in range(16)))
    given = [spec.cluster_ip for spec in made if not isinstance(spec, str)]
    assert sorted(given) == sorted(f"10.0.0.{n}" for n in range(1, 15))
    refused = [spec for spec in made if isinstance(spec, str)]
    full = "Internal error occurred: failed to allocate a serviceIP: range is full"
    assert refused == [full, full]
    assert sorted(await world.keys(ADDRESSES)) == sorted(given)


async def test_two_servers_that_are_asked_for_one_address_give_it_once(world: World) -> None:
    asked = {"clusterIP": "10.0.0.5"}
    made = await asyncio.gather(*(world.create(f"s{n}", n % 2, **asked) for n in range(6)))
    refused = [spec for spec in made if isinstance(spec, str)]
    assert len(refused) == 5
    assert all("IP 10.0.0.5: provided IP is already allocated" in text for text in refused)


async def test_two_servers_that_are_asked_for_one_port_of_the_nodes_give_it_once(
    world: World,
) -> None:
    asked = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
    made = await asyncio.gather(*(world.create(f"s{n}", n % 2, **asked) for n in range(6)))
    refused = [spec for spec in made if isinstance(spec, str)]
    assert len(refused) == 5
    taken = "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    assert all(taken in text for text in refused)
    assert list(await world.keys(NODE_PORTS)) == ["30080"]
    assert len(await world.keys(ADDRESSES)) == 1


async def test_an_address_is_free_once_its_service_is_deleted(world: World) -> None:
    spec = await world.create("web", type="NodePort")
    await world.delete("web")
    assert await world.keys(ADDRESSES) == await world.keys(NODE_PORTS) == {}
    again = await world.create("other", clusterIP=spec.cluster_ip)
    assert again.cluster_ip == spec.cluster_ip


async def test_what_was_free_just_now_can_be_asked_for(world: World) -> None:
    """Before the server that removed its Service has learned of that."""
    spec = await world.create("web", type="NodePort")
    port = spec.ports[0].node_port
    await world.delete("web")
    ports = [{"port": 80, "nodePort": port}]
    again = await world.create("other", type="NodePort", clusterIP=spec.cluster_ip, ports=ports)
    assert (again.cluster_ip, again.ports[0].node_port) == (spec.cluster_ip, port)


async def test_a_change_takes_what_another_one_of_the_same_call_has_given_back(
    world: World,
) -> None:
    for name, port in (("a", 30080), ("b", 30081)):
        await world.create(name, type="NodePort", ports=[{"port": 80, "nodePort": port}])
    specs = {"a": {"type": "ClusterIP"}, "b": {"ports": [{"port": 80, "nodePort": 30080}]}}
    patches = [
        PatchRequest(
            kind="Service",
            namespace="default",
            name=name,
            merge_patch=json.dumps({"spec": spec}).encode(),
        )
        for name, spec in specs.items()
    ]
    outcomes = await world.cores[0].registry.patch(patches, None)
    assert [outcome for outcome in outcomes if isinstance(outcome, ApiError)] == []
    assert await world.keys(NODE_PORTS) == {"30080": "default/b"}


async def test_services_under_a_quota_get_addresses_too(world: World) -> None:
    quota = ResourceQuota(metadata={"name": "q", "namespace": "default"})
    quota.spec.hard["services"] = "5"
    await world.cores[0].creator.create(quota)
    await world.cores[0].reflector.wait_until_fresh()
    made = await asyncio.gather(*(world.create(f"s{n}") for n in range(6)))
    given = [spec.cluster_ip for spec in made if not isinstance(spec, str)]
    assert len(set(given)) == 5
    assert sorted(await world.keys(ADDRESSES)) == sorted(given)


async def test_a_dry_run_takes_no_address(world: World) -> None:
    spec = await world.create("web", dry_run=True, type="NodePort")
    assert spec.cluster_ip
    assert spec.ports[0].node_port
    assert await world.keys(ADDRESSES) == await world.keys(NODE_PORTS) == {}


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({"clusterIP": "None"}, ["IPv4"]),
        ({"clusterIP": "None", "selector": None}, ["IPv4", "IPv6"]),
        ({"type": "ExternalName", "externalName": "a.example", "ports": None}, []),
    ],
)
async def test_some_services_have_no_address(
    world: World, spec: dict[str, Any], families: list[str]
) -> None:
    made = await world.create("web", **spec)
    assert made.cluster_ip == spec.get("clusterIP", "")
    assert [*made.ip_families] == families
    assert await world.keys(ADDRESSES) == {}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"clusterIP": "10.0.1.5"}, "the provided network does not match the current range"),
        ({"clusterIP": "10.0.0.15"}, "the provided network does not match the current range"),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured'),
        ({"ipFamilyPolicy": "RequireDualStack"}, "not configured for dual-stack services"),
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            {
                "type": "NodePort",
                "ports": [{"name": n, "port": ord(n), "nodePort": 30001} for n in "ab"],
            },
            "spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
    ],
)
async def test_what_cannot_be_given_is_refused_as_in_kubernetes(
    world: World, spec: dict[str, Any], why: str
) -> None:
    assert why in await world.create("web", **spec)
    assert await world.keys(ADDRESSES) == await world.keys(NODE_PORTS) == {}


async def test_one_port_of_the_nodes_may_serve_two_protocols(world: World) -> None:
    ports = [
        {"name": name, "port": 53, "nodePort": 30053, "protocol": name.upper()}
        for name in ("tcp", "udp")
    ]
    spec = await world.create("dns", type="NodePort", ports=ports)
    assert [port.node_port for port in spec.ports] == [30053, 30053]


@pytest.mark.parametrize("asked", [0, 30053])
async def test_a_new_service_gets_one_port_of_the_nodes_for_all_protocols_of_a_port(
    world: World, asked: int
) -> None:
    ports = [
        {"name": "tcp", "port": 53, "protocol": "TCP"},
        {"name": "udp", "port": 53, "protocol": "UDP", "nodePort": asked},
        {"name": "metrics", "port": 9153, "protocol": "TCP"},
    ]
    tcp, udp, metrics = (await world.create("dns", type="NodePort", ports=ports)).ports
    assert tcp.node_port == udp.node_port == (asked or tcp.node_port)
    assert metrics.node_port not in (0, tcp.node_port)


async def test_a_service_leads_to_a_port_that_a_container_can_have(world: World) -> None:
    refused = await world.create("web", ports=[{"port": 80, "targetPort": "HTTP"}])
    assert 'spec.ports[0].targetPort: Invalid value: "HTTP": must contain only' in refused
    assert (await world.create("web", ports=[{"port": 80, "targetPort": "http"}])).ports


@pytest.mark.parametrize("number", [-1, 65536])
async def test_a_service_does_not_lead_to_a_port_that_there_is_not(
    world: World, number: int
) -> None:
    refused = await world.create("web", ports=[{"port": 80, "targetPort": number}])
    reason = "must be between 1 and 65535, inclusive"
    assert f"spec.ports[0].targetPort: Invalid value: {number}: {reason}" in refused


async def test_a_service_leads_to_its_own_port_if_it_says_0(world: World) -> None:
    [port] = (await world.create("web", ports=[{"port": 80, "targetPort": 0}])).ports
    assert port.target_port == "80"


async def test_a_service_keeps_its_address_when_a_client_leaves_it_out(world: World) -> None:
    before = await world.create("web")
    for fields in ({"cluster_ip": ""}, {"cluster_ip": "", "cluster_ips": []}):
        assert (await world.change("web", **fields)).cluster_ip == before.cluster_ip
    other = "10.0.0.8" if before.cluster_ip == "10.0.0.7" else "10.0.0.7"
    refused = await world.change("web", cluster_ip=other, cluster_ips=[other])
    assert f'spec.clusterIPs[0]: Invalid value: ["{other}"]: may not change once set' in refused


async def test_a_service_of_another_type_gets_and_gives_back(world: World) -> None:
    await world.create("web")
    spec = await world.change("web", type="NodePort")
    assert await world.keys(NODE_PORTS) == {str(spec.ports[0].node_port): "default/web"}
    assert spec.external_traffic_policy == "Cluster"
    kept = await world.change("web", ports=[{"port": 80, "protocol": "TCP", "target_port": "80"}])
    assert kept.ports[0].node_port == spec.ports[0].node_port
    spec = await world.change("web", type="ClusterIP")
    assert (spec.ports[0].node_port, spec.external_traffic_policy) == (0, "")
    spec = await world.change("web", type="ExternalName", external_name="a.example")
    assert (spec.cluster_ip, [*spec.ip_families]) == ("", [])
    assert await world.keys(ADDRESSES) == await world.keys(NODE_PORTS) == {}
    spec = await world.change("web", type="ClusterIP", external_name="")
    assert await world.keys(ADDRESSES) == {spec.cluster_ip: "default/web"}


async def test_a_service_of_another_type_may_get_another_port_at_once(world: World) -> None:
    """Which has no port of the nodes, while the others have those that the server gave."""
    [port] = (await world.create("web", type="NodePort", ports=[{"name": "a", "port": 80}])).ports
    more = {"name": "b", "port": 81}
    spec = await world.change("web", type="ClusterIP", ports=[port, more])
    assert [(port.name, port.node_port) for port in spec.ports] == [("a", 0), ("b", 0)]


async def test_a_load_balancer_with_local_traffic_gets_a_port_for_health_checks(
    world: World,
) -> None:
    spec = await world.create("web", type="LoadBalancer", externalTrafficPolicy="Local")
    ports = {spec.health_check_node_port, spec.ports[0].node_port}
    assert {int(port) for port in await world.keys(NODE_PORTS)} == ports
    assert len(ports) == 2


async def test_the_service_kubernetes_has_an_address_of_its_own(world: World) -> None:
    spec = await world.create("kubernetes", clusterIP="192.0.2.7")
    assert spec.cluster_ip == "192.0.2.7"
    assert await world.keys(ADDRESSES) == {}


def test_a_network_must_have_room() -> None:
    assert usable_network("10.96.0.0/12")
    assert usable_network("fd00::/112")
    assert not usable_network("10.0.0.0/29")
