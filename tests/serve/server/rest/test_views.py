"""Views of objects in the REST API."""

from __future__ import annotations

from podsched.api.kinds import KINDS
from podsched.api.objects import Pod
from podsched.serve.server.entries import Entry
from podsched.serve.server.rest.resources import GROUPS
from podsched.serve.server.rest.views import EncodedObjects

PODS = GROUPS["", "v1"]["pods"]


def entry(phase: str, revision: int) -> Entry:
    pod = Pod()
    pod.metadata.name, pod.metadata.namespace, pod.status.phase = "web", "default", phase
    return Entry(KINDS["Pod"], "default/web", pod.SerializeToString(), revision, 1)


def test_an_object_is_encoded_once_for_the_answer_to_its_creation_and_for_watches() -> None:
    encoded = EncodedObjects()
    assert encoded.of(PODS, entry("Pending", 7)) is encoded.of(PODS, entry("Pending", 7), 7)


def test_each_revision_of_an_object_has_its_own_encoding() -> None:
    encoded = EncodedObjects()
    assert b'"Pending"' in encoded.of(PODS, entry("Pending", 7))
    assert b'"Running"' in encoded.of(PODS, entry("Running", 8))
    # The deletion of an object shows its last state with the deletion's version.
    assert b'"resourceVersion":"9"' in encoded.of(PODS, entry("Running", 8), 9)
