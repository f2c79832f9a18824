"""What new objects of kinds other than Pod are given."""

from __future__ import annotations

import pytest

from podsched.api.codec import object_json
from podsched.api.defaulting import default_object, default_queued_job
from podsched.api.objects import Job, Lease, LeaseSpec, Namespace, Node, Service, StatefulSet
from podsched.api.priorities import PriorityClasses

NOW = 1_700_000_000.75
UID = "0b1f6c7e-0000-4000-8000-000000000001"


@pytest.mark.parametrize("kind", [Namespace, Node])
def test_objects_of_the_cluster_have_no_namespace(kind: type[Namespace] | type[Node]) -> None:
    item = kind()
    item.metadata.name = "one"
    default_object(item, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert item.metadata.namespace == ""


def test_a_namespace_can_be_selected_by_its_name() -> None:
    item = Namespace()
    item.metadata.name = "shop"
    default_object(item, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert item.metadata.labels["kubernetes.io/metadata.name"] == "shop"


def test_a_node_that_says_only_its_capacity_offers_all_of_it() -> None:
    node = Node()
    node.status.capacity["cpu"] = "4"
    default_object(node, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert dict(node.status.allocatable) == {"cpu": "4"}


def test_a_lease_has_no_strategy_or_preferred_holder_without_coordinated_election() -> None:
    lease = Lease()
    lease.spec.holder_identity = "me"
    lease.spec.strategy, lease.spec.preferred_holder = "OldestEmulationVersion", "another"
    default_object(lease, now=0, uid="u", priority_classes=PriorityClasses())
    assert lease.spec == LeaseSpec(holder_identity="me")


def queued_job(parallelism: int, completions: int | None) -> Job:
    made = Job()
    made.metadata.name = "sample"
    made.metadata.labels.update(
        {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": "high"}
    )
    made.spec.suspend, made.spec.parallelism = True, parallelism
    if completions is not None:
        made.spec.completions = completions
    return made


def test_a_job_in_a_queue_is_not_suspended_and_its_pods_join_the_queue() -> None:
    item = queued_job(1, 1)
    default_queued_job(item)
    assert not item.spec.suspend
    assert dict(item.spec.template.metadata.labels) == {
        "kueue.x-k8s.io/queue-name": "team",
        "kueue.x-k8s.io/priority-class": "high",
    }


@pytest.mark.parametrize(("completions", "grouped"), [(3, True), (None, True), (9, False)])
def test_pods_of_a_job_in_a_queue_are_a_group_if_they_all_run_at_once(
    completions: int | None, grouped: bool
) -> None:
    item = queued_job(3, completions)
    default_queued_job(item)
    template = item.spec.template.metadata
    group = template.labels.get("kueue.x-k8s.io/pod-group-name")
    count = template.annotations.get("kueue.x-k8s.io/pod-group-total-count")
    assert (group, count) == (("sample", "3") if grouped else (None, None))


def test_a_job_that_may_start_with_fewer_pods_is_a_group_of_so_many() -> None:
    item = queued_job(3, 3)
    item.metadata.annotations["kueue.x-k8s.io/job-min-parallelism"] = "2"
    default_queued_job(item)
    assert item.spec.template.metadata.annotations["kueue.x-k8s.io/pod-group-total-count"] == "2"


def test_a_job_without_a_queue_stays_suspended() -> None:
    item = Job()
    item.spec.suspend = True
    default_queued_job(item)
    assert item.spec.suspend and not item.spec.template.metadata.labels


def test_an_empty_update_strategy_of_a_stateful_set_is_completed_like_a_missing_one() -> None:
    item = StatefulSet()
    item.spec.update_strategy["type"] = ""
    default_object(item, now=NOW, uid=UID, priority_classes=PriorityClasses())
    update = object_json(item.spec.update_strategy)
    assert update == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}


def test_a_service_without_session_affinity_has_no_configuration_of_it() -> None:
    """What it got as a default is not named by who switches the affinity off."""
    item = Service()
    item.spec.session_affinity = "ClientIP"
    default_object(item, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert object_json(item.spec.session_affinity_config) == {"clientIP": {"timeoutSeconds": 10800}}
    item.spec.session_affinity = ""
    default_object(item, now=NOW, uid=UID, priority_classes=PriorityClasses())
    assert item.spec.session_affinity == "None"
    assert not item.spec.HasField("session_affinity_config")
