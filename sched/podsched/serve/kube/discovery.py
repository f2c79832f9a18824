"""Asks a Kubernetes cluster which kinds it has."""

from __future__ import annotations

import asyncio
from typing import Final

from podsched.api.kinds import KINDS, QUEUE_KINDS, Kind
from podsched.config.errors import ConfigError, forbidden
from podsched.serve.client.errors import ClientError, NotFound
from podsched.serve.kube.http import KubeHttp
from podsched.telemetry.logs import get_logger

_log = get_logger("kubernetes")

#: Seconds until a server that does not answer is asked again.
_ASK_AGAIN: Final = 2.0
_OF_KUEUE: Final = (
    "Kueue is installed in this cluster (it has workloads.kueue.x-k8s.io), and two programs would "
    "admit the same jobs: leave --queues out, or remove Kueue with its CustomResourceDefinitions"
)
_MISSING: Final = (
    "the cluster has no {} of {}: install them with kubectl apply -k deploy/kubernetes/queues"
)


async def is_served(http: KubeHttp, kind: Kind) -> bool:
    """Return whether a cluster has a kind; only optional ones may be missing. Raises ClientError.

    A list request does not show this: without rights it is denied even if the kind is missing.
    """
    return not kind.is_optional or kind.plural in await _served(http, kind.api_version)


async def check_queue_kinds(http: KubeHttp) -> None:
    """Check that a cluster has the kinds of queues, and not Kueue's own kind Workload.

    Waits while the API server does not answer, or refuses to. Raises ConfigError.
    """
    version = KINDS["ClusterQueue"].api_version
    while True:
        try:
            names = await _served(http, version)
            break
        except ClientError as error:
            # A server that has just started refuses rights that it has not loaded yet.
            _log.warning("The API server does not answer yet", error=str(error))
        await asyncio.sleep(_ASK_AGAIN)
    if "workloads" in names:
        raise ConfigError([forbidden("--queues", _OF_KUEUE)])
    missing = sorted({KINDS[kind].plural for kind in QUEUE_KINDS} - names)
    if missing:
        raise ConfigError([forbidden("--queues", _MISSING.format(", ".join(missing), version))])


async def _served(http: KubeHttp, api_version: str) -> set[str]:
    """Return the plural names of the kinds of a group and version. Raises ClientError."""
    try:
        found = await http.request("GET", f"/apis/{api_version}")
    except NotFound:
        return set()
    return {each["name"] for each in found.get("resources") or ()}
