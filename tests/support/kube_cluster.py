"""A small cluster that serves Kubernetes' REST API with TLS, and kubectl for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from podsched.app.local_cluster import LocalCluster
from podsched.app.supervisor import ManagedProcess
from support.eventually import PATIENCE

KUBECTL = Path(sys.executable).with_name("kubectl")


@dataclass
class KubeCluster:
    """The cluster, and kubectl for it. ``runner`` runs the loop that keeps its processes."""

    cluster: LocalCluster
    runner: asyncio.Runner

    @property
    def kubeconfig(self) -> str:
        return str(self.cluster.specs.kubeconfig)

    @property
    def api_server(self) -> ManagedProcess:
        return self.cluster.api_servers[0]

    def kubectl(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """What kubectl prints, errors included; its exit code must be ``code``."""
        done = self.start(*arguments)
        try:
            output, _ = done.communicate(stdin, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            done.kill()
            done.communicate()
            raise
        assert done.returncode == code, f"kubectl {' '.join(arguments)}: {output}"
        return str(output)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A running kubectl."""
        home = str(self.cluster.specs.options.data_dir)
        return subprocess.Popen(
            [KUBECTL, *arguments],
            env={**os.environ, "KUBECONFIG": self.kubeconfig, "HOME": home},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
