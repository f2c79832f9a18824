"""Metadata of all kinds: finalizers."""

from __future__ import annotations

import pytest

from podsched.api.objects import ConfigMap, ReplicaSet
from podsched.api.validation import validate


def problems(item: ConfigMap | ReplicaSet, *finalizers: str) -> list[str]:
    item.metadata.name, item.metadata.namespace = "a", "default"
    item.metadata.finalizers.extend(finalizers)
    found = validate(type(item).__name__, item)
    return [str(error) for error in found if error.path.startswith("metadata")]


@pytest.mark.parametrize("name", ["example.com/hold", "kubernetes", "orphan", "foregroundDeletion"])
def test_finalizers_are_qualified_or_standard(name: str) -> None:
    assert problems(ConfigMap(), name) == []


def test_another_name_is_a_mistake_where_kubernetes_has_only_those() -> None:
    """That is, in the core group."""
    assert problems(ConfigMap(), "hold") == [
        'metadata.finalizers[0]: Invalid value: "hold": '
        "name is neither a standard finalizer name nor is it fully qualified"
    ]
    assert problems(ReplicaSet(), "hold") == []


def test_dependents_are_deleted_or_kept_but_not_both() -> None:
    found = problems(ConfigMap(), "orphan", "foregroundDeletion")
    assert len(found) == 1
    assert "finalizer orphan and foregroundDeletion cannot be both set" in found[0]
