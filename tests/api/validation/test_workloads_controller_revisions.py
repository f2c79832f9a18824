"""Rules of ControllerRevisions."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, ControllerRevision, RawJSON
from podsched.api.validation import validate


def revision(**fields: Any) -> AnyObject:
    metadata = {"name": "web-1", "namespace": "default"}
    head = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata}
    return from_manifest({**head, **fields}).message


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"data": {"spec": {}}, "revision": 3}, []),
        ({"data": {}, "revision": 0}, []),
        ({"revision": 1}, ["data: Required value: data is mandatory"]),
        (
            {"data": {}, "revision": -1},
            ["revision: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ],
)
def test_one_has_a_state_and_a_number(fields: dict[str, Any], wrong: list[str]) -> None:
    assert [str(error) for error in validate("ControllerRevision", revision(**fields))] == wrong


def test_its_number_may_change_and_its_state_may_not() -> None:
    old = revision(data={"a": 1}, revision=1)
    assert validate("ControllerRevision", revision(data={"a": 1}, revision=2), old) == []
    found = validate("ControllerRevision", revision(data={"a": 2}, revision=1), old)
    assert [str(e) for e in found] == ['data: Invalid value: {"a":2}: field is immutable']
    found = validate("ControllerRevision", revision(revision=1), old)
    assert [str(error) for error in found] == [
        "data: Required value: data is mandatory",
        "data: Invalid value: null: field is immutable",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be JSON"),
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[]", "must be a JSON object"),
        ('{"a": [NaN]}', "must hold finite numbers only"),
        ('{"a": ' + "[" * 24 + "]" * 24 + "}", "must not be nested more than 24 levels deep"),
    ],
)
def test_a_state_that_readers_could_not_read_is_refused(text: str, reason: str) -> None:
    item = ControllerRevision(data=RawJSON(text=text))
    item.metadata.name, item.metadata.namespace = "web-1", "default"
    found = validate("ControllerRevision", item)
    assert [str(error) for error in found] == [f'data: Invalid value: "object": {reason}']
