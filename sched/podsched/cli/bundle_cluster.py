"""What ``sched debug bundle`` has of the cluster as a whole, and of the machine that it runs on."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from podsched import __version__
from podsched.api.kinds import KINDS
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.cli.bundle_archive import Archive
from podsched.cli.bundle_processes import Process
from podsched.cli.status import LOCK, collect
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError

_PACKAGES = (
    "aetcd", "aiohttp", "grpcio", "numpy", "opentelemetry-sdk", "orjson", "prometheus-client",
    "protobuf", "pydantic", "ray", "structlog",
)  # fmt: skip
_VARIABLES = ("SCHED_", "RAY_", "OTEL_", "GRPC_", "PYTHON")
#: The kinds whose objects are packed, and of each so many at most: the latest.
_SHOWN = ("Node", "Pod", "Event", "Lease", "PodDisruptionBudget", "PriorityClass", "ReplicaSet")
_MOST_OBJECTS = 2000
_ANYWHERE = ("0.0.0.0", "::")
#: Of containers; they hold what programs are told in confidence.
_PRIVATE = ("env", "envFrom", "args", "command")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def add_this_machine(archive: Archive) -> None:
    """Add versions, and the variables that podsched and its libraries read."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = ""
    archive.add_data(
        "versions.json",
        {
            "podsched": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "packages": packages,
            "environment": {k: v for k, v in os.environ.items() if k.startswith(_VARIABLES)},
        },
    )


async def add_cluster(
    archive: Archive, client: ApiClient, known: Sequence[Process]
) -> list[Process]:
    """Add status and objects; return the processes: the replicas, and those known already."""
    try:
        status = await collect(client, LOCK)
    except ClientError as error:
        archive.miss("the API server", str(error))
        return list(known)
    archive.reached = True
    archive.add_data("status.json", status)
    counts: dict[str, Any] = {}
    for kind in KINDS.values():
        try:
            items = (await client.list(kind.name)).items
        except ClientError as error:
            archive.miss(f"objects/{kind.plural}", str(error))
            continue
        counts[kind.plural] = len(items)
        if kind.name in _SHOWN and items:
            latest = sorted(items, key=_version)[-_MOST_OBJECTS:]
            archive.add_data(f"objects/{kind.plural}.json", [without_private(i) for i in latest])
    archive.add_data("objects/counts.json", counts)
    replicas = [_replica(about) for about in status["replicas"] if about["state"] != "gone"]
    by_url = {process.url: process for process in (*replicas, *known) if process.url}
    local = {process.url: process.log for process in known}
    names = {process.url: process.name for process in replicas}
    return [
        Process(names.get(url, process.name), url, local.get(url, process.log))
        for url, process in by_url.items()
    ] + [process for process in known if not process.url]


def without_private(item: AnyObject) -> dict[str, Any]:
    """Return a manifest without what containers are told."""
    manifest = to_manifest(item)
    manifest.get("metadata", {}).get("annotations", {}).pop(_APPLIED, None)
    spec = manifest.get("spec", {})
    for pod in (spec, spec.get("template", {}).get("spec", {})):
        for containers in ("containers", "initContainers", "ephemeralContainers"):
            for container in pod.get(containers, ()):
                for private in _PRIVATE:
                    container.pop(private, None)
                for probe in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
                    container.pop(probe, None)
    return manifest


def _version(item: AnyObject) -> int:
    return int(item.metadata.resource_version or 0)


def _replica(about: dict[str, Any]) -> Process:
    """Return a replica; one that listens on all addresses is asked at its host."""
    url = str(about["health"])
    parts = urlsplit(url)
    if parts.hostname in _ANYWHERE and about["host"]:
        url = urlunsplit(parts._replace(netloc=f"{about['host']}:{parts.port}"))
    return Process(f"scheduler-{about['identity']}", url)
