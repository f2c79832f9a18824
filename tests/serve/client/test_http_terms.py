import grpc
import pytest

from podsched.serve.client.http_terms import NO_ANSWER, code_of, verb_of
from podsched.v1 import api_pb2


@pytest.mark.parametrize(
    ("method", "verb"),
    [
        ("Create", "POST"),
        ("CreatePods", "POST"),
        ("BindPods", "POST"),
        ("EvictPods", "POST"),
        ("Get", "GET"),
        ("GetRaw", "GET"),
        ("List", "GET"),
        ("Watch", "GET"),
        ("UpdateStatus", "PUT"),
        ("PatchPodStatuses", "PATCH"),
        ("DeleteCollection", "DELETE"),
    ],
)
def test_a_call_has_the_method_that_rest_has_for_it(method: str, verb: str) -> None:
    assert verb_of(method) == verb


def test_every_method_of_the_api_has_a_verb() -> None:
    services = api_pb2.DESCRIPTOR.services_by_name.values()
    methods = {method.name for service in services for method in service.methods}
    verbs = {verb_of(method) for method in methods}
    assert verbs == {"GET", "POST", "PUT", "PATCH", "DELETE"}


@pytest.mark.parametrize("status", [code.name for code in grpc.StatusCode])
def test_every_status_is_a_code_that_boards_count(status: str) -> None:
    code = code_of("Get", status)
    assert code == NO_ANSWER or code[0] == ("2" if status == "OK" else code[0]) in "245"


def test_a_creation_has_its_own_code_and_an_unanswered_request_none() -> None:
    assert (code_of("Create", "OK"), code_of("List", "OK")) == ("201", "200")
    assert code_of("Create", "UNAVAILABLE", answered=False) == NO_ANSWER
