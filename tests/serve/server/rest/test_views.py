"""Views of objects in the REST API."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import ConfigMap, Pod
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest.resources import GROUPS
from podsched.serve.server.rest.views import EncodedObjects, content_of, streamed

PODS = GROUPS["", "v1"]["pods"]
CONFIG_MAPS = GROUPS["", "v1"]["configmaps"]


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


def test_another_history_of_a_restored_store_has_its_own_encodings() -> None:
    """The same revision may be that of other content then."""
    encoded = EncodedObjects()
    assert b'"Pending"' in encoded.of(PODS, entry("Pending", 7))
    assert b'"Running"' in encoded.of(PODS, entry("Running", 7))


def test_a_large_object_is_encoded_once_for_all_its_readers() -> None:
    """Otherwise many watches that begin at once would hold up everybody for 50 ms each."""
    encoded = EncodedObjects()
    config_map = large("a")
    assert encoded.of(CONFIG_MAPS, config_map) is encoded.of(CONFIG_MAPS, config_map)


def test_the_oldest_are_dropped_beyond_64_mib() -> None:
    encoded = EncodedObjects()
    objects = [large(f"m{n}") for n in range(65)]
    first, *_, last = [encoded.of(CONFIG_MAPS, each) for each in objects]
    assert encoded.of(CONFIG_MAPS, objects[-1]) is last
    assert encoded.of(CONFIG_MAPS, objects[0]) is not first


@pytest.mark.looptime
async def test_a_list_that_is_read_too_slowly_ends() -> None:
    """It keeps the objects of its state, which were replaced since."""
    objects = [large(f"m{n}") for n in range(3)]
    pieces = streamed({}, objects, lambda entry: content_of(CONFIG_MAPS, entry), "items", 60)
    with pytest.raises(ApiError, match="has not read the list within 60 s"):
        async for _ in pieces:
            await asyncio.sleep(50)


def large(name: str) -> Entry:
    message = ConfigMap(
        metadata={"namespace": "default", "name": name}, data={"a": "x" * (1 << 20)}
    )
    value = message.SerializeToString()
    return Entry(KINDS["ConfigMap"], f"default/{name}", value, 7, 7)
