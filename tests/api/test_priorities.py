"""The PriorityClasses of a cluster."""

from __future__ import annotations

from podsched.api.objects import PriorityClass
from podsched.api.priorities import PriorityClasses


def global_default(name: str) -> PriorityClass:
    item = PriorityClass(value=5, global_default=True)
    item.metadata.name = name
    return item


def test_a_second_global_default_is_refused() -> None:
    classes = PriorityClasses([global_default("usual")])
    assert classes.default_conflict(global_default("usual")) == []
    assert classes.default_conflict(global_default("other"))
