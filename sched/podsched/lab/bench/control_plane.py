"""A Kubernetes control plane of the user's own binaries, for ``compare``.

``control_plane`` runs etcd and kube-apiserver on this machine for a block; no controller manager,
so nothing but the measured scheduler and the client works on the cluster.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from podsched.app.supervisor import READY_WITHIN, ManagedProcess, ProcessFailed, ProcessSpec
from podsched.config.feature_gates import VERSION
from podsched.lib.certificates import new_signing_key
from podsched.lib.files import write_private
from podsched.lib.network import free_port
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import ClientError
from podsched.serve.kube.access import from_kubeconfig
from podsched.serve.kube.access import kubeconfig as kubeconfig_of
from podsched.serve.kube.http import KubeHttp
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions

API_SERVER, ETCD = "kube-apiserver", "etcd"

_VERSION = re.compile(r"v(\d+)\.(\d+)\.\d+\S*")
_LOOK_EVERY = 0.2
_GROUP = "system:masters"
_NAME = "compare"


class NotComparableError(Exception):
    """The binaries or the cluster cannot be used to compare schedulers; nothing was measured."""


def binaries(directory: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the absolute paths of programs in a directory. Raises NotComparableError."""
    found = {name: (directory / name).absolute() for name in names}
    for name, path in found.items():
        if not path.is_file():
            raise NotComparableError(
                f"{path}: no such file; the directory must have {name} of Kubernetes {VERSION}"
            )
        if not os.access(path, os.X_OK):
            raise NotComparableError(f"{path}: not executable")
    return found


async def version_of(binary: Path) -> str:
    """Return what a binary of Kubernetes says is its version. Raises NotComparableError."""
    try:
        process = await asyncio.create_subprocess_exec(
            str(binary), "--version", stdout=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise NotComparableError(f"{binary}: cannot be run: {error.strerror}") from error
    output, _ = await process.communicate()
    found = _VERSION.search(output.decode(errors="replace"))
    if not found:
        raise NotComparableError(f"{binary}: --version prints no version of Kubernetes")
    return found[0]


def check_versions(scheduler: str, server: str) -> None:
    """Raise NotComparableError unless kube-scheduler is comparable and supported by the server.

    podsched behaves as one version of kube-scheduler. Kubernetes' version skew policy: a scheduler
    may be one minor version older than the API server, and not newer.
    """
    minor, served = _minor(scheduler), _minor(server)
    if f"{minor[0]}.{minor[1]}" != VERSION:
        raise NotComparableError(
            f"kube-scheduler is {scheduler}, but podsched behaves as {VERSION}: use v{VERSION}"
        )
    if served[0] != minor[0] or served[1] - minor[1] not in (0, 1):
        raise NotComparableError(
            f"the API server is {server}: kube-scheduler {scheduler} needs one of the same minor "
            "version or the next"
        )


def _minor(version: str) -> tuple[int, int]:
    found = _VERSION.fullmatch(version)
    if not found:
        raise NotComparableError(
            f'"{version}" is not a version of Kubernetes, such as v{VERSION}.0'
        )
    return int(found[1]), int(found[2])


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """How to reach a cluster; its processes on this machine by name."""

    kubeconfig: Path
    pids: dict[str, int | None] = field(default_factory=dict)
    etcd: str = ""
    """The version of its etcd; "" if it is not known."""
    controllers: bool = True
    """Whether a controller manager runs, which deletes what is in a deleted namespace."""


@asynccontextmanager
async def control_plane(directory: Path, data: Path) -> AsyncIterator[ControlPlane]:
    """Run etcd and kube-apiserver of a directory for the block, with everything in ``data``.

    Raises NotComparableError, ProcessFailed, EmbeddedEtcdError.
    """
    found = binaries(directory, (API_SERVER, ETCD))
    port, token, kubeconfig = free_port(), secrets.token_urlsafe(32), data / "kubeconfig"
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    write_private(kubeconfig, kubeconfig_of(cluster, {"token": token}))
    tasks = TaskSet("the control plane")
    async with EmbeddedEtcd(EmbeddedEtcdOptions(data / ETCD, binary=found[ETCD])) as etcd:
        arguments = _arguments(data, etcd.endpoint, port, token)
        program = (str(found[API_SERVER]),)
        spec = ProcessSpec(API_SERVER, arguments, port, restart=False, program=program)
        server = ManagedProcess(spec, data, tasks)
        try:
            await server.start()
            await _until_ready(server, kubeconfig)
            pids = {API_SERVER: server.pid, ETCD: etcd.pid}
            version = ".".join(map(str, etcd.version or ()))
            yield ControlPlane(kubeconfig, pids, version, controllers=False)
        finally:
            await server.stop()
            await tasks.stop()


def _arguments(data: Path, etcd: str, port: int, token: str) -> list[str]:
    """Return kube-apiserver's arguments, without limits on the number of requests."""
    tokens, key, public = (data / name for name in ("tokens.csv", "key.pem", "public.pem"))
    write_private(tokens, f"{token},{_NAME},{_NAME},{_GROUP}\n")
    for path, content in zip((key, public), new_signing_key(), strict=True):
        write_private(path, content.decode())
    return [
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={data / 'certificates'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={key}",
        f"--service-account-key-file={public}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        # No controller makes service accounts, or takes the taint from nodes that are ready.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--enable-priority-and-fairness=false",
    ]


async def _until_ready(server: ManagedProcess, kubeconfig: Path) -> None:
    http = KubeHttp(from_kubeconfig(kubeconfig), timeout=2.0, wait_for_server=False)

    async def is_ready() -> bool:
        with suppress(ClientError):
            await http.request_bytes("GET", "/readyz")
            return True
        return False

    try:
        if not await comes_true(is_ready, server, READY_WITHIN, _LOOK_EVERY):
            raise ProcessFailed(f"{API_SERVER} did not become ready:\n{server.log_tail()}")
    finally:
        await http.close()


async def comes_true(
    condition: Callable[[], Awaitable[bool]], process: ManagedProcess, within: float, every: float
) -> bool:
    """Return whether a condition is true within some seconds, looking every ``every`` seconds.

    Raises ProcessFailed if a process ends before.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + within
    while not (true := await condition()) and clock() < deadline:
        if process.exit_code is not None:
            raise ProcessFailed(f"{process.spec.name} ended:\n{process.log_tail()}")
        await asyncio.sleep(every)
    return true
