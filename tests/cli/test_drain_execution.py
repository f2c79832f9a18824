"""Draining a node whose calls fail, or which Ctrl-C ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from podsched.api.objects import Node, Pod
from podsched.cli.drain import Rules, drain_nodes
from podsched.cli.options import DryRun
from podsched.serve.client.errors import ClientError, Forbidden, PreconditionFailed, Unavailable
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1 import api_pb2 as v1
from support.command_client import CommandClient, Fault, Inhabitants
from support.engine_world import pod

pytestmark = pytest.mark.looptime

RULES = Rules(force=True, ignore_daemonsets=False, delete_emptydir_data=False, grace_period=None)


async def drain(
    client: CommandClient,
    nodes: Sequence[str] = ("n",),
    dry_run: DryRun = DryRun.NONE,
    rules: Rules = RULES,
) -> int:
    return await drain_nodes(client, nodes, rules, "0s", dry_run)  # type: ignore[arg-type]


class Drained:
    """A node with three pods."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        node = Node()
        node.metadata.name = "n"
        self.cluster.create(node)
        for name in ("a", "b", "c"):
            running = pod(name, {"nodeName": "n", "terminationGracePeriodSeconds": 30})
            running.status.phase = "Running"
            self.cluster.create(running)
        self.client = CommandClient(self.cluster)
        self.inhabitants = Inhabitants(self.cluster)

    async def drain(self) -> int:
        async with self.inhabitants.at_work():
            return await drain(self.client)

    def pods(self) -> list[str]:
        return [item.metadata.name for item in self.cluster.objects("Pod")]


async def test_a_drained_node_is_empty() -> None:
    drained = Drained()
    assert await drained.drain() == 0
    assert drained.pods() == []


async def test_a_server_that_stops_answering_is_an_error_by_itself_not_a_group_of_them() -> None:
    drained = Drained()
    whole = Drained()
    await whole.drain()
    for number, call in enumerate(whole.client.calls):
        drained = Drained()
        drained.client.faults[number] = Fault.UNAVAILABLE_FOR_GOOD
        with pytest.raises(Unavailable):
            await drained.drain()
        assert drained.client.calls, call


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LOST_BUT_DONE])
async def test_an_eviction_whose_answer_is_lost_is_made_once_more(fault: Fault) -> None:
    whole = Drained()
    await whole.drain()
    drained = Drained()
    drained.client.faults[whole.client.calls.index("evict b")] = fault
    assert await drained.drain() == 0
    assert drained.client.calls.count("evict b") == 2


async def test_a_pod_that_must_not_be_evicted_is_an_error_and_the_others_go(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drained = Drained()
    evict = drained.client.evict

    async def some(request: v1.EvictRequest) -> Pod:
        if request.name == "b":
            raise Forbidden("you may not evict it")
        return await evict(request)

    drained.client.evict = some  # type: ignore[method-assign]
    assert await drained.drain() == 1
    assert drained.pods() == ["b"]
    said = capsys.readouterr()
    assert "error: pod/b: you may not evict it" in said.err
    assert "drained" not in said.out


async def test_a_dry_run_names_every_pod_that_cannot_be_evicted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drained = Drained()
    several = "This pod has more than one PodDisruptionBudget"

    async def some(request: v1.EvictRequest) -> Pod:
        if request.name != "c":
            raise ClientError(several)
        return Pod()

    drained.client.evict = some  # type: ignore[method-assign]
    assert await drain(drained.client, dry_run=DryRun.SERVER) == 2
    said = capsys.readouterr()
    assert said.err.splitlines() == [f"error: pod/{name}: {several}" for name in ("a", "b")]
    assert "pod/c would be evicted (server dry run)" in said.out


@pytest.mark.parametrize("dry_run", list(DryRun))
async def test_a_pod_whose_name_another_pod_has_meanwhile_is_gone(
    dry_run: DryRun, capsys: pytest.CaptureFixture[str]
) -> None:
    drained = Drained()
    evict = drained.client.evict

    async def replaced(request: v1.EvictRequest) -> Pod:
        if request.name == "b":
            drained.cluster.delete("Pod", "default/b")
            fresh = pod("b", {"nodeName": "elsewhere"})
            fresh.metadata.uid = "another"
            drained.cluster.create(fresh)
            raise PreconditionFailed("the pod has another uid")
        return await evict(request)

    drained.client.evict = replaced  # type: ignore[method-assign]
    async with drained.inhabitants.at_work():
        assert await drain(drained.client, dry_run=dry_run) == 0
    assert "error" not in capsys.readouterr().err


async def test_ctrl_c_says_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    drained = Drained()
    drained.inhabitants.stuck = True
    task = asyncio.create_task(drained.drain())
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    said = capsys.readouterr().err
    assert "node/n stays cordoned, with 3 pods left to go: a, b, c" in said
    assert "repeat the command" in said and "sched uncordon n" in said


async def test_a_drain_of_a_cordoned_node_claims_no_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = FakeCluster()
    node = Node()
    node.metadata.name, node.spec.unschedulable = "n", True
    cluster.create(node)
    client = CommandClient(cluster)
    await drain(client)
    assert "node/n already cordoned" in capsys.readouterr().out
    assert not [call for call in client.calls if call.startswith("patch")]


async def test_all_nodes_are_cordoned_before_a_pod_of_the_first_one_moves() -> None:
    drained = Drained()
    other = Node()
    other.metadata.name = "other"
    drained.cluster.create(other)
    async with drained.inhabitants.at_work():
        assert await drain(drained.client, ("n", "other")) == 0
    changes = [c for c in drained.client.calls if c.startswith(("patch", "evict"))]
    assert changes[:3] == ["patch Node n", "patch Node other", "evict a"]


async def test_a_node_that_does_not_exist_keeps_no_other_from_being_drained() -> None:
    drained = Drained()
    async with drained.inhabitants.at_work():
        assert await drain(drained.client, ("missing", "n")) == 1
    assert drained.pods() == []


async def test_a_drain_of_no_node_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert await drain(CommandClient(FakeCluster()), ()) == 0
    assert capsys.readouterr().err == "No resources found.\n"


async def test_pods_that_must_not_be_evicted_are_named_with_their_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drained = Drained()
    assert await drain(drained.client, rules=replace(RULES, force=False)) == 1
    said = "error: node/n: cannot evict 3 pods that no controller would replace"
    assert capsys.readouterr().err.startswith(said)
