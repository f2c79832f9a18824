"""Changes of single aspects of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podsched.api.objects import AnyObject, Node
from podsched.cli.edit import set_taints
from podsched.cli.options import DryRun
from podsched.serve.client.errors import Conflict
from podsched.testing.fake_cluster import FakeCluster
from support.command_client import CommandClient
from support.commands import Commands
from support.engine_world import pod

ADDED = [("dedicated", "gpu", "NoSchedule", False)]


class Contested(CommandClient):
    """A node that a controller taints while a command changes its taints."""

    def __init__(self, times: int) -> None:
        cluster = FakeCluster()
        node = Node()
        node.metadata.name = "n"
        cluster.create(node)
        super().__init__(cluster)
        self.times = times

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        dry_run: bool = False,
    ) -> AnyObject:
        if self.times:
            self.times -= 1
            node = self.node()
            node.spec.taints.add(key=f"by-controller-{self.times}", effect="NoExecute")
            self.cluster.update(node)
        current = self.node().metadata.resource_version
        if patch.get("metadata", {}).get("resourceVersion", current) != current:
            raise Conflict("the object has been modified")
        return await super().patch(kind, name, patch, namespace, dry_run=dry_run)

    def node(self) -> Node:
        [node] = self.cluster.objects("Node")
        assert isinstance(node, Node)
        return node


async def test_a_taint_that_a_controller_sets_meanwhile_is_kept() -> None:
    client = Contested(2)
    await set_taints(client, "n", ADDED, DryRun.NONE)  # type: ignore[arg-type]
    keys = [taint.key for taint in client.node().spec.taints]
    assert keys == ["by-controller-1", "by-controller-0", "dedicated"]


async def test_a_node_that_changes_again_and_again_is_a_conflict() -> None:
    with pytest.raises(Conflict):
        await set_taints(Contested(1000), "n", ADDED, DryRun.NONE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "twice"),
    [
        (("label", "pod", "web", "app=a", "app-"), "app"),
        (("annotate", "pod", "web", "a=1", "a=2"), "a"),
        (("taint", "n", "k=a:NoSchedule", "k=b:NoSchedule"), "k:NoSchedule"),
    ],
)
def test_two_changes_of_the_same_thing_are_a_usage_error(
    words: tuple[str, ...], twice: str
) -> None:
    done = Commands("127.0.0.1:1")(*words)
    assert (done.code, done.err) == (2, f'error: "{twice}" is changed twice\n')


def test_a_label_that_one_object_has_already_keeps_no_other_from_getting_it(
    sched: Commands, in_memory: CommandClient
) -> None:
    for name, labels in (("a", {"tier": "front"}), ("b", {})):
        one = pod(name, {})
        one.metadata.labels.update(labels)
        in_memory.cluster.create(one)
    done = sched("label", "pod", "a", "b", "tier=back")
    assert (done.code, done.out) == (1, "pod/b labeled\n")
    assert done.err == 'error: pod/a: tier is "front" already; --overwrite replaces it\n'


def test_a_taint_that_one_node_lacks_keeps_no_other_from_losing_it(
    sched: Commands, in_memory: CommandClient
) -> None:
    for name, key in (("a", "other"), ("b", "old")):
        node = Node()
        node.metadata.name = name
        node.spec.taints.add(key=key, effect="NoSchedule")
        in_memory.cluster.create(node)
    done = sched("taint", "a", "b", "old:NoSchedule-")
    assert (done.code, done.out) == (1, "node/b untainted\n")
    assert done.err == 'error: node/a: taint "old:NoSchedule" not found\n'


def test_a_pod_is_not_the_name_of_a_node(sched: Commands) -> None:
    done = sched("cordon", "no/a", "pod/web")
    assert (done.code, done.err) == (2, 'error: "pod/web" is not the name of a node\n')
