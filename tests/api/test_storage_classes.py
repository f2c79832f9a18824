"""Which class is the default one."""

from __future__ import annotations

import pytest

from podsched.api.objects import PersistentVolumeClaim, StorageClass
from podsched.api.storage_classes import default_class, names_class

MARK = "storageclass.kubernetes.io/is-default-class"


def marked(name: str, created: int, mark: str = MARK, value: str = "true") -> StorageClass:
    item = StorageClass()
    item.metadata.name = name
    item.metadata.creation_timestamp.seconds = created
    item.metadata.annotations[mark] = value
    return item


@pytest.mark.parametrize(
    ("classes", "default"),
    [
        ([], ""),
        ([marked("a", 1, value="false"), marked("b", 1, "other")], ""),
        ([marked("a", 1, "storageclass.beta.kubernetes.io/is-default-class")], "a"),
        ([marked("a", 5), marked("b", 7), marked("c", 6)], "b"),
        ([marked("b", 7), marked("a", 7)], "a"),
    ],
    ids=["none", "not marked", "marked as of old", "the newest", "the first by name"],
)
def test_the_newest_marked_class_is_the_default(classes: list[StorageClass], default: str) -> None:
    assert default_class(classes) == default


def test_an_empty_class_is_a_class_that_was_named() -> None:
    claim = PersistentVolumeClaim()
    assert not names_class(claim)
    claim.spec.storage_class_name = ""
    assert names_class(claim)
    old = PersistentVolumeClaim()
    old.metadata.annotations["volume.beta.kubernetes.io/storage-class"] = "fast"
    assert names_class(old)
