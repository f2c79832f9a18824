"""docs/kube-scheduler-flags.md against the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from podsched.cli.main import COMMANDS
from podsched.config.feature_gates import GATES
from podsched.config.kube_flags import REFUSED

DOCUMENT = (Path(__file__).parents[2] / "docs" / "kube-scheduler-flags.md").read_text()
FLAGS = dict(re.findall(r"^\| `(--[\w-]+)` \| (.+) \|$", DOCUMENT, re.MULTILINE))
ROWS = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \| (.+) \|$", DOCUMENT, re.MULTILINE)
#: How many flags kube-scheduler 1.36 has, --version and --help aside.
_FLAGS_OF_KUBE_SCHEDULER = 60


def options() -> set[str]:
    command: Any = COMMANDS["scheduler"].load("scheduler")
    return {option for param in command.params for option in param.opts}


def test_every_flag_is_an_option_or_refused_as_the_document_says() -> None:
    assert len(FLAGS) == _FLAGS_OF_KUBE_SCHEDULER
    refused = {flag: text for flag, text in FLAGS.items() if text.startswith("refused: ")}
    assert refused == {flag: f"refused: {reason}" for flag, reason in REFUSED.items()}
    assert FLAGS.keys() - refused.keys() <= options()
    assert not REFUSED.keys() & options()


def test_every_feature_gate_is_in_the_document_as_it_is() -> None:
    def text(value: bool | None) -> str:
        return "either" if value is None else str(value).lower()

    assert {name: tuple(rest) for name, *rest in ROWS} == {
        name: (text(gate.default), text(gate.here), gate.means) for name, gate in GATES.items()
    }
