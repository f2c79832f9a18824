"""``sched debug bundle`` on a running cluster: what is in it, and what must not be."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

import pytest

from podsched.app.local_cluster import LocalCluster
from support.commands import Commands

SECRETS = ("pa55-in-env", "pa55-in-log", "pa55-in-pod", "pa55-in-annotation", "pa55-in-token")
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: confidant
  annotations: {example.com/api-token: pa55-in-annotation}
spec:
  containers:
  - {name: c, image: i, env: [{name: PLAIN, value: pa55-in-pod}], args: [--key, pa55-in-pod]}
"""
LOG = """2026-01-01 [info] Connecting url=http://me:pa55-in-log@host password=pa55-in-log
{"message": "x", "bearerToken": "pa55-in-log", "password": "pa55-in-log"}
-----BEGIN PRIVATE KEY-----
cGE1NS1pbi1sb2cpa55-in-log
-----END PRIVATE KEY-----
Authorization: Bearer pa55-in-log
eyJhbGciOiJIUzI1NiJ9.eyJwYTU1LWluLWxvZyI6MX0.pa55-in-log
"""


def texts(path: Path) -> dict[str, str]:
    """The files of an archive, by their paths in it."""
    with tarfile.open(path) as archive:
        found = {}
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read().decode()
        return found


@pytest.mark.integration
def test_a_bundle_has_every_process_and_no_secret(
    sched: Commands, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHED_ETCD_PASSWORD", "pa55-in-env")
    monkeypatch.setenv("SCHED_SERVER", cluster.server)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "pa55-in-token")
    (tmp_path / "planted.log").write_text(LOG)
    sched.ok("create", "-f", "-", stdin=POD)
    path = tmp_path / "found.tar.gz"
    nowhere = ("--health", "http://127.0.0.1:1")
    done = sched("debug", "bundle", str(path), *nowhere, "--logs", str(tmp_path))
    assert done.code == 0, done.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = texts(path)
    whole = "\n".join(found.values())
    assert [secret for secret in SECRETS if secret in whole] == []
    processes = {name.split("/")[1] for name in found if name.startswith("processes/")}
    kinds = sorted(name.partition("-")[0] for name in processes)
    assert kinds == ["agent", "apiserver", "scheduler"]
    for process in processes:
        assert "python_gc" in found[f"processes/{process}/metrics.txt"]
        assert "check passed" in found[f"processes/{process}/readyz.txt"]
        assert "Up:" in found[f"processes/{process}/statusz.txt"]
    [scheduler] = [name for name in processes if name.startswith("scheduler")]
    assert "node node-0000: requested" in found[f"processes/{scheduler}/cache-and-queue.txt"]
    assert "componentconfig" in found[f"processes/{scheduler}/config.json"]
    assert json.loads(found["status.json"])["nodes"] == 2
    assert json.loads(found["versions.json"])["environment"]["SCHED_ETCD_PASSWORD"] == "***"
    pods = json.loads(found["objects/pods.json"])
    assert "confidant" in {pod["metadata"]["name"] for pod in pods}
    logs = {name for name in found if name.startswith("logs/")}
    assert {"logs/scheduler-0.log", "logs/apiserver-0.log", "logs/planted.log"} <= logs
    assert "named-0: http://127.0.0.1:1" in done.err
    assert "named-0: http://127.0.0.1:1" in found["report.txt"]


@pytest.mark.integration
def test_without_a_server_there_is_a_bundle_of_what_is_here(
    sched: Commands, tmp_path: Path, impatient: None
) -> None:
    path = tmp_path / "found.tar.gz"
    done = sched("debug", "bundle", str(path), "-s", "127.0.0.1:1")
    assert done.code == 1
    assert "no process could be reached" in done.err
    assert "podsched" in texts(path)["versions.json"]
    assert "exists" in sched("debug", "bundle", str(path)).err
