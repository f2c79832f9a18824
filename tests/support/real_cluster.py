"""A cluster of real processes for failover tests, with what they need to look at it and to break
it."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsched.api.objects import Lease
from podsched.app.demo_observer import Observer
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.app.stored_state import StoredState, read_stored_state
from podsched.app.supervisor import ManagedProcess
from podsched.lab.bench.cluster import etcd_of, started
from podsched.lib.tasks import in_background
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.informer import Informer
from support.eventually import PATIENCE, eventually

#: Arguments of schedulers: a lease that no test waits for, whatever else shows a leader to be gone.
ENDLESS_LEASE = ("--leader-elect-lease-duration=2h", "--leader-elect-renew-deadline=1h")

#: Seconds of a call with its retries, on a machine with far too much to do.
_CALL = 60.0

SUBMIT = """
import asyncio, sys
from podsched.lab.bench.shapes import copies, pod_template
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, Unavailable, of_result

async def submit(client, pods):
    # An answer that got lost does not say what was stored: ask again, what exists is done.
    while True:
        try:
            errors = [of_result(result) for result in await client.create_pods(pods)]
        except Unavailable as error:
            errors = [error]
        left = [error for error in errors if error and not isinstance(error, AlreadyExists)]
        if not left:
            return
        if not all(isinstance(error, Unavailable) for error in left):
            raise left[0]
        await asyncio.sleep(0.1)

async def main(server, prefix, count, pause):
    pods = list(copies(pod_template(), prefix, count))
    async with ApiClient(server) as client:
        for start in range(0, count, 10):
            await submit(client, pods[start:start + 10])
            await asyncio.sleep(pause)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
"""


class RealCluster:
    """A running cluster, an observer of its pods and leaders, and a client."""

    def __init__(self, cluster: LocalCluster, client: ApiClient, observer: Observer) -> None:
        self.cluster = cluster
        self.client = client
        self.observer = observer
        self.submitters: list[asyncio.subprocess.Process] = []

    def leader(self) -> ManagedProcess:
        """The process that leads, as far as was observed."""
        identity = self.observer.leaders[-1].identity
        return self.cluster.replica_of(identity)

    async def submit(
        self, prefix: str, count: int, pause: float = 0.02
    ) -> asyncio.subprocess.Process:
        """Starts another process that submits ``count`` pods named prefix-number."""
        submitter = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SUBMIT, self.cluster.server, prefix, str(count), str(pause)
        )
        self.submitters.append(submitter)
        return submitter

    def bound(self, prefix: str) -> int:
        """Pods of a prefix that were seen bound."""
        return sum(key.startswith(f"default/{prefix}-") for key in self.observer.bound_at)

    async def stored_state(self) -> StoredState:
        """What etcd holds."""
        async with etcd_of(self.cluster) as store:
            return await read_stored_state(store)

    async def check_history(self, prefix: str, count: int) -> None:
        """Every pod bound once, no node beyond its capacity, terms strictly increasing."""
        state = await self.stored_state()
        keys = [f"default/{prefix}-{i}" for i in range(count)]
        unbound = [k for k in keys if k not in state.pods or not state.pods[k].spec.node_name]
        assert not unbound, f"not bound: {unbound[:5]} and {len(unbound)} in all"
        twice = {k: n for k, n in self.observer.nodes_of.items() if len(n) > 1}
        assert not twice, f"bound twice: {twice}"
        assert not state.overcommitted_nodes()
        terms = [leader.term for leader in self.observer.leaders]
        assert terms == sorted(set(terms)), f"terms do not increase: {terms}"

    async def lease(self) -> Lease:
        lease = await self.client.get("Lease", "kube-scheduler", "kube-system")
        assert isinstance(lease, Lease)
        return lease


def metric(process: ManagedProcess, name: str, **labels: str) -> float:
    """The sum of a process's metric over all its labels, or over those with these values."""
    url = f"http://127.0.0.1:{process.spec.health_port}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        text = answer.read().decode()
    samples = re.findall(rf"^{name}({{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for of, value in samples if all(part in of for part in wanted))


def admin_options(cluster: LocalCluster) -> ClientOptions:
    """The options of an administrator's client."""
    if (files := cluster.tls.files_of("admin")) is None:
        return ClientOptions()
    return ClientOptions(tls_ca=files.authorities, tls_cert=files.certificate, tls_key=files.key)


@asynccontextmanager
async def real_cluster(data_dir: Path, **options: Any) -> AsyncIterator[RealCluster]:
    """Starts a cluster, and stops it whatever happens."""
    defaults: dict[str, Any] = {"evaluator": "local", "nodes": 10, "fsync": False}
    cluster = LocalCluster(LocalClusterOptions(data_dir=data_dir, **(defaults | options)))
    observer = Observer()
    async with (
        started(cluster),
        ApiClient(cluster.server, replace(admin_options(cluster), timeout=_CALL)) as client,
    ):
        informer = Informer(client, ["Lease", "Pod"])
        real = RealCluster(cluster, client, observer)
        async with in_background(informer.run(observer.handle), "watch"):
            try:
                await informer.synced.wait()
                if cluster.specs.options.replicas:
                    await eventually("a leader", lambda: bool(observer.leaders))
                yield real
            finally:
                for submitter in real.submitters:
                    if submitter.returncode is None:
                        submitter.kill()
                    await submitter.wait()
                for process in cluster.processes:
                    process.kill(signal.SIGCONT)
