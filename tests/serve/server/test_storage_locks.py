"""The locks of schedulers cannot be written through the object API."""

from __future__ import annotations

import json

import pytest

from podsched.api.etcd_keys import lease_key, term_key
from podsched.api.objects import Lease
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.store.protocol import Put
from podsched.v1 import api_pb2 as v1
from support.api_objects import LOCK
from support.api_world import World


def _lease(name: str = "kube-scheduler", namespace: str = "kube-system") -> Lease:
    lease = Lease()
    lease.metadata.name, lease.metadata.namespace = name, namespace
    lease.spec.lease_duration_seconds = 2**31 - 1
    return lease


async def _held(world: World) -> bytes:
    """Have a leader hold the lock; return the record."""
    record = _lease()
    record.spec.holder_identity = "leader"
    value = record.SerializeToString()
    await world.store.txn([], [Put(lease_key(LOCK), value), Put(term_key(LOCK), b"leader")])
    return value


async def test_a_lock_cannot_be_updated_patched_or_deleted(world: World) -> None:
    record = await _held(world)
    registry = world.core.registry
    with pytest.raises(ApiError, match="is forbidden: it is the lock of schedulers"):
        await registry.update(_lease())
    patch = v1.PatchRequest(
        kind="Lease",
        namespace="kube-system",
        name="kube-scheduler",
        merge_patch=json.dumps({"spec": {"leaseDurationSeconds": 9}}).encode(),
    )
    (outcome,) = await registry.patch([patch], None)
    assert isinstance(outcome, ApiError) and outcome.code.name == "PERMISSION_DENIED"
    delete = v1.DeleteRequest(kind="Lease", namespace="kube-system", name="kube-scheduler")
    with pytest.raises(ApiError, match="is forbidden"):
        await world.core.deleter.delete(delete)
    kv = (await world.store.get(lease_key(LOCK))).kv
    assert kv is not None and kv.value == record


async def test_a_lock_that_was_released_and_is_gone_cannot_be_planted(world: World) -> None:
    await world.store.txn([], [Put(term_key(LOCK), b"")])
    with pytest.raises(ApiError, match="is forbidden"):
        await world.core.creator.create(_lease())


async def test_other_leases_are_written_as_any_object(world: World) -> None:
    await _held(world)
    for namespace in ("kube-system", "kube-node-lease"):
        created = await world.core.creator.create(_lease("node-1", namespace))
        assert isinstance(created, Entry)
        await world.core.registry.update(_lease("node-1", namespace))
        request = v1.DeleteRequest(kind="Lease", namespace=namespace, name="node-1")
        await world.core.deleter.delete(request)
