"""Whether a Kubernetes cluster has the kinds of queues, and whether Kueue is installed there."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from podsched.api.kinds import KINDS, QUEUE_KINDS
from podsched.config.errors import ConfigError, forbidden
from podsched.serve.client.errors import NotFound, Unavailable
from podsched.serve.kube.http import KubeHttp
from podsched.telemetry.logs import get_logger

_log = get_logger("kubernetes")

_ASK_AGAIN: Final = 2.0
_OF_KUEUE: Final = (
    "Kueue is installed in this cluster (it has workloads.kueue.x-k8s.io), and two programs would "
    "admit the same jobs: leave --queues out, or remove Kueue with its CustomResourceDefinitions"
)
_MISSING: Final = (
    "the cluster has no {} of {}: install them with kubectl apply -k deploy/kubernetes/queues"
)


async def check_queue_kinds(http: KubeHttp) -> None:
    """Check that a cluster has the kinds of queues, and not Kueue's own kind Workload.

    Waits while the API server does not answer. Raises ConfigError, ClientError.
    """
    version = KINDS["ClusterQueue"].api_version
    found: dict[str, Any] | None = None
    while found is None:
        try:
            found = await http.request("GET", f"/apis/{version}")
        except NotFound:
            found = {}
        except Unavailable as error:
            _log.warning("The API server does not answer yet", error=str(error))
            await asyncio.sleep(_ASK_AGAIN)
    names = {one["name"] for one in found.get("resources", ())}
    if "workloads" in names:
        raise ConfigError([forbidden("--queues", _OF_KUEUE)])
    missing = sorted({KINDS[kind].plural for kind in QUEUE_KINDS} - names)
    if missing:
        raise ConfigError([forbidden("--queues", _MISSING.format(", ".join(missing), version))])
