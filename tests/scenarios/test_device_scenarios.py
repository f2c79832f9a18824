"""Behaviour over time of pods that want devices; see ``test_scenarios``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.scenario_backend import PodschedBackend
from support.scenario_runs import NAMED, rounds, run

pytestmark = pytest.mark.integration

FILES = [] if NAMED else [Path(__file__).parent / "data" / "20-devices.yaml"]


@pytest.mark.parametrize("scenario", rounds(FILES))
def test_scenario(scenario: dict[str, Any], backend: PodschedBackend) -> None:
    """The scenario's promise is kept."""
    run(scenario, backend)
