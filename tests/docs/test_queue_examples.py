"""deploy/examples/queues as Kueue's users write such files."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.api.defaulting import default_object
from podsched.api.manifest import from_manifest, load_documents
from podsched.api.priorities import PriorityClasses
from podsched.api.validation import validate

EXAMPLES = sorted((Path(__file__).parents[2] / "deploy" / "examples" / "queues").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_of_queues_are_valid(path: Path) -> None:
    for document in load_documents(path.read_text()):
        message = from_manifest(document, strict=True).message
        default_object(message, now=1, uid="u", priority_classes=PriorityClasses([]))
        assert validate(document["kind"], message) == []
