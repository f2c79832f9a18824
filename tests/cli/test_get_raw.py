"""Stored bytes are shown so that a terminal bears them and nothing of them is lost."""

from __future__ import annotations

import base64
import json

from podsched.cli.get import as_json
from podsched.v1.api_pb2 import RawObject
from support.commands import Commands


def test_bytes_that_are_no_text_are_shown_in_base64() -> None:
    value = bytes(range(256))
    raw = RawObject(kind="Pod", namespace="a", name="b", resource_version=7, value=value)
    raw.problem = "cannot be read"
    text = as_json(raw)
    assert text.isascii()
    shown = json.loads(text)
    assert base64.b64decode(shown.pop("value")) == value
    assert shown == {
        "kind": "Pod",
        "namespace": "a",
        "name": "b",
        "resourceVersion": "7",
        "problem": "cannot be read",
    }


def test_raw_shows_objects_that_are_named_and_nothing_else(sched: Commands) -> None:
    for arguments in (["pods"], ["pods", "-w"], ["pods", "a", "-l", "a=b"]):
        done = sched("get", *arguments, "-o", "raw")
        assert done.code == 2 and "error: -o raw" in done.err
