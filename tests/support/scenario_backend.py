"""The behaviour scenarios' way to podsched: real processes, spoken to over gRPC.

Everything asynchronous lives in one event loop in a thread of its own, since the scenario
engine is synchronous. Objects are read from the API server, not from a cache, so that an assertion
sees what any client would see.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from podsched.api.kinds import KINDS, kind_of
from podsched.api.manifest import ManifestError, from_manifest, to_manifest
from podsched.api.objects import AnyObject, Node, Pod
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.serve.agent.nodes import SILENCE_ANNOTATION, registration
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, ClientError, Invalid, NotFound
from podsched.serve.client.informer import Batch, Informer
from support.eventually import PATIENCE, eventually
from support.scenario_engine import Backend, BackendError

_T = TypeVar("_T")
#: Objects that are there without any scenario, by kind; leases are those of nodes and replicas.
_NOT_OURS = {
    "Namespace": {"default", "kube-system", "kube-public", "kube-node-lease"},
    "ServiceAccount": {"default"},
    "ConfigMap": {"kube-root-ca.crt"},
}
_KEPT_KINDS = {"Lease"}
#: Pods first: other objects may be kept as long as a pod uses them. Groups before them: a pod that
#: is deleted while its gang is being placed would be bound on a Kubernetes cluster all the same.
_FIRST = ("PodGroup", "Pod")
_ORDER = [*_FIRST, *(kind for kind in KINDS if kind not in (*_FIRST, *_KEPT_KINDS))]

#: Fast enough for "noticed within about 15 s" and slow enough for two busy cores.
AGENT = ("--adopt", "--heartbeat=1")
SCHEDULER = (
    "--node-monitor-period=0.5",
    "--node-monitor-grace-period=4",
    "--node-eviction-rate=10",
)


_HEADER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
_CONTROLLERS = {
    **_HEADER,
    "profiles": [{"schedulerName": "nobody"}],
    "leaderElection": {"resourceName": "controllers"},
}


class PodschedBackend(Backend):
    """A cluster of its own: etcd, an API server, one scheduler replica, an agent playing every
    node."""

    name = "podsched"
    capabilities = frozenset(
        {
            "admission",
            "events",
            "pdb-status",
            "volume-binder",
            "taint-eviction",
            "node-lifecycle",
            "profiles",
            "status-write",
            "podgroup-validation",
            "podgroup-protection",
            "dra",
            "dra-claim-controller",
            "dra-taint-eviction",
            "dra-extended-resource",
            # podsched's queue copies kube-scheduler's, down to what no client should rely on.
            "kube-queue-details",
        }
    )

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scenario cluster")
        self._cluster = LocalCluster(
            LocalClusterOptions(
                data_dir=data_dir,
                replicas=0,
                fsync=False,
                evaluator="local",
                agent_arguments=AGENT,
                scheduler_arguments=SCHEDULER,
                environment={"SCHED_DEBUG": "1"},
            )
        )
        #: The configuration that the scheduler runs with, as JSON; "" before it runs.
        self.running = ""
        self._configs = 0
        self._bound: list[str] = []

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        self._thread.start()
        self._wait(self._start())

    async def _start(self) -> None:
        await self._cluster.start()
        self._client = ApiClient(self._cluster.server)
        pods = Informer(self._client, ["Pod"])
        self._watching = asyncio.create_task(pods.run(self._note_bindings), name="binding log")
        await pods.synced.wait()

    def stop(self) -> None:
        try:
            self._wait(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _stop(self) -> None:
        if hasattr(self, "_client"):
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            await self._client.close()
        await self._cluster.stop()

    def restart_scheduler(self, config: dict[str, Any] | None) -> None:
        path = None
        if config is not None:
            self._configs += 1
            path = self._data_dir / f"scheduler-config-{self._configs}.yaml"
            path.write_text(yaml.safe_dump(config))
        self._wait(self._replace_scheduler(path))

    async def _replace_scheduler(self, config: Path | None) -> None:
        cluster = self._cluster
        cluster.specs.options = replace(cluster.specs.options, replicas=1, scheduler_config=config)
        await asyncio.gather(*(process.stop() for process in cluster.schedulers))
        cluster.schedulers.clear()
        await (await cluster.add_replica(0)).wait_ready()

    def reset(self) -> None:
        self._wait(self._delete_everything())
        self._bound.clear()
        self._check_nothing_crashed()

    def _check_nothing_crashed(self) -> None:
        """A process that ended unasked is started again, so that it might go unnoticed."""
        for process in self._cluster.processes:
            crashes, process.restarts = process.restarts, 0
            assert not crashes, f"{process.spec.name} crashed:\n{process.log_tail(40)}"

    async def _delete_everything(self) -> None:
        async def left() -> list[str]:
            return [name for kind in _ORDER for name in await self._delete_all(kind)]

        await eventually("everything is deleted", left, [], pause=0.05)

    async def _delete_all(self, kind: str) -> list[str]:
        """Deletes the objects of a kind; those there were."""
        there = [obj for obj in (await self._client.list(kind)).items if _made_here(kind, obj)]
        for obj in there:
            metadata = obj.metadata
            try:
                if kind in ("PodGroup", "ResourceClaim"):
                    release = {"metadata": {"finalizers": None}}
                    await self._client.patch(kind, metadata.name, release, metadata.namespace)
                await self._client.delete(
                    kind, metadata.name, metadata.namespace, grace_period_seconds=0
                )
            except NotFound:
                continue
        return [f"{kind} {obj.metadata.name}" for obj in there]

    # ------------------------------------------------------------------ writing

    def apply(self, manifest: dict[str, Any]) -> None:
        self._write(self._apply(manifest))

    async def _apply(self, manifest: dict[str, Any]) -> None:
        message = from_manifest(manifest).message
        kind = kind_of(message)
        if kind.namespaced and not message.metadata.namespace:
            message.metadata.namespace = "default"
        if isinstance(message, Node):
            message = registration(message, time.time())
        try:
            await self._client.create(message)
        except AlreadyExists:
            await self._client.patch(
                kind.name, message.metadata.name, manifest, message.metadata.namespace
            )

    def delete(self, kind: str, ns: str, name: str, grace: int | None = None) -> None:
        self._write(
            self._client.delete(kind, name, _namespace(kind, ns), grace_period_seconds=grace)
        )

    def patch(self, kind: str, ns: str, name: str, patch: dict[str, Any]) -> None:
        self._write(self._client.patch(kind, name, patch, _namespace(kind, ns)))

    def silence(self, node: str, on: bool = True) -> None:
        annotations = {SILENCE_ANNOTATION: "true" if on else None}
        self.patch("Node", "", node, {"metadata": {"annotations": annotations}})

    # ------------------------------------------------------------------ reading

    def get(self, kind: str, ns: str, name: str) -> dict[str, Any] | None:
        try:
            return to_manifest(self._wait(self._client.get(kind, name, _namespace(kind, ns))))
        except NotFound:
            return None

    def list(self, kind: str) -> list[dict[str, Any]]:
        return [to_manifest(obj) for obj in self._wait(self._client.list(kind)).items]

    def events(self) -> list[dict[str, Any]]:
        found = []
        for event in self.list("Event"):
            about = event.get("involvedObject", {})
            found.append(
                {
                    "kind": about.get("kind"),
                    "namespace": about.get("namespace", ""),
                    "name": about.get("name"),
                    "reason": event.get("reason"),
                    "message": event.get("message", ""),
                    "type": event.get("type"),
                }
            )
        return found

    def binding_log(self) -> list[str]:
        return list(self._bound)

    def _note_bindings(self, batch: Batch) -> None:
        for event in batch.events:
            before = isinstance(event.old, Pod) and event.old.spec.node_name
            if isinstance(event.new, Pod) and event.new.spec.node_name and not before:
                self._bound.append(event.key)

    # ------------------------------------------------------------------ between the two worlds

    def _write(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return self._wait(work)
        except ManifestError as error:
            raise BackendError(str(error)) from error
        except ClientError as error:
            raise BackendError(_told(error)) from error

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(PATIENCE)
        except TimeoutError:
            future.cancel()
            raise


class KubernetesBackend(PodschedBackend):
    """The same through Kubernetes' REST API, as on any Kubernetes cluster.

    The scheduler speaks HTTP and its lock is a Lease. The controllers run in a replica that
    schedules no pod, as in kube-controller-manager.
    """

    name = "kubernetes"

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        options = self._cluster.specs.options
        self._cluster.specs.options = replace(
            options, kube_address="127.0.0.1:0", scheduler_arguments=(), through_kube=True
        )

    async def _start(self) -> None:
        await super()._start()
        config = self._data_dir / "controllers.yaml"
        config.write_text(yaml.safe_dump(_CONTROLLERS))
        cluster, options = self._cluster, self._cluster.specs.options
        cluster.specs.options = replace(
            options,
            scheduler_config=config,
            scheduler_arguments=SCHEDULER,
            through_kube=False,
        )
        self._controllers = await cluster.add_replica(1)
        cluster.schedulers.clear()  # scenarios restart the other one alone
        cluster.specs.options = options
        await self._controllers.wait_ready()

    async def _stop(self) -> None:
        if hasattr(self, "_controllers"):
            await self._controllers.stop()
        await super()._stop()

    def restart_scheduler(self, config: dict[str, Any] | None) -> None:
        whole = {**_HEADER, **(config or {}), "clientConnection": {"qps": -1}}
        super().restart_scheduler(whole)


def _made_here(kind: str, obj: AnyObject) -> bool:
    return obj.metadata.name not in _NOT_OURS.get(kind, ()) and not (
        kind == "PriorityClass" and obj.metadata.name.startswith("system-")
    )


def _namespace(kind: str, namespace: str) -> str:
    return namespace if KINDS[kind].namespaced else ""


def _told(error: ClientError) -> str:
    violations = error.violations if isinstance(error, Invalid) else ()
    return "; ".join([str(error), *(f"{v.field}: {v.description}" for v in violations)])
