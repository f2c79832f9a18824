"""Options that name a Kubernetes cluster, and functions that read its objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject
from podsched.cli.errors import UNREACHABLE, USAGE, fail, fail_on, warn
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.serve.client.errors import ClientError, Forbidden, NotFound, Unavailable

if TYPE_CHECKING:
    from podsched.serve.kube.access import ClusterAccess
    from podsched.serve.kube.http import KubeHttp

T = TypeVar("T")
_PANEL = "Kubernetes"


@dataclass(frozen=True, slots=True)
class KubernetesFlags:
    """The cluster to schedule, if it is a Kubernetes cluster."""

    kubeconfig: Path | None = flag(None, "FILE", _PANEL)
    """Schedule the Kubernetes cluster of this kubeconfig's current context, in place of podsched's
    own API server. No etcd is needed then."""
    master: str = flag("", "URL", _PANEL)
    """Address of the Kubernetes API server, in place of the one in --kubeconfig."""
    in_cluster: bool = flag(False, "", _PANEL)
    """Schedule the Kubernetes cluster in which this process runs, with the ServiceAccount of its
    pod."""
    takeover: Literal["early", "lease"] = flag("lease", "", _PANEL)
    """When a standby takes over: when the lease has expired (lease), or as soon as the leader's
    process is gone (early; needs --listen-peers, and has risks: docs/kubernetes.md)."""

    queues: bool = flag(False, "", _PANEL)
    """Admit PodGroups and pods by the queues of kueue.x-k8s.io, whose kinds
    deploy/kubernetes/queues installs. Refused where Kueue is installed."""

    @property
    def early(self) -> bool:
        """Whether a standby takes over as soon as the leader's process is gone."""
        return self.takeover == "early"

    def access(self) -> ClusterAccess | None:
        """Return the access to the named cluster; None if none is named; exit on errors."""
        if self.in_cluster and (self.kubeconfig or self.master):
            fail("--in-cluster cannot be combined with --kubeconfig or --master", USAGE)
        if self.in_cluster:
            from podsched.serve.kube import access

            with fail_on(ConfigError, about="--in-cluster", code=USAGE):
                return access.in_cluster()
        if self.kubeconfig is None and not self.master:
            if self.queues:
                fail("--queues is only for a Kubernetes cluster: add --kubeconfig FILE", USAGE)
            if self.early:
                fail("--takeover is only for a Kubernetes cluster: add --kubeconfig FILE", USAGE)
            return None
        return access_or_fail(self.kubeconfig, self.master)


def access_or_fail(kubeconfig: Path | None, master: str = "", context: str = "") -> ClusterAccess:
    """Return the access to a cluster; exit if the kubeconfig cannot be used."""
    from podsched.serve.kube import access

    with fail_on(ConfigError, code=USAGE):
        if kubeconfig is None:
            return access.plain(master)
        return access.from_kubeconfig(kubeconfig, master=master, context=context)


def read_cluster(access: ClusterAccess, kinds: Sequence[str]) -> list[AnyObject]:
    """Return a cluster's objects of some kinds; exit if the cluster cannot be read.

    A kind that the server does not have, or that may not be read, counts as empty. There is a
    warning unless it is an alpha kind that the server does not have.
    """
    from podsched.serve.kube.discovery import is_served
    from podsched.serve.kube.lists import list_all

    async def read(http: KubeHttp) -> list[AnyObject]:
        found: list[AnyObject] = []
        for name in kinds:
            try:
                if await is_served(http, KINDS[name]):
                    found += await list_all(http, KINDS[name])
            except (Forbidden, NotFound) as error:
                if error.http_status == 401:
                    raise
                warn(f"{name} objects are left out: {error}")
        return found

    return with_cluster(access, read)


def with_cluster(access: ClusterAccess, work: Callable[[KubeHttp], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function with a connection to a cluster; exit if a call fails."""
    from podsched.serve.kube.http import KubeHttp

    async def run() -> T:
        http = KubeHttp(access, wait_for_server=False)
        try:
            return await work(http)
        finally:
            await http.close()

    with (
        fail_on(ClientError, about=access.server),
        fail_on(Unavailable, about=access.server, code=UNREACHABLE),
    ):
        return asyncio.run(run())
