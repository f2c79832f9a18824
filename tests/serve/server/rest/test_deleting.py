"""Deletions over HTTP."""

from __future__ import annotations

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.serve.store.protocol import Put
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient

KEY = object_key(KINDS["Pod"], "default/web")


@pytest.mark.parametrize(
    "value", [b"\xff", pod("other").SerializeToString()], ids=["undecodable", "another name"]
)
async def test_an_object_that_cannot_be_read_can_be_deleted(
    world: World, kube: KubeClient, value: bytes
) -> None:
    await world.store.txn((), [Put(KEY, value)])
    answer = await kube.request("DELETE", "/api/v1/namespaces/default/pods/web")
    assert answer.status == 200, answer.json
    assert answer.json["metadata"]["name"] == "web"
    assert (await world.store.get(KEY)).kv is None
