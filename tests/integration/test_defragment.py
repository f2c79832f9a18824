"""``sched defragment --execute`` loses no pod, even if the command or the leader is killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Pod
from podsched.cli import plan_files
from podsched.serve.client.errors import NotFound
from support.eventually import eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration

FROM, TO = "node-0000", "node-0001"
REPLICAS = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
}


def web(name: str, owner: str, **spec: Any) -> dict[str, Any]:
    """A pod that leaves no room for another one like it on a node."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": [reference | {"controller": True}]},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


class Move:
    """A pod that a ReplicaSet owns, a plan to move it to another node, and the command."""

    def __init__(self, real: RealCluster, owner: str) -> None:
        self.real = real
        self.owner = owner

    async def create(self, document: dict[str, Any]) -> Any:
        return await self.real.client.create(from_manifest(document).message)

    async def pods(self) -> dict[str, Pod]:
        found = (await self.real.client.list("Pod", "default")).items
        return {pod.metadata.name: pod for pod in found}

    async def started(self, timeout: str = "20s") -> Process:
        """The command, under way."""
        web_1 = (await self.pods())["web-1"]
        way = {"namespace": "default", "name": "web-1", "from": FROM, "to": TO}
        moves = [way | {"uid": web_1.metadata.uid}]
        token = plan_files.save({"kind": "Plan", "moves": moves, "freed": [FROM]})
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "podsched", "defragment", "--execute", token,
            "--timeout", timeout, "--server", self.real.cluster.server,
            stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip

    async def held(self) -> bool:
        """Whether a placeholder has the place."""
        pods = (await self.pods()).items()
        return any(n.startswith("hold-") and p.spec.node_name == TO for n, p in pods)

    async def is_gone(self) -> bool:
        return "web-1" not in await self.pods()

    async def runs_on(self, name: str) -> str:
        pod = (await self.pods()).get(name)
        return pod.spec.node_name if pod is not None and pod.status.phase == "Running" else ""


@asynccontextmanager
async def a_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicas: int = 1
) -> AsyncIterator[Move]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # The tests make the pods of the ReplicaSet themselves.
    without = ("--controllers=*,-replicaset-controller",)
    async with real_cluster(
        tmp_path / "cluster", replicas=replicas, nodes=2, scheduler_arguments=without
    ) as real:
        owner = await real.client.create(from_manifest(REPLICAS).message)
        owner.status.observed_generation = 1  # as if its controller had looked at it
        owner = await real.client.update_status(owner)
        move = Move(real, owner.metadata.uid)
        await move.create(web("web-1", move.owner, nodeName=FROM))
        await eventually("web-1", lambda: move.runs_on("web-1"), FROM)
        yield move


@pytest.mark.long
async def test_a_command_killed_before_it_evicts_leaves_the_pod_and_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_move(tmp_path, monkeypatch) as move:
        await move.create(BUDGET)
        command = await move.started("2s")
        await eventually("a placeholder", move.held)
        command.send_signal(signal.SIGKILL)
        await command.wait()
        assert await move.runs_on("web-1") == FROM
        await eventually("the place is given up", lambda: holding(move), [])
        await move.real.client.delete("PodDisruptionBudget", "web", "default")
        again = await move.started()
        await eventually("the eviction", move.is_gone)
        await move.create(web("web-2", move.owner))
        out, err = await again.communicate()
        assert again.returncode == 0, err.decode()
        assert f"pod/web-1 moved from {FROM} to {TO} as web-2" in out.decode()
        assert await move.runs_on("web-2") == TO


async def holding(move: Move) -> list[str]:
    pods = (await move.pods()).items()
    return [n for n, p in pods if n.startswith("hold-") and p.status.phase not in ("Failed", "")]


@pytest.mark.long
async def test_a_replacement_has_its_place_though_the_command_was_killed_once_it_had_evicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_move(tmp_path, monkeypatch) as move:
        command = await move.started("2s")
        await eventually("the eviction", move.is_gone)
        command.send_signal(signal.SIGKILL)
        await command.wait()
        await move.create(web("web-2", move.owner))
        # The old node is cordoned, and the new one held by a pod that is no longer deleted.
        await eventually("web-2 runs", lambda: move.runs_on("web-2"), TO)


@pytest.mark.long
async def test_a_leader_killed_between_holding_and_evicting_does_not_end_the_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_move(tmp_path, monkeypatch, replicas=2) as move:
        real = move.real
        await move.create(BUDGET)
        command = await move.started()
        await eventually("a placeholder", move.held)
        terms = len(real.observer.leaders)
        real.leader().kill(signal.SIGKILL)
        await real.client.delete("PodDisruptionBudget", "web", "default")
        await eventually("a new leader", lambda: len(real.observer.leaders) > terms)
        await eventually("the eviction", move.is_gone)
        await move.create(web("web-2", move.owner))
        _, err = await command.communicate()
        assert command.returncode == 0, err.decode()
        assert await move.runs_on("web-2") == TO
        assert not await holding(move)
        with pytest.raises(NotFound):
            await real.client.get("Pod", "web-1", "default")
