"""The restart of a whole system."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from podsched.app.local_specs import LocalClusterOptions
from podsched.lab.bench import cluster, restart
from podsched.lab.bench.cluster import BenchOptions


async def test_the_system_is_started_again_with_the_options_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[LocalClusterOptions] = []

    async def nothing(*_: Any) -> float:
        return 0.0

    def make(options: LocalClusterOptions) -> Any:
        made.append(options)
        return SimpleNamespace(start=nothing, stop=nothing)

    monkeypatch.setattr(cluster, "LocalCluster", make)
    monkeypatch.setattr(restart, "_fill", nothing)
    monkeypatch.setattr(restart, "_bound_at", nothing)
    options = BenchOptions(api_servers=2, scheduler_arguments=("--without=incremental",))
    await restart.run_restart(1, 1, options, lambda *_: None)
    [found] = made
    assert (found.api_servers, found.scheduler_arguments) == (2, ("--without=incremental",))
