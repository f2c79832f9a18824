"""Scheduler processes on a Kubernetes cluster: no etcd, the lock is a Lease."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from podsched.lib.network import free_port
from support.eventually import eventually
from support.kube_server import KubeStore, refusal, serve
from support.listening import connections_to

pytestmark = pytest.mark.integration

LEASE = "kube-system/kube-scheduler"
CONFIG: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": 500, "burst": 500},
}
#: Of the lock: a lease that a test waits for, yet no leader on a busy machine loses; and one that
#: lasts longer than any test.
SHORT = {"leaseDuration": "15s", "renewDeadline": "12s", "retryPeriod": "1s"}
ENDLESS = {"leaseDuration": "2h", "renewDeadline": "1h", "retryPeriod": "1s"}


class Replicas:
    """Processes of ``sched scheduler`` on one cluster."""

    def __init__(self, url: str, folder: Path, lease: dict[str, str]) -> None:
        self._folder = folder
        self._kubeconfig = folder / "kubeconfig"
        self._config = folder / "config.yaml"
        self._config.write_text(json.dumps({**CONFIG, "leaderElection": lease}))
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
        }
        self._kubeconfig.write_text(json.dumps(document))
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("w") as log:
            self.processes[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "podsched", "scheduler", "--identity", name),
                *("--kubeconfig", str(self._kubeconfig), "--config", str(self._config)),
                *("--evaluator", "local", *arguments),
                stdout=log,
                stderr=log,
            )

    def knows(self, name: str) -> bool:
        """Return whether a replica knows who leads, and so is warm."""
        return "New leader" in (self._folder / f"{name}.log").read_text()

    async def stop(self) -> dict[str, int | None]:
        for process in self.processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        return {name: await process.wait() for name, process in self.processes.items()}


@asynccontextmanager
async def running(
    store: KubeStore, folder: Path, lease: dict[str, str] = ENDLESS
) -> AsyncIterator[Replicas]:
    async with serve(store) as url:
        replicas = Replicas(url, folder, lease)
        try:
            yield replicas
        finally:
            for process in replicas.processes.values():
                if process.returncode is None:
                    process.kill()
                await process.wait()


@pytest.fixture
def store() -> KubeStore:
    store = KubeStore()
    for number in range(3):
        store.node(f"n{number}", cpu="8")
    return store


def holder(store: KubeStore) -> str:
    """Return the name of the replica that holds the Lease, "" for none."""
    lease = store.objects.get("leases", {}).get(LEASE)
    return str(lease["spec"]["holderIdentity"]).partition("_")[0] if lease else ""


def overcommitted(store: KubeStore) -> list[str]:
    """Return the nodes with more pods than fit."""
    pods = [p["spec"].get("nodeName", "") for p in store.objects["pods"].values()]
    return [node for node in store.objects["nodes"] if pods.count(node) > 80]


async def test_pods_of_a_kubernetes_cluster_are_bound_and_told_about(
    store: KubeStore, tmp_path: Path
) -> None:
    """Of other schedulers none; a lower priority makes room; a stop releases the Lease."""
    low = store.pod("low", cpu="8", nodeName="n0", priority=0)
    store.put("pods", {**low, "status": {"phase": "Running", "startTime": "2024-01-02T03:04:05Z"}})
    store.pod("other", schedulerName="another")
    async with running(store, tmp_path) as replicas:
        await replicas.start("a")
        await eventually("a leads", lambda: holder(store), "a")
        store.pod("web", cpu="8", priority=500)
        store.pod("too-large", cpu="100")
        await eventually("web is bound", lambda: "default/web" in dict(store.bound))
        events = store.objects.setdefault("events", {})
        await eventually(
            "the events are there",
            lambda: {e["reason"] for e in events.values()} >= {"Scheduled", "FailedScheduling"},
        )
        (condition,) = await eventually(
            "the condition",
            lambda: store.objects["pods"]["default/too-large"]["status"].get("conditions"),
        )
        assert condition["reason"] == "Unschedulable"
        assert "3 Insufficient cpu" in condition["message"]
        store.pod("second", cpu="8", priority=500)
        await eventually("second is bound", lambda: "default/second" in dict(store.bound))
        store.pod("urgent", cpu="8", priority=1000)
        await eventually("low has made room", lambda: "default/urgent" in dict(store.bound))
        assert dict(store.bound)["default/urgent"] == "n0"
        assert "default/low" not in store.objects["pods"]
        assert "nodeName" not in store.objects["pods"]["default/other"]["spec"]
        assert await replicas.stop() == {"a": 0}
    assert holder(store) == ""


@pytest.mark.parametrize("takeover", ["early", "lease"])
async def test_another_replica_takes_over_from_one_that_is_killed(
    store: KubeStore, tmp_path: Path, takeover: str
) -> None:
    """While pods arrive: none is lost, none bound twice, no node has more than fits."""
    lease = SHORT if takeover == "lease" else ENDLESS
    async with running(store, tmp_path, lease) as replicas:
        for name in ("a", "b"):
            await replicas.start(name, "--takeover", takeover)
        for name in ("a", "b"):
            await eventually(f"{name} knows a leader", lambda n=name: replicas.knows(n))
        first = holder(store)
        if takeover == "early":
            annotations = store.objects["leases"][LEASE]["metadata"]["annotations"]
            port = int(annotations["podsched.io/leader-address"].rpartition(":")[2])
            # Only who was connected before notices at once that the leader is gone.
            await eventually("the other is connected", lambda: connections_to([port]))
        clock = asyncio.get_running_loop().time
        for number in range(200):
            store.pod(f"pod-{number}")
            if number == 100:
                await eventually("some are bound", lambda: len(store.bound) > 20)
                began = clock()
                replicas.processes[first].kill()
        await eventually("all are bound", lambda: len(store.bound), 200)
        if takeover == "lease":
            assert clock() - began > 2
        assert holder(store) not in ("", first)
        assert len({pod for pod, _ in store.bound}) == 200
        assert overcommitted(store) == []
        exits = await replicas.stop()
        assert exits == {**dict.fromkeys(exits, 0), first: -signal.SIGKILL}


async def test_probes_and_metrics_tell_of_the_cluster_and_the_lease(
    store: KubeStore, tmp_path: Path
) -> None:
    store.fail(refusal(403, "Forbidden", "services is forbidden"), path="/services", times=10**6)
    store.streams_lists = False
    address = f"127.0.0.1:{free_port()}"

    async def shown(path: str) -> str:
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with session.get(f"http://{address}{path}") as answer:
                return await answer.text()
        return ""

    async def is_shown(path: str, text: str) -> bool:
        return text in await shown(path)

    async with running(store, tmp_path) as replicas, aiohttp.ClientSession() as session:
        await replicas.start("a", f"--health-listen={address}")
        reason = "the informer has not synced: Service: services is forbidden"
        await eventually("it is said", lambda: is_shown("/readyz?verbose", reason))
        store.allow()
        leads = 'leader_election_master_status{name="kube-scheduler"} 1.0'
        await eventually("a leads", lambda: is_shown("/metrics", leads))
        metrics = await shown("/metrics")
        calls = [line for line in metrics.splitlines() if "rest_client_requests_total{" in line]
        assert any('method="POST"' in line and 'code="201"' in line for line in calls)


async def test_an_outage_of_the_api_server_is_survived(store: KubeStore, tmp_path: Path) -> None:
    """Every watch breaks, its history is lost, and requests are turned away for a while."""
    async with running(store, tmp_path) as replicas:
        await replicas.start("a")
        await eventually("a leads", lambda: holder(store), "a")
        store.fail(refusal(429, "TooManyRequests", "busy", retry_after=1), times=3)
        store.fail(refusal(503, "ServiceUnavailable", "starting"), path="/binding", times=5)
        store.forget()
        for number in range(20):
            store.pod(f"pod-{number}")
        await eventually("all are bound", lambda: len(store.bound), 20)
        assert await replicas.stop() == {"a": 0}
