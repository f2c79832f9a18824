"""Reading the state in etcd, and checking it for overcommitted nodes."""

from __future__ import annotations

import pytest

from podsched.api.etcd_keys import OBJECTS
from podsched.api.objects import Node, Pod
from podsched.app.stored_state import read_stored_state
from podsched.serve.store.protocol import Put, Write
from podsched.testing.memory_store import MemoryStore
from support.demo_world import placed, stored


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([placed("a", "n1"), placed("b", "n1")], []),
        ([placed("a", "n1"), placed("b", "n1", "1001m")], ["n1"]),
        ([placed("a", "n1", "2"), placed("b", "n1", "2", "Succeeded")], []),
        ([placed(name, "n1", "1m") for name in "abcd"], ["n1"]),
        ([placed("a", "nowhere")], ["nowhere"]),
        ([placed("a", "", "9")], []),
    ],
)
def test_a_node_is_overcommitted_when_its_live_pods_exceed_any_resource(
    pods: list[Pod], expected: list[str]
) -> None:
    assert stored(*pods).overcommitted_nodes() == expected


async def test_the_state_has_every_pod_and_node_in_the_store_by_key() -> None:
    store = MemoryStore()
    pod, node = Pod(), Node()
    pod.metadata.name, node.metadata.name = "a", "n1"
    for key, message in (("pods/default/a", pod), ("nodes/n1", node), ("leases/x/y", node)):
        put = Put(OBJECTS + key, message.SerializeToString())
        await store.write(Write((), (put,)))
    state = await read_stored_state(store)
    assert state.pods == {"default/a": pod}
    assert state.nodes == {"n1": node}
