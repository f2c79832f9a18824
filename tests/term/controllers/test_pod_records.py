"""What is kept of pods, and the order in which pods are deleted."""

from __future__ import annotations

from collections import Counter

import pytest

from podsched.api.objects import Pod, timestamp
from podsched.term.controllers.pod_records import (
    OwnedPod,
    completion_index,
    deletion_rank,
    record_of,
    removal_rank,
)

NOW = 1_000_000.0


def kept(**fields: object) -> OwnedPod:
    whole: dict[str, object] = {
        "key": "default/p",
        "uid": "u",
        "phase": "Running",
        "node": "n1",
        "is_deleting": False,
        "is_lost": False,
        "matches": True,
        "ready_at": NOW - 1000,
        "created": NOW - 2000,
        "restarts": (0, 0),
        "all_restarts": 0,
        "cost": 0,
        "is_tracked": False,
        "completion": -1,
        "finished_at": 0.0,
        **fields,
    }
    return OwnedPod(**whole)  # type: ignore[arg-type]


#: From the one that is deleted first to the one that is deleted last.
ORDER = [
    kept(node="", phase="Pending", ready_at=None),
    kept(phase="Pending", ready_at=None),
    kept(phase="Unknown", ready_at=None),
    kept(ready_at=None),
    kept(cost=-5),
    kept(node="full"),
    kept(ready_at=NOW - 1),
    kept(restarts=(3, 0)),
    kept(restarts=(0, 3)),
    kept(created=NOW - 10),
    kept(uid="a"),
    kept(uid="b"),
    kept(cost=5),
]


def test_pods_of_a_replica_set_are_deleted_in_kubernetes_order() -> None:
    on_nodes = Counter({"full": 2, "n1": 1})
    mixed = ORDER[::-1]
    found = sorted(mixed, key=lambda pod: deletion_rank(pod, on_nodes, NOW))
    assert found == ORDER


def test_ages_of_the_same_magnitude_count_as_equal() -> None:
    ranks = {deletion_rank(kept(ready_at=NOW - age), Counter(), NOW) for age in (1000, 1001)}
    assert len(ranks) == 1


def test_pods_of_a_job_are_removed_in_kubernetes_order() -> None:
    order = [
        kept(node="", phase="Pending", ready_at=None),
        kept(phase="Pending", ready_at=None),
        kept(ready_at=None),
        kept(ready_at=NOW - 1),
        kept(restarts=(1, 0)),
        kept(created=NOW - 10),
        kept(cost=-9),
    ]
    mixed = order[::-1]
    assert sorted(mixed, key=removal_rank) == order


@pytest.mark.parametrize(
    ("text", "index"), [("0", 0), ("17", 17), ("", -1), ("-3", -1), ("x", -1), ("9" * 12, -1)]
)
def test_an_index_is_a_number_from_zero(text: str, index: int) -> None:
    assert completion_index(text) == index


def test_a_pod_finished_when_its_last_container_did() -> None:
    pod = Pod()
    pod.status.phase = "Failed"
    for at in (10, 20):
        status = pod.status.container_statuses.add()
        status.state.terminated.finished_at.CopyFrom(timestamp(NOW + at))
    assert record_of("default/p", pod, matches=True).finished_at == NOW + 20


def test_a_pod_finished_when_its_sidecars_did() -> None:
    pod = Pod()
    pod.status.phase = "Failed"
    pod.spec.init_containers.add(name="first")
    pod.spec.init_containers.add(name="sidecar", restart_policy="Always")
    of_pod = pod.status
    for statuses, name, at in (
        (of_pod.container_statuses, "main", 10),
        (of_pod.init_container_statuses, "first", 30),
        (of_pod.init_container_statuses, "sidecar", 20),
    ):
        status = statuses.add(name=name)
        status.state.terminated.finished_at.CopyFrom(timestamp(NOW + at))
    assert record_of("default/p", pod, matches=True).finished_at == NOW + 20


def test_a_deleted_pod_without_containers_finished_when_it_was_deleted() -> None:
    pod = Pod()
    pod.status.phase = "Failed"
    pod.metadata.deletion_timestamp.CopyFrom(timestamp(NOW))
    pod.metadata.deletion_grace_period_seconds = 30
    assert record_of("default/p", pod, matches=True).finished_at == NOW - 30
