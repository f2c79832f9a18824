"""The verbs that calls are."""

from __future__ import annotations

import pytest

from podsched.api.kind import VERBS
from podsched.serve.server.methods import METHODS, call_of
from podsched.serve.server.service import OBJECTS, PODS
from podsched.v1 import api_pb2


@pytest.mark.parametrize(
    ("verb", "subresource", "call"),
    [
        ("create", "", "Create"), ("list", "", "List"),
        ("deletecollection", "", "DeleteCollection"),
        ("create", "binding", "Bind"), ("create", "eviction", "Evict"), ("get", "scale", "Get"),
        ("update", "status", "UpdateStatus"), ("patch", "status", "Patch"),
        ("update", "finalize", "Update"),
    ],
)  # fmt: skip
def test_a_request_of_the_rest_api_counts_as_the_call_that_does_the_same(
    verb: str, subresource: str, call: str
) -> None:
    assert call_of(verb, subresource) == call


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_of_objects_is_a_call(verb: str) -> None:
    assert METHODS[call_of(verb, "")].verb == verb


def test_each_call_about_objects_has_a_verb() -> None:
    services = (api_pb2.DESCRIPTOR.services_by_name[s.rpartition(".")[2]] for s in (OBJECTS, PODS))
    calls = {method.name for service in services for method in service.methods}
    assert calls - set(METHODS) == set()
