"""A cluster on this machine with TLS everywhere, whose certificates are renewed while it runs."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from podsched.app.cluster_tls import ClusterTls
from podsched.app.role_certificates import renew
from podsched.lab.bench.shapes import copies, pod_template
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tls_contexts import ConnectingContext
from support.commands import Commands
from support.eventually import eventually
from support.listening import ports_of
from support.real_cluster import RealCluster, real_cluster


async def speaks_tls(port: int, folder: Path) -> bool:
    """Whether what listens there shows a certificate of the cluster's authority, and nothing
    else."""
    files = ClusterTls(folder).files_of("scheduler")
    assert files is not None
    context = ConnectingContext(files, print, any_host=True).latest()
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except ssl.SSLError:
        return False
    writer.close()
    return True


async def bind_some(real: RealCluster, prefix: str) -> None:
    await real.client.create_pods(list(copies(pod_template(), prefix, 20)))
    await eventually("all bound", lambda: real.bound(prefix), 20)


@pytest.mark.integration
async def test_all_that_listens_has_tls_and_goes_on_with_renewed_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "certs"
    async with real_cluster(tmp_path, tls_dir=folder, replicas=2) as real:
        assert real.cluster.etcd is not None
        pids = [process.pid for process in (*real.cluster.processes, real.cluster.etcd)]
        ports = ports_of(pid for pid in pids if pid)
        assert len(ports) >= 8, "health of four, API, two of peers, two of etcd"
        for port in ports:
            assert await speaks_tls(port, folder), f"port {port}"
        await bind_some(real, "before")
        # As data_directory of podsched.cli.local makes it, for other commands to find the cluster.
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        run = RunDirectory("up", tmp_path)
        (run.path / "etcd-endpoint").symlink_to(tmp_path / "etcd-endpoint")
        saved = await asyncio.to_thread(Commands(), "snapshot", "save", str(tmp_path / "saved.db"))
        run.remove()
        assert (saved.code, saved.err) == (0, "")

        renew(folder, days=1)
        leader = real.leader()
        leader.kill()
        await bind_some(real, "after")
        await real.check_history("after", 20)
        await leader.wait_ready()
        for process in real.cluster.processes:
            served = ssl.get_server_certificate(("127.0.0.1", process.spec.health_port))
            certificate = load_pem_x509_certificate(served.encode())
            lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
            assert lifetime.days == 1, process.spec.name
