"""What a new pod is given."""

from __future__ import annotations

import pytest

from podsched.api.field_errors import FieldError
from podsched.api.manifest import to_manifest
from podsched.api.objects import Pod, PriorityClass
from podsched.api.pod_defaulting import _default_bare_spec, default_pod, merge_label_keys
from podsched.api.priorities import PriorityClasses

NOW = 1_700_000_000.75
UID = "0b1f6c7e-0000-4000-8000-000000000001"


def priority_class(name: str, value: int, policy: str = "", default: bool = False) -> PriorityClass:
    item = PriorityClass(value=value, preemption_policy=policy, global_default=default)
    item.metadata.name = name
    return item


def new_pod() -> Pod:
    pod = Pod()
    pod.metadata.name = "web"
    pod.spec.containers.add(name="main", image="nginx:1.27")
    return pod


def admit(pod: Pod, *classes: PriorityClass) -> list[FieldError]:
    return default_pod(pod, now=NOW, uid=UID, priority_classes=PriorityClasses(classes))


def test_a_new_pod_is_given_what_kubernetes_gives_it() -> None:
    pod = new_pod()
    assert admit(pod) == []
    manifest = to_manifest(pod)
    assert manifest["metadata"] == {
        "name": "web",
        "namespace": "default",
        "uid": UID,
        "generation": 1,
        "creationTimestamp": "2023-11-14T22:13:20Z",
    }
    spec = manifest["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["terminationGracePeriodSeconds"] == 30
    assert [(t["key"], t["tolerationSeconds"]) for t in spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    assert manifest["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_kubelets_are_told_whether_to_name_services_in_the_environment() -> None:
    pod, other = new_pod(), new_pod()
    other.spec.enable_service_links = False
    admit(pod)
    admit(other)
    assert pod.spec.enable_service_links
    assert other.spec.HasField("enable_service_links")
    assert not other.spec.enable_service_links


def test_a_grace_period_of_zero_stays_zero() -> None:
    pod = new_pod()
    pod.spec.termination_grace_period_seconds = 0
    admit(pod)
    assert pod.spec.termination_grace_period_seconds == 0


def test_limits_become_requests_where_there_are_none() -> None:
    pod = new_pod()
    pod.spec.containers[0].resources.limits.update({"cpu": "2", "memory": "1Gi"})
    pod.spec.containers[0].resources.requests["cpu"] = "1"
    admit(pod)
    assert dict(pod.spec.containers[0].resources.requests) == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize("given", ["limits", "requests"])
def test_a_pod_with_resources_of_its_own_is_given_the_rest_of_what_its_containers_have(
    given: str,
) -> None:
    pod = new_pod()
    getattr(pod.spec.resources, given)["cpu"] = "2"
    container = pod.spec.containers[0].resources
    container.limits["hugepages-2Mi"] = "4Mi"
    container.requests.update({"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"})
    admit(pod)
    own, pages = pod.spec.resources, {"hugepages-2Mi": "4Mi"}
    cpu = "1" if given == "limits" else "2"
    assert dict(own.requests) == {"cpu": cpu, "memory": "1Gi", **pages}
    assert dict(own.limits) == ({"cpu": "2", **pages} if given == "limits" else pages)


def test_a_pod_with_requests_alone_is_given_nothing_that_its_containers_request() -> None:
    pod = new_pod()
    pod.spec.resources.requests["cpu"] = "2"
    pod.spec.containers[0].resources.requests["memory"] = "1Gi"
    admit(pod)
    assert dict(pod.spec.resources.requests) == {"cpu": "2"}
    assert not pod.spec.resources.limits


def test_a_toleration_of_every_taint_needs_no_other() -> None:
    pod = new_pod()
    pod.spec.tolerations.add(operator="Exists")
    admit(pod)
    assert len(pod.spec.tolerations) == 1


def test_on_the_host_network_every_port_is_a_host_port() -> None:
    pod = new_pod()
    pod.spec.host_network = True
    pod.spec.containers[0].ports.add(container_port=80)
    admit(pod)
    port = pod.spec.containers[0].ports[0]
    assert (port.host_port, port.protocol) == (80, "TCP")


def test_priority_and_policy_come_from_the_class() -> None:
    pod = new_pod()
    pod.spec.priority_class_name = "polite"
    assert admit(pod, priority_class("polite", 9, "Never")) == []
    assert (pod.spec.priority, pod.spec.preemption_policy) == (9, "Never")


def test_without_a_class_the_global_default_is_taken() -> None:
    pod = new_pod()
    admit(pod, priority_class("usual", 5, default=True))
    assert (pod.spec.priority_class_name, pod.spec.priority) == ("usual", 5)


def test_system_classes_exist_everywhere() -> None:
    pod = new_pod()
    pod.spec.priority_class_name = "system-node-critical"
    assert admit(pod) == []
    assert pod.spec.priority == 2_000_001_000


def test_an_unknown_class_is_refused() -> None:
    pod = new_pod()
    pod.spec.priority_class_name = "nonexistent"
    (error,) = admit(pod)
    assert "no PriorityClass with name nonexistent was found" in str(error)


def test_a_priority_that_is_not_the_classs_is_refused() -> None:
    pod = new_pod()
    pod.spec.priority = 7
    (error,) = admit(pod)
    assert str(error).startswith("spec.priority: Forbidden: the integer value of priority (7)")


def test_a_gated_pod_says_so_from_the_beginning() -> None:
    pod = new_pod()
    pod.spec.scheduling_gates.add(name="example.com/hold")
    admit(pod)
    (condition,) = pod.status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


def test_label_keys_of_affinity_become_part_of_the_selector() -> None:
    pod = new_pod()
    pod.metadata.labels["version"] = "7"
    anti_affinity = pod.spec.affinity.pod_anti_affinity
    term = anti_affinity.required_during_scheduling_ignored_during_execution.add(topology_key="z")
    term.label_selector.match_labels["app"] = "web"
    term.match_label_keys.append("version")
    term.mismatch_label_keys.append("absent")
    admit(pod)
    merged = pod.spec.affinity.pod_anti_affinity
    (term,) = merged.required_during_scheduling_ignored_during_execution
    (expression,) = term.label_selector.match_expressions
    assert (expression.key, expression.operator) == ("version", "In")
    assert list(expression.values) == ["7"]


def test_a_label_key_adds_to_other_requirements_of_its_key() -> None:
    pod = new_pod()
    pod.metadata.labels["tenant"] = "a"
    anti_affinity = pod.spec.affinity.pod_anti_affinity
    term = anti_affinity.required_during_scheduling_ignored_during_execution.add(topology_key="z")
    term.label_selector.match_expressions.add(key="tenant", operator="NotIn", values=["shared"])
    term.mismatch_label_keys.append("tenant")
    admit(pod)
    merged = pod.spec.affinity.pod_anti_affinity
    (term,) = merged.required_during_scheduling_ignored_during_execution
    expressions = [(e.operator, *e.values) for e in term.label_selector.match_expressions]
    assert expressions == [("NotIn", "shared"), ("NotIn", "a")]


def test_label_keys_of_spread_constraints_become_part_of_the_selector_once() -> None:
    pod = new_pod()
    pod.metadata.labels["version"] = "7"
    constraint = pod.spec.topology_spread_constraints.add(max_skew=1, topology_key="zone")
    constraint.label_selector.match_labels["app"] = "web"
    constraint.match_label_keys.append("version")
    admit(pod)
    merge_label_keys(pod.spec, pod.metadata.labels)
    (expression,) = pod.spec.topology_spread_constraints[0].label_selector.match_expressions
    assert (expression.key, expression.operator) == ("version", "In")
    assert list(expression.values) == ["7"]


def test_pods_of_one_template_do_not_share_what_they_are_given() -> None:
    one, other = new_pod(), new_pod()
    admit(one)
    one.spec.node_name = "n1"
    one.spec.tolerations[0].toleration_seconds = 1
    admit(other)
    assert other.spec.node_name == ""
    assert other.spec.tolerations[0].toleration_seconds == 300


def test_pods_of_different_gangs_share_the_defaults_of_their_template_and_keep_their_gangs() -> (
    None
):
    pods = [new_pod() for _ in range(3)]
    for number, pod in enumerate(pods):
        pod.spec.containers[0].image = "only-in-this-test:1"
        pod.spec.scheduling_group.pod_group_name = f"gang-{number}"
    admit(pods[0])
    computed = _default_bare_spec.cache_info()
    admit(pods[1])
    admit(pods[2])
    assert _default_bare_spec.cache_info() == computed, "not even asked for"
    names = [pod.spec.scheduling_group.pod_group_name for pod in pods]
    assert names == ["gang-0", "gang-1", "gang-2"]
    assert [pod.spec.restart_policy for pod in pods] == ["Always"] * 3


def test_a_generated_name_follows_from_the_uid() -> None:
    names = set()
    for uid in (UID, UID, "other"):
        pod = new_pod()
        pod.metadata.name, pod.metadata.generate_name = "", "web-"
        default_pod(pod, now=NOW, uid=uid, priority_classes=PriorityClasses())
        names.add(pod.metadata.name)
    assert len(names) == 2
    assert all(name.startswith("web-") and len(name) == 9 for name in names)
