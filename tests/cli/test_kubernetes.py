"""The options that name a Kubernetes cluster, and ``sched simulate`` on one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import yaml

from support.commands import Commands
from support.eventually import PATIENCE
from support.kube_server import KubeStore, refusal, serve

POD = """
apiVersion: v1
kind: Pod
metadata: {name: pending}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
"""


def kubeconfig(folder: Path, server: str) -> str:
    path = folder / "kubeconfig"
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
    }
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--in-cluster", "--kubeconfig", "x"], "--in-cluster cannot be combined with"),
        (
            ["--feature-gates", "CoordinatedLeaderElection=true"],
            "--feature-gates CoordinatedLeaderElection=true needs --kubeconfig or --in-cluster",
        ),
        (["--in-cluster"], "--in-cluster: KUBERNETES_SERVICE_HOST: must be set"),
        (["--takeover", "early"], "--takeover is only for a Kubernetes cluster"),
        (["--queues"], "--queues is only for a Kubernetes cluster"),
        (["--master", "ftp://x"], '--master: Invalid value: "ftp://x"'),
        (["--kubeconfig", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["--master", "http://x", "--server", "y:1"], "--server and --kubeconfig name two"),
        (["--master", "http://x", "--policy-configmap", "y"], "--policy-configmap is read from"),
    ],
)
def test_options_that_do_not_fit_together_are_told(
    sched: Commands, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = sched("scheduler", *arguments)
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {message}")


def test_a_dump_of_kubectl_is_a_cluster(sched: Commands, tmp_path: Path) -> None:
    """A List in any order, with what an API server adds, and with kinds that are not read."""
    store = KubeStore()
    used = store.pod("used", cpu="3", nodeName="small")
    items = [
        {"apiVersion": "v1", "kind": "Pod", **used, "status": {"phase": "Running"}},
        {"apiVersion": "example.com/v1", "kind": "Database", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "dg=="}},
        {"apiVersion": "v1", "kind": "Node", **store.node("small", cpu="4")},
        {"apiVersion": "v1", "kind": "Node", **store.node("large", cpu="8")},
    ]
    items[0]["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    dump = tmp_path / "dump.yaml"
    dump.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    done = sched("simulate", "-f", str(dump), "--pod", "-", stdin=POD)
    assert done.code == 0, done.err
    assert done.out.splitlines()[:2] == ["Pod default/pending: Schedulable", "  Best node: large"]
    assert "skipped 1 object of kinds that no scheduling decision depends on" in done.err


@pytest.fixture
def store() -> KubeStore:
    """A cluster with one node that has room, and one that has not."""
    store = KubeStore()
    store.node("small", cpu="1")
    store.node("large", cpu="8")
    return store


@pytest.fixture
def url(store: KubeStore) -> Iterator[str]:
    """The API server of the cluster, in a thread of its own: commands have their own loop."""
    loop, started, addresses = asyncio.new_event_loop(), asyncio.Event(), list[str]()
    stop = asyncio.Event()

    async def run() -> None:
        async with serve(store) as address:
            addresses.append(address)
            started.set()
            await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    asyncio.run_coroutine_threadsafe(started.wait(), loop).result(PATIENCE)
    yield addresses[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.mark.integration
def test_a_cluster_is_read_and_not_written(
    sched: Commands, store: KubeStore, url: str, tmp_path: Path
) -> None:
    """What may not be read is left out, and said; but not of alpha kinds that it has not."""
    store.fail(refusal(403, "Forbidden", "services is forbidden"), path="/services")
    store.absent.add("scheduling.k8s.io/v1alpha2")
    store.fail(refusal(403, "Forbidden", "podgroups is forbidden"), path="/podgroups")
    done = sched("simulate", "--kubeconfig", kubeconfig(tmp_path, url), "--pod", "-", stdin=POD)
    assert done.code == 0, done.err
    assert done.out.splitlines()[1] == "  Best node: large"
    assert done.errors == ["warning: Service objects are left out: services is forbidden"]
    assert store.requests == []


@pytest.mark.integration
def test_a_cluster_that_is_not_there_is_told(sched: Commands, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    done = sched("simulate", "--kubeconfig", path, "--pod", "-", stdin=POD)
    assert done.code == 3
    assert done.errors[0].startswith("error: http://127.0.0.1:1: cannot connect to 127.0.0.1:1: ")
