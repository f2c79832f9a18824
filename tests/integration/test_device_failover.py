"""Leaders are killed while they allocate devices, and every revision of etcd is judged.

There are exactly as many devices as pods, so a device that is not given back keeps the next round
from ending. ``make test-long`` has 20 rounds of this with 1,000 devices.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from podsched.api.device_claims import exclusive_devices
from podsched.api.etcd_keys import DEVICES, kind_prefix, object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import ResourceClaim
from podsched.lab.bench.cluster import etcd_of
from podsched.lab.bench.shapes import copies
from podsched.serve.client.errors import of_result
from podsched.serve.store.protocol import Store
from support.allocations import Allocations, device_template, followed, template_of_claims
from support.eventually import eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration

PER_NODE = 20
CLASS = "gpu.example.com"
_CLAIM = KINDS["ResourceClaim"]


@pytest.mark.parametrize(
    ("rounds", "nodes"), [(1, 15), pytest.param(20, 50, marks=pytest.mark.long)]
)
async def test_no_device_is_given_twice_or_lost_though_the_leader_is_killed_amid_allocations(
    tmp_path: Path, rounds: int, nodes: int
) -> None:
    chance, pods = random.Random(28), nodes * PER_NODE
    devices = {"node_devices": (f"{PER_NODE}x{CLASS}",)}
    async with real_cluster(tmp_path, replicas=3, api_servers=2, nodes=nodes, **devices) as real:
        await real.client.create(template_of_claims(CLASS))
        async with etcd_of(real.cluster) as store, followed(store) as allocations:
            for number in range(rounds):
                after = chance.randint(pods // 20, pods * 9 // 10)
                await one_round(real, store, allocations, f"r{number}", pods, after)
        assert len(real.observer.leaders) > rounds
        assert allocations.given >= rounds * pods


async def one_round(
    real: RealCluster,
    store: Store,
    allocations: Allocations,
    prefix: str,
    pods: int,
    kill_after: int,
) -> None:
    """Pods for all devices; the leader is killed after some; all get theirs, and give them back."""
    template = device_template()
    template.metadata.labels["round"] = prefix
    refused = await real.client.create_pods(list(copies(template, prefix, pods)))
    assert not any(map(of_result, refused))
    terms = len(real.observer.leaders)
    await eventually("allocations", lambda: len(allocations.owners) >= kill_after, pause=0.001)
    real.leader().kill(signal.SIGKILL)
    await eventually("a new leader", lambda: len(real.observer.leaders) > terms)
    await eventually("all pods bound", lambda: real.bound(prefix) == pods)
    await check_used(real, store, prefix, pods)
    await real.client.delete_collection(
        "Pod", "default", label_selector=f"round={prefix}", grace_period_seconds=0
    )
    await eventually("claims deleted", lambda: not allocations.devices)
    await eventually("keys deleted", lambda: keys_of_devices(store), 0)


async def check_used(real: RealCluster, store: Store, prefix: str, count: int) -> None:
    """Each pod has a device of its node, whose key names the claim; that is reserved for it."""
    await real.check_history(prefix, count)
    kvs = (await store.range(DEVICES)).kvs
    owners = {kv.key.removeprefix(DEVICES): kv.value.decode() for kv in kvs}
    nodes: dict[str, str] = {}
    for kv in (await store.range(kind_prefix(_CLAIM))).kvs:
        claim = ResourceClaim.FromString(kv.value)
        [device] = exclusive_devices(claim)
        assert object_key(_CLAIM, owners.pop("/".join(device))) == kv.key
        [user] = claim.status.reserved_for
        nodes[f"default/{user.name}"] = device[1]
    assert not owners
    pods = (await real.stored_state()).pods
    bound = {key: pod.spec.node_name for key, pod in pods.items() if key in nodes}
    assert len(nodes) == count and nodes == bound


async def keys_of_devices(store: Store) -> int:
    return (await store.range(DEVICES)).total
