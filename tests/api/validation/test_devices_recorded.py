"""Validation as a record of Kubernetes' own tests has it, where that is beside the checkout."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from podsched.api.defaulting import default_claim_status, default_object
from podsched.api.field_errors import FieldError
from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, ResourceClaim
from podsched.api.priorities import PriorityClasses
from podsched.api.validation import validate, validate_status
from podsched.api.validation.place import MOST_ERRORS

#: In a folder beside the checkout, or above it.
FOLDERS = [above / "shared" / "dra" for above in Path(__file__).parents[4:]]
RECORD = next((f / "validation.jsonl.gz" for f in FOLDERS if f.is_dir()), None)


def recorded() -> list[Any]:
    if RECORD is None:
        return [pytest.param({}, marks=pytest.mark.skip(reason="the record is not beside us"))]
    with gzip.open(RECORD, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    return [pytest.param(case, id=f"{case['kind']}-{case['name']}") for case in cases]


def read(manifest: dict[str, Any], operation: str) -> AnyObject:
    message = from_manifest(manifest).message
    metadata = message.metadata
    given = (metadata.name, metadata.namespace)
    if operation == "create":
        message.ClearField("status") if isinstance(message, ResourceClaim) else None
    default_object(message, now=1, uid="u", priority_classes=PriorityClasses([]))
    if "deletionTimestamp" in manifest["metadata"]:
        metadata.deletion_timestamp.GetCurrentTime()
    if "generateName" not in manifest["metadata"]:
        metadata.name, metadata.namespace = given
    return message


def found_in(case: dict[str, Any]) -> list[FieldError]:
    operation = case["operation"]
    new = read(case["object"], operation)
    if operation == "create":
        return validate(case["kind"], new)
    old = read(case["oldObject"], operation)
    if operation == "update":
        return validate(case["kind"], new, old)
    assert isinstance(new, ResourceClaim)
    assert isinstance(old, ResourceClaim)
    default_claim_status(new, old)
    return validate_status(case["kind"], new, old)


def comparable(text: str) -> str:
    """Return an error without what cel-go says, and without the spec that is immutable.

    Kubernetes shows it by the names of Go's fields.
    """
    text = re.sub(r"compilation failed: .*", "compilation failed", text, flags=re.DOTALL)
    return re.sub(r"Invalid value: \{.*\}: field is", "Invalid value: {}: field is", text)


@pytest.mark.parametrize("case", recorded())
def test_it_finds_what_kubernetes_finds(case: dict[str, Any]) -> None:
    found = Counter(comparable(str(error)) for error in found_in(case))
    server = case.get("server")
    if server is None:
        assert found == Counter(comparable(error["message"]) for error in case["errors"])
        return
    message = comparable(server.get("message", ""))
    if server["code"] == 400:
        assert "does not match the name on the URL" in message
        return
    assert (server["code"] == 422) == bool(found)
    for error in found:
        assert error in message
        message = message.replace(error, "", found[error])
    rest = message.partition(" is invalid: ")[2].strip("[], ")
    assert not rest or found.total() >= MOST_ERRORS
