"""One cluster for all scenarios; its scheduler restarts when the configuration changes.

BACKEND=kubernetes in the environment has the scheduler speak to it as to a Kubernetes cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.scenario_backend import KubernetesBackend, PodschedBackend


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodschedBackend]:
    through = {"": PodschedBackend, "kubernetes": KubernetesBackend}
    backend = through[os.environ.get("BACKEND", "")](tmp_path_factory.mktemp("scenarios"))
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()
