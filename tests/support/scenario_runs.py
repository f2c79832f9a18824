"""Runs of behaviour scenarios: which ones, in which order, with which configuration.

The scenarios run in the order of their configurations, so that the scheduler restarts rarely;
SCENARIO_ROUNDS in the environment has all of them run several times in a row, SCENARIO_FILES other
files in their place. Assertions that the engine lacks may be in ``engine_*.py`` beside the folder
of such a file; these modules import the engine as ``engine``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from support import scenario_devices, scenario_engine
from support.eventually import PATIENCE
from support.scenario_backend import PodschedBackend
from support.scenario_engine import Runner, load

#: Paths of other scenarios to run, in place of those of the tests.
NAMED = [Path(name) for name in os.environ.get("SCENARIO_FILES", "").split()]


def rounds(files: Iterable[Path]) -> list[Any]:
    """The parameters of a test: the scenarios of files, as many times as they are to run."""
    return [
        pytest.param(scenario, id=scenario["id"] + (f"-again-{turn}" if turn > 1 else ""))
        for turn in range(1, int(os.environ.get("SCENARIO_ROUNDS", "1")) + 1)
        for scenario in _by_configuration(files)
    ]


def _by_configuration(files: Iterable[Path]) -> list[dict[str, Any]]:
    for path in {path for name in NAMED for path in name.absolute().parents[1].glob("engine_*.py")}:
        _import_assertions(path)
    scenario_devices.register()
    scenarios = load(files)
    keys = [_key(scenario) for scenario in scenarios]
    first = {key: place for place, key in reversed(list(enumerate(["null", *keys])))}
    return sorted(scenarios, key=lambda scenario: first[_key(scenario)])


def _import_assertions(path: Path) -> None:
    sys.modules["engine"] = scenario_engine
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _key(scenario: dict[str, Any]) -> str:
    return json.dumps(scenario.get("scheduler_config"), sort_keys=True)


class PatientRunner(Runner):
    """Waits longer than scenarios say, since a busy machine is slow.

    But not so long that a pod could end after its grace period of 30 s where it is to end at once,
    or be tried again because it has waited for five minutes.
    """

    def do_expect(self, v: dict[str, Any], step: dict[str, Any]) -> None:
        within = min(5.0 * v.get("within", 10), PATIENCE)
        super().do_expect({**v, "within": within}, step)


def run(scenario: dict[str, Any], backend: PodschedBackend) -> None:
    """Run a scenario and delete what it has made; skip it if something that it needs is missing."""
    runner = PatientRunner(backend)
    missing = runner.missing(scenario)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, which podsched does not claim to have")
    runner.config = scenario.get("scheduler_config")
    if _key(scenario) != backend.running:
        backend.restart_scheduler(runner.config)
        backend.running = _key(scenario)
    try:
        runner.run(scenario)
    finally:
        backend.reset()
