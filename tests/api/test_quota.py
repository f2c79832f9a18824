"""What quotas count."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import (
    ConfigMap,
    Pod,
    ReplicaSet,
    ResourceQuota,
    Secret,
    Service,
    ServiceSpec,
)
from podsched.api.quota import Balance, is_counted, missing_requests, set_used, usage_of
from support.api_objects import pod

POD, NOW = KINDS["Pod"], 1000.0


def quota(used: dict[str, str] | None = None, **hard: str) -> ResourceQuota:
    item = ResourceQuota()
    item.metadata.name = "limits"
    item.spec.hard.update({name.replace("_", "."): amount for name, amount in hard.items()})
    if used is not None:
        item.status.used.update(used)
    return item


def test_a_pod_counts_what_it_requests_and_is_limited_to_under_every_name() -> None:
    """Devices only with the prefix, as in Kubernetes."""
    item = pod()
    resources = item.spec.containers[0].resources
    resources.requests.update({"memory": "1Gi", "example.com/gpu": "2"})
    resources.limits.update({"cpu": "1", "example.com/gpu": "2"})
    assert usage_of(POD, item, NOW) == {
        "count/pods": 1,
        "pods": 1,
        "cpu": Fraction(1, 10),
        "requests.cpu": Fraction(1, 10),
        "memory": 2**30,
        "requests.memory": 2**30,
        "requests.example.com/gpu": 2,
        "limits.cpu": 1,
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_counts_as_an_object_only(phase: str) -> None:
    """ "pods" leaves it out, "count/pods" does not."""
    item = pod()
    item.status.phase = phase
    assert usage_of(POD, item, NOW) == {"count/pods": 1}


def test_a_pod_that_should_be_gone_counts_as_an_object_only() -> None:
    """From the end of its grace period on, once more as long after its deletion."""
    item = pod()
    item.metadata.deletion_timestamp.seconds = 1030
    item.metadata.deletion_grace_period_seconds = 30
    assert "pods" in usage_of(POD, item, 1060)
    assert "pods" not in usage_of(POD, item, 1061)


def test_other_objects_count_by_resource_and_group() -> None:
    """And under their plural where Kubernetes had that name first."""
    assert usage_of(KINDS["ReplicaSet"], ReplicaSet(), NOW) == {"count/replicasets.apps": 1}
    assert usage_of(KINDS["ConfigMap"], ConfigMap(), NOW) == {
        "count/configmaps": 1,
        "configmaps": 1,
    }


def test_secrets_count_under_their_own_name() -> None:
    assert usage_of(KINDS["Secret"], Secret(), NOW) == {"count/secrets": 1, "secrets": 1}


@pytest.mark.parametrize(
    ("spec", "node_ports", "load_balancers"),
    [
        ({"type": "ClusterIP"}, 0, 0),
        ({"type": "NodePort"}, 2, 0),
        ({"type": "LoadBalancer"}, 2, 1),
        ({"type": "LoadBalancer", "allocate_load_balancer_node_ports": False}, 1, 1),
    ],
)
def test_a_service_counts_the_node_ports_that_it_gets_or_names(
    spec: dict[str, Any], node_ports: int, load_balancers: int
) -> None:
    service = Service(spec=ServiceSpec(**spec))
    service.spec.ports.add(port=80, node_port=30080 if node_ports else 0)
    service.spec.ports.add(port=81)
    usage = usage_of(KINDS["Service"], service, NOW)
    assert usage.get("services.nodeports", 0) == node_ports
    assert usage.get("services.loadbalancers", 0) == load_balancers


def test_events_and_cluster_scoped_objects_do_not_count() -> None:
    """A quota could not limit them."""
    assert [is_counted(KINDS[name]) for name in ("Event", "Node", "Pod")] == [False, False, True]


def test_an_excess_is_told_in_kubernetes_words() -> None:
    """Only what is too much, sorted by name."""
    limits = quota({"pods": "3", "requests.cpu": "1900m", "requests.memory": "0"},
                   pods="3", requests_cpu="2", requests_memory="1Gi")  # fmt: skip
    usage = {"pods": Fraction(1), "requests.cpu": Fraction(1, 5), "requests.memory": Fraction(5)}
    assert Balance(limits).excess(usage) == (
        "exceeded quota: limits, requested: pods=1,requests.cpu=200m, "
        "used: pods=3,requests.cpu=1900m, limited: pods=3,requests.cpu=2"
    )


def test_what_is_charged_counts_for_the_next() -> None:
    """The last of four does not fit."""
    balance = Balance(quota({"pods": "0"}, pods="3"))
    fits = []
    for _ in range(4):
        fits.append(not balance.excess({"pods": Fraction(1)}))
        if fits[-1]:
            assert balance.charge({"pods": Fraction(1)})
    assert fits == [True, True, True, False]


def test_nothing_requested_is_not_refused_where_too_much_is_used() -> None:
    """A quota that was lowered refuses only what makes it worse."""
    balance = Balance(quota({"requests.cpu": "5", "pods": "1"}, requests_cpu="2", pods="9"))
    assert balance.excess({"pods": Fraction(1), "requests.cpu": Fraction(0)}) == ""


def test_a_status_without_a_limited_name_is_not_known() -> None:
    """It has to be counted first."""
    assert not Balance(quota(pods="3")).is_known
    assert Balance(quota({"pods": "1"}, pods="3")).is_known


def test_containers_must_name_what_a_quota_limits() -> None:
    """With the containers that do not, as Kubernetes lists them."""
    item = pod()
    item.spec.containers.add(name="side")
    assert missing_requests({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "1"}, item) == (
        "must specify limits.memory for: app,side; requests.cpu for: side"
    )
    assert missing_requests({"pods": "1"}, item) == ""


def test_a_pod_with_resources_of_its_own_need_not_name_them_for_containers() -> None:
    """Pod-level resources are enough."""
    item = Pod()
    item.spec.containers.add(name="app")
    item.spec.resources.requests["cpu"] = "1"
    assert missing_requests({"requests.cpu": "1"}, item) == ""


def test_the_status_shows_what_is_limited_and_nothing_else() -> None:
    """What is not used is 0; the second time nothing changes."""
    item = quota({"old": "1"}, pods="3", requests_memory="4Gi")
    total = {"pods": Fraction(2), "requests.cpu": Fraction(1)}
    assert set_used(item, total)
    assert dict(item.status.used) == {"pods": "2", "requests.memory": "0"}
    assert dict(item.status.hard) == {"pods": "3", "requests.memory": "4Gi"}
    assert not set_used(item, total)
