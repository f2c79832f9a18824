"""Behaviour over time: scenarios under ``data`` that Kubernetes itself keeps, some of our own.

The scenarios run in the order of their configurations, so that the scheduler restarts rarely;
SCENARIO_ROUNDS in the environment has all of them run several times in a row, SCENARIO_FILES other
files in their place.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.scenario_backend import PodschedBackend
from support.scenario_engine import Runner, load

pytestmark = pytest.mark.integration


def _by_configuration() -> list[dict[str, Any]]:
    here = Path(__file__).parent
    own = [*sorted(here.glob("data/*.yaml")), *sorted(here.glob("own/*.yaml"))]
    named = os.environ.get("SCENARIO_FILES", "").split()
    scenarios = load([Path(name) for name in named] or own)
    keys = [_key(scenario) for scenario in scenarios]
    first = {key: place for place, key in reversed(list(enumerate(["null", *keys])))}
    return sorted(scenarios, key=lambda scenario: first[_key(scenario)])


def _rounds() -> list[Any]:
    rounds = range(1, int(os.environ.get("SCENARIO_ROUNDS", "1")) + 1)
    return [
        pytest.param(scenario, id=scenario["id"] + (f"-again-{turn}" if turn > 1 else ""))
        for turn in rounds
        for scenario in _by_configuration()
    ]


def _key(scenario: dict[str, Any]) -> str:
    return json.dumps(scenario.get("scheduler_config"), sort_keys=True)


class _Running:
    """Which configuration the scheduler runs with now; "" before it runs."""

    key = ""


@pytest.mark.parametrize("scenario", _rounds())
def test_scenario(scenario: dict[str, Any], backend: PodschedBackend) -> None:
    """The scenario's promise is kept."""
    runner = Runner(backend)
    missing = runner.missing(scenario)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, which podsched does not claim to have")
    runner.config = scenario.get("scheduler_config")
    if _key(scenario) != _Running.key:
        backend.restart_scheduler(runner.config)
        _Running.key = _key(scenario)
    try:
        runner.run(scenario)
    finally:
        backend.reset()
