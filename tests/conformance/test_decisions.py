"""Every decision as kube-scheduler 1.36 made it: all families, all cases, every field."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.conformance import FAMILIES, HEADING, cases, decided, expected, table

DOCS = Path(__file__).parents[2] / "docs" / "plugins.md"


@pytest.mark.parametrize(
    ("family", "case"), [(family, case) for family in FAMILIES for case in cases(family)]
)
def test_the_decision_is_that_of_kube_scheduler(family: str, case: str) -> None:
    assert decided(family, case) == expected(family, case)


def test_there_are_sixty_cases_of_each_family() -> None:
    assert {family: len(cases(family)) for family in FAMILIES} == dict.fromkeys(FAMILIES, 60)
    assert len(FAMILIES) == 11


def test_the_table_in_the_docs_is_what_the_cases_say() -> None:
    text = DOCS.read_text()
    written = text[text.index(HEADING) :].split("\n\n", 1)[0] + "\n"
    assert written == table(), "in tests: python -m support.conformance"
