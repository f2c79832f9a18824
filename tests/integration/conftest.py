"""One cluster for all tests of clients that other projects wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from support.kube_cluster import KubeCluster


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeCluster]:
    """etcd, an API server, a scheduler and two hollow nodes, as processes."""
    directory = tmp_path_factory.mktemp("kube")
    options: dict[str, Any] = {"replicas": 1, "nodes": 2, "evaluator": "local", "fsync": False}
    with asyncio.Runner() as runner:
        cluster = LocalCluster(
            LocalClusterOptions(
                directory, kube_address="127.0.0.1:0", tls_dir=directory / "certs", **options
            )
        )
        runner.run(cluster.start())
        try:
            yield KubeCluster(cluster, runner)
        finally:
            runner.run(cluster.stop())
