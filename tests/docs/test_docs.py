"""What the documents say is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from podsched.telemetry import metrics
from podsched.telemetry.instruments import MetricRegistry

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "deploy/**/*.md")
    for path in ROOT.glob(pattern)
    if ".venv" not in path.parts
)
_FAMILIES = (
    metrics.SchedulerMetrics,
    metrics.PreemptionMetrics,
    metrics.EvaluationMetrics,
    metrics.BindingMetrics,
    metrics.ElectionMetrics,
    metrics.ClientMetrics,
    metrics.ControllerMetrics,
    metrics.ApiServerMetrics,
    metrics.FlowControlMetrics,
    metrics.ProcessMetrics,
    metrics.AgentMetrics,
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_metrics_that_are_described_are_those_that_exist() -> None:
    registry = MetricRegistry()
    for family in _FAMILIES:
        family(registry)
    text = (ROOT / "docs" / "observability.md").read_text()
    text = text[text.index("## Metrics") : text.index("## Logs")]
    described = re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)
    assert set(described) ^ set(registry.names()) == set()
