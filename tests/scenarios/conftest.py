"""One cluster for all scenarios; its scheduler restarts when the configuration changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.scenario_backend import PodschedBackend


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodschedBackend]:
    backend = PodschedBackend(tmp_path_factory.mktemp("scenarios"))
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()
