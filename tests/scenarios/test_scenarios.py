"""Behaviour over time: scenarios under ``data`` that Kubernetes itself keeps, some of our own.

``support.scenario_runs`` tells how to run other scenarios.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.scenario_backend import PodschedBackend
from support.scenario_runs import NAMED, rounds, run

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
#: Those of devices take two minutes, and have a file of their own: files run side by side.
FILES = [
    path
    for path in (*sorted(HERE.glob("data/*.yaml")), *sorted(HERE.glob("own/*.yaml")))
    if path.name != "20-devices.yaml"
]


@pytest.mark.parametrize("scenario", rounds(NAMED or FILES))
def test_scenario(scenario: dict[str, Any], backend: PodschedBackend) -> None:
    """The scenario's promise is kept."""
    run(scenario, backend)
