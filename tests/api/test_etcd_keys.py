from __future__ import annotations

from pathlib import Path

import pytest

import podsched
from podsched.api import etcd_keys
from podsched.api.kinds import KINDS

SOURCES = Path(podsched.__file__).parent


def test_the_layout_in_etcd_stays_as_it_is() -> None:
    pod, node = KINDS["Pod"], KINDS["Node"]
    assert etcd_keys.object_key(pod, "default/web") == "/podsched/objects/pods/default/web"
    assert etcd_keys.object_key(node, "n1") == "/podsched/objects/nodes/n1"
    assert etcd_keys.kind_prefix(pod, "default") == "/podsched/objects/pods/default/"
    assert etcd_keys.lease_key("a/b") == "/podsched/objects/leases/a/b"
    assert etcd_keys.term_key("a/b") == "/podsched/terms/a/b"
    assert etcd_keys.liveness_key("a/b") == "/podsched/liveness/a/b"


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_an_objects_key_is_read_back_as_its_kind_and_local_key(kind: object) -> None:
    local = etcd_keys.local_key(kind, "default", "web")  # type: ignore[arg-type]
    key = etcd_keys.object_key(kind, local)  # type: ignore[arg-type]

    assert etcd_keys.parse_object_key(key) == (kind, local)


@pytest.mark.parametrize(
    "key",
    [
        etcd_keys.SYNC,
        etcd_keys.term_key("a/b"),
        etcd_keys.liveness_key("a/b"),
        "/podsched/objects/unheardof/a",
        "/podsched/objects/pods/",
        "/somebody/elses",
    ],
)
def test_a_key_that_is_no_object_of_a_known_kind_is_not_parsed(key: str) -> None:
    assert etcd_keys.parse_object_key(key) is None


def test_no_other_module_spells_a_key() -> None:
    spelled = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if '"/podsched/' in path.read_text()
    }
    assert spelled == {"api/etcd_keys.py"}
