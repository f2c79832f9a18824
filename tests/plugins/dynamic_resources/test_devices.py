"""What is read of slices, one after another as they change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.actors.packing import load, pack_request
from podsched.api.manifest import from_manifest
from podsched.api.objects import DeviceTaintRule, ResourceClaim, ResourceSlice
from podsched.cache.objects import ClusterState
from podsched.decide.accelerators.sharding import EvaluationRequest
from podsched.framework.plugin import CycleState
from podsched.plugins.dynamic_resources import devices, model
from podsched.plugins.dynamic_resources.devices import Devices, KnownDevices
from podsched.plugins.dynamic_resources.model import Node
from podsched.plugins.dynamic_resources.node_search import PodNeeds
from support.device_world import DRIVER
from support.examples import examples

NODES = [Node(name=name) for name in ("a", "b")]


def piece(name: str, pool: str, node: str, count: int) -> ResourceSlice:
    """A slice of so many devices; ``node``: "" for all nodes."""
    where: dict[str, Any] = {"nodeName": node} if node else {"allNodes": True}
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"{name}-{number}"} for number in range(count)],
        **where,
    }
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    found = from_manifest({**kind, "metadata": {"name": name}, "spec": spec}).message
    assert isinstance(found, ResourceSlice)
    return found


def rule(pool: str) -> DeviceTaintRule:
    made = DeviceTaintRule()
    made.metadata.name = "rule"
    made.spec.device_selector.pool = pool
    made.spec.taint.key, made.spec.taint.effect = "bad", "NoSchedule"
    return made


def told(found: Devices) -> list[str]:
    """All that is told of the devices, but for the numbers of contents."""
    pools = sorted((key, repr(pool.slices)) for key, pool in found.pools.items())
    by_node = [(found.slices_for(node), found.situation(node) is None) for node in NODES]
    named = sorted(found.pools_of_node.items())
    return [repr(part) for part in (pools, named, by_node)]


CHANGES = st.lists(
    st.one_of(
        st.builds(
            piece,
            st.sampled_from("xyz"),
            st.sampled_from(["p", "q"]),
            st.sampled_from(["a", "b", ""]),
            st.integers(0, 2),
        ),
        st.builds(rule, st.sampled_from(["p", "q"])),
        st.sampled_from("xyz"),
        st.just(None),
    ),
    max_size=8,
)


@examples(300)
@given(CHANGES)
def test_devices_that_are_kept_current_equal_those_read_anew(changes: list[Any]) -> None:
    cluster = ClusterState()
    known = KnownDevices()
    seen = known.of(cluster).position
    for change in changes:
        before = [known.of(cluster).situation(node) for node in NODES]
        if change is None:
            cluster.delete("DeviceTaintRule", "", "rule")
        elif isinstance(change, str):
            cluster.delete("ResourceSlice", "", change)
        else:
            cluster.put(type(change).__name__, change)
        found = known.of(cluster)
        assert told(found) == told(KnownDevices().of(cluster))
        touched = found.touched_since(seen)
        for node, situation in zip(NODES, before, strict=True):
            changed = found.situation(node) != situation
            assert not changed or touched is None or touched & {node.name, ""}
        seen = found.position


def test_only_the_slices_that_changed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterState()
    for number in range(100):
        cluster.put("ResourceSlice", piece(f"s{number}", f"p{number}", f"n{number}", 2))
    known = KnownDevices()
    known.of(cluster)
    read: list[str] = []
    original = devices.read_resource_slice

    def noted(stored: ResourceSlice) -> model.ResourceSlice:
        read.append(stored.metadata.name)
        return original(stored)

    monkeypatch.setattr(devices, "read_resource_slice", noted)
    cluster.put("ResourceSlice", piece("s7", "p7", "n7", 3))
    assert len(known.of(cluster).pools[DRIVER, "p7"].slices[0].devices) == 3
    assert read == ["s7"]


def test_large_slices_are_read_in_advance_and_equal_devices_once() -> None:
    cluster = ClusterState()
    for name in ("a", "b"):
        large = piece(name, name, name, 0)
        large.spec.devices.extend(piece("same", "p", "n", 1000).spec.devices)
        cluster.put("ResourceSlice", large)
    known = KnownDevices()
    jobs = [job() for job in known.prepare(cluster) if job is not None]
    assert len(jobs) == 2
    assert not list(known.prepare(cluster))
    found = known.of(cluster)
    first, second = (found.pools[DRIVER, name].slices[0] for name in ("a", "b"))
    assert (first.name, first.pool, first.nodes.node_name) == ("a", "a", "a")
    assert (second.name, second.pool, second.nodes.node_name) == ("b", "b", "b")
    assert first.devices is second.devices
    assert found.pools[DRIVER, "a"].contents == found.pools[DRIVER, "b"].contents


def test_many_claims_are_read_with_pauses() -> None:
    cluster = ClusterState()
    known = KnownDevices()
    known.of(cluster)
    for number in range(1000):
        claim = ResourceClaim()
        claim.metadata.namespace, claim.metadata.name = "ns", str(number)
        claim.status.allocation.devices.results.add(driver=DRIVER, pool="p", device=str(number))
        cluster.put("ResourceClaim", claim)
    steps = known.prepare(cluster)
    next(steps)
    pool = (DRIVER, "p")
    assert 0 < len(known._devices.in_use.by_pool[pool]) < 200
    assert len(known.of(cluster).in_use.by_pool[pool]) == 1000, "who needs them does not wait"
    assert not list(steps)


def test_the_state_of_a_pod_with_claims_is_not_sent_to_other_processes() -> None:
    """Pickling the devices of a large cluster, only to find them too large, takes long."""
    needs = PodNeeds((), (), (), (), KnownDevices().of(ClusterState()))
    state = CycleState({"DynamicResources": needs})
    packed = pack_request(EvaluationRequest("s", b"", state, ("DynamicResources", "Other"), ()))
    assert packed is not None
    sent = load(packed)
    assert (sent.filters, sent.state.data) == (("Other",), {})
