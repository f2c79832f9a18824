"""What is refused, and in which words."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from podsched.api.defaulting import default_object
from podsched.api.kinds import kind_of
from podsched.api.objects import (
    AnyObject,
    Lease,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    Service,
    StorageClass,
    copy_of,
)
from podsched.api.priorities import PriorityClasses
from podsched.api.validation import validate, validate_status


def prepared(message: AnyObject) -> AnyObject:
    if not message.metadata.name:
        message.metadata.name = "web"
    default_object(message, now=0, uid="u", priority_classes=PriorityClasses())
    return message


def complaints(message: AnyObject, old: AnyObject | None = None) -> list[str]:
    return [str(error) for error in validate(kind_of(message), message, old)]


def new_pod(change: Callable[[Pod], object] = lambda pod: None) -> Pod:
    pod = Pod()
    pod.spec.containers.add(name="main", image="nginx:1.27")
    change(pod)
    prepared(pod)
    return pod


def test_an_ordinary_pod_is_accepted() -> None:
    assert complaints(new_pod()) == []


def test_a_scheduler_may_have_any_name() -> None:
    assert complaints(new_pod(lambda pod: setattr(pod.spec, "scheduler_name", "My_own"))) == []


def _requests_above_limits(pod: Pod) -> None:
    pod.spec.containers[0].resources.requests["cpu"] = "2"
    pod.spec.containers[0].resources.limits["cpu"] = "1"


def _device(pod: Pod) -> None:
    pod.spec.containers[0].resources.requests["example.com/gpu"] = "1"


def _two_ports(pod: Pod) -> None:
    for _ in range(2):
        pod.spec.containers[0].ports.add(container_port=80, host_port=80)


def _spread(pod: Pod) -> None:
    pod.spec.topology_spread_constraints.add(
        topology_key="zone", when_unsatisfiable="ScheduleAnyway", min_domains=2
    )


def _bad_affinity(pod: Pod) -> None:
    node_affinity = pod.spec.affinity.node_affinity
    node_affinity.required_during_scheduling_ignored_during_execution.SetInParent()


def _no_topology_key(pod: Pod) -> None:
    affinity = pod.spec.affinity.pod_affinity
    affinity.required_during_scheduling_ignored_during_execution.add()


def _gate_and_node(pod: Pod) -> None:
    pod.spec.scheduling_gates.add(name="hold")
    pod.spec.node_name = "n1"


def _pod_level(pod: Pod) -> None:
    pod.spec.containers[0].resources.requests["cpu"] = "2"
    pod.spec.resources.requests["cpu"] = "1"


def _above_the_pod(pod: Pod) -> None:
    pod.spec.containers[0].resources.limits["cpu"] = "2"
    pod.spec.containers[0].resources.requests["cpu"] = "1"
    pod.spec.resources.limits["cpu"] = "1"


def _label(pod: Pod) -> None:
    pod.metadata.labels["a/b/c"] = "x"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            _requests_above_limits,
            'spec.containers[0].resources.requests: Invalid value: "2": '
            "must be less than or equal to cpu limit of 1",
        ),
        (
            _device,
            "spec.containers[0].resources.limits: Required value: "
            "Limit must be set for non overcommitable resources",
        ),
        (
            lambda pod: pod.spec.containers[0].resources.requests.update({"cpu": "-1"}),
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": '
            "must be greater than or equal to 0",
        ),
        (
            lambda pod: pod.spec.containers[0].resources.requests.update({"cpu": "one"}),
            'spec.containers[0].resources.requests[cpu]: Invalid value: "one": quantities must',
        ),
        (
            lambda pod: pod.spec.containers[0].resources.requests.update({"disk": "1"}),
            'Invalid value: "disk": must be a standard resource for containers',
        ),
        (
            lambda pod: pod.spec.containers[0].ports.add(container_port=70000),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: "
            "must be between 1 and 65535, inclusive",
        ),
        (
            lambda pod: pod.spec.containers[0].ports.add(
                name="-HTTP--a-long-one", container_port=1
            ),
            'spec.containers[0].ports[0].name: Invalid value: "-HTTP--a-long-one": '
            "must be no more than 15 characters",
        ),
        (
            lambda pod: pod.spec.containers[0].ports.add(name="80", container_port=1),
            "must contain at least one letter (a-z)",
        ),
        (
            lambda pod: pod.spec.containers[0].ports.add(name="a--b-", container_port=1),
            "must not contain consecutive hyphens",
        ),
        (
            lambda pod: pod.spec.containers[0].ports.add(name="a--b-", container_port=1),
            "must not begin or end with a hyphen",
        ),
        (_two_ports, 'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"'),
        (
            lambda pod: pod.spec.containers.add(name="main", image="x"),
            'spec.containers[1].name: Duplicate value: "main"',
        ),
        (
            lambda pod: pod.spec.ClearField("containers"),
            "spec.containers: Required value",
        ),
        (
            lambda pod: pod.spec.tolerations.add(key="a", operator="Gt", value="1"),
            'spec.tolerations[0].operator: Unsupported value: "Gt": '
            'supported values: "Equal", "Exists"',
        ),
        (
            lambda pod: pod.spec.tolerations.add(key="a", operator="Exists", toleration_seconds=1),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            _spread,
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: "
            "must be greater than zero",
        ),
        (_spread, "can only use minDomains if whenUnsatisfiable=DoNotSchedule"),
        (_bad_affinity, "Required value: must have at least one node selector term"),
        (
            _no_topology_key,
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
            ".topologyKey: Required value: can not be empty",
        ),
        (
            _gate_and_node,
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
        (
            _pod_level,
            "must be greater than or equal to aggregate container requests of 2",
        ),
        (
            _above_the_pod,
            'spec.resources.containers[0][cpu].limits: Invalid value: "2": '
            "must be less than or equal to pod limits of 1",
        ),
        (_label, 'metadata.labels: Invalid value: "a/b/c": a valid label key must consist of'),
        (
            lambda pod: pod.metadata.annotations.update({"a": "x" * 300_000}),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            lambda pod: pod.spec.containers[0].volume_mounts.add(name="v", mount_path="/v"),
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
    ],
)
def test_a_mistaken_pod_is_refused_in_kubernetes_words(
    change: Callable[[Pod], object], complaint: str
) -> None:
    assert any(complaint in line for line in complaints(new_pod(change)))


def test_all_mistakes_are_reported_at_once() -> None:
    pod = new_pod(_requests_above_limits)
    pod.metadata.name = "Web_1"
    pod.spec.containers.add(name="UPPER")
    pod.spec.restart_policy = "Sometimes"
    paths = {error.path for error in validate("Pod", pod)}
    assert paths >= {
        "metadata.name",
        "spec.containers[0].resources.requests",
        "spec.containers[1].name",
        "spec.containers[1].image",
        "spec.restartPolicy",
    }


@pytest.mark.parametrize("policy", ["", "Always"])
def test_an_init_container_may_use_the_host_port_of_a_container(policy: str) -> None:
    pod = new_pod()
    pod.spec.init_containers.add(name="init", image="x", restart_policy=policy)
    for containers in (pod.spec.containers, pod.spec.init_containers):
        containers[0].ports.add(container_port=80, host_port=80, protocol="TCP")
    assert complaints(pod) == []


def test_on_the_network_of_the_host_an_init_container_may_name_another_port() -> None:
    pod = new_pod(lambda pod: setattr(pod.spec, "host_network", True))
    init = pod.spec.init_containers.add(name="init", image="x")
    init.ports.add(container_port=80, host_port=8080, protocol="TCP")
    assert complaints(pod) == []


def test_only_what_a_node_must_have_is_a_value_of_a_label() -> None:
    """A preference for what no node can have is accepted, as in Kubernetes."""
    pod = new_pod()
    affinity = pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution.add(weight=1)
    preferred.preference.match_expressions.add(key="zone", operator="In", values=["a/b"])
    assert complaints(pod) == []
    required = affinity.required_during_scheduling_ignored_during_execution
    required.node_selector_terms.add().CopyFrom(preferred.preference)
    [refused] = complaints(pod)
    assert "nodeSelectorTerms[0].matchExpressions[0].values[0]" in refused


def test_the_values_of_a_preference_are_bounded() -> None:
    pod = new_pod()
    affinity = pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution.add(weight=1)
    many = ["a"] * 10_001
    preferred.preference.match_expressions.add(key="zone", operator="In", values=many)
    [refused] = complaints(pod)
    assert "must have at most 10000 items" in refused


def updated(change: Callable[[Pod], object], start: Callable[[Pod], object]) -> list[str]:
    old = new_pod(start)
    new = Pod()
    new.CopyFrom(old)
    change(new)
    return complaints(new, old)


def nothing(pod: Pod) -> None:
    """The pod stays as it is."""


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod.metadata.labels.update({"a": "b"}),
        lambda pod: setattr(pod.spec.containers[0], "image", "nginx:1.28"),
        lambda pod: pod.spec.tolerations.add(key="k", operator="Exists"),
        lambda pod: setattr(pod.spec, "active_deadline_seconds", 5),
    ],
)
def test_what_may_change_of_a_pod_may_change(change: Callable[[Pod], object]) -> None:
    assert updated(change, nothing) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda pod: setattr(pod.metadata, "name", "other"), "metadata.name: Invalid value"),
        (lambda pod: setattr(pod.spec, "priority", 9), "spec: Forbidden: pod updates may not"),
        (lambda pod: setattr(pod.spec, "node_name", "n1"), "spec: Forbidden: pod updates may not"),
        (
            lambda pod: pod.spec.scheduling_gates.add(name="late"),
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, "
            "but found new scheduling gate 'late'",
        ),
        (
            lambda pod: pod.spec.tolerations.pop(),
            "spec.tolerations: Forbidden: existing toleration can not be modified",
        ),
        (lambda pod: pod.spec.node_selector.update({"a": "b"}), "changed: nodeSelector"),
        (
            lambda pod: setattr(pod.spec.containers[0], "image_pull_policy", "Never"),
            "changed: containers",
        ),
        (
            lambda pod: pod.spec.containers.add(name="more", image="x"),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            lambda pod: setattr(pod.spec, "termination_grace_period_seconds", 1),
            "changed: terminationGracePeriodSeconds",
        ),
    ],
)
def test_what_may_not_change_of_a_pod_is_refused(
    change: Callable[[Pod], object], complaint: str
) -> None:
    assert any(complaint in line for line in updated(change, nothing))


def test_a_negative_grace_period_may_become_the_second_that_it_means() -> None:
    name = "termination_grace_period_seconds"
    assert updated(lambda p: setattr(p.spec, name, 1), lambda p: setattr(p.spec, name, -5)) == []


def _mirror(pod: Pod) -> None:
    pod.metadata.annotations["kubernetes.io/config.mirror"] = "hash"
    pod.spec.node_name = "n1"


def test_a_mirror_pod_has_a_node_and_stays_one() -> None:
    """Nodes have no rights by what their mirror pods refer to."""
    at = "metadata.annotations[kubernetes.io/config.mirror]"
    assert complaints(new_pod(_mirror)) == []
    lost = new_pod(lambda pod: (_mirror(pod), pod.spec.ClearField("node_name")))
    (complaint,) = complaints(lost)
    why = "must set spec.nodeName if mirror pod annotation is set"
    assert complaint == f'{at}: Invalid value: "hash": {why}'
    assert updated(lambda pod: pod.metadata.annotations.clear(), _mirror) == [
        f"{at}: Forbidden: may not remove or update mirror pod annotation"
    ]
    bound = [f"{at}: Forbidden: may not add mirror pod annotation"]
    assert updated(_mirror, lambda pod: setattr(pod.spec, "node_name", "n1")) == bound


def _gated(pod: Pod) -> None:
    pod.spec.scheduling_gates.add(name="hold")
    pod.spec.node_selector["zone"] = "a"


def test_gates_can_be_removed() -> None:
    assert updated(lambda pod: pod.spec.ClearField("scheduling_gates"), _gated) == []


def test_a_gated_pod_can_be_tightened_but_not_loosened() -> None:
    def add(pod: Pod) -> None:
        pod.spec.node_selector["disk"] = "ssd"
        node_affinity = pod.spec.affinity.node_affinity
        terms = node_affinity.required_during_scheduling_ignored_during_execution
        expressions = terms.node_selector_terms.add().match_expressions
        expressions.add(key="zone", operator="In", values=["a"])

    assert updated(add, _gated) == []
    (complaint,) = updated(lambda pod: pod.spec.node_selector.clear(), _gated)
    assert "only additions to spec.nodeSelector are allowed" in complaint


def test_user_priority_classes_stay_below_the_systems() -> None:
    item = PriorityClass(value=1_000_000_001)
    assert "maximum allowed value of a user defined priority" in complaints(prepared(item))[0]
    item = PriorityClass(value=5)
    item.metadata.name = "system-mine"
    assert "system-" in complaints(prepared(item))[0]


def test_the_value_of_a_priority_class_stays() -> None:
    old = PriorityClass(value=1)
    prepared(old)
    new = PriorityClass()
    new.CopyFrom(old)
    new.value = 2
    assert complaints(new, old) == ["value: Forbidden: may not be changed in an update."]


def test_a_budget_has_one_bound_that_makes_sense() -> None:
    budget = PodDisruptionBudget()
    budget.spec.min_available, budget.spec.max_unavailable = "-1", "130%"
    lines = " ".join(complaints(prepared(budget)))
    assert "minAvailable and maxUnavailable cannot be both set" in lines
    assert "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0" in lines
    assert "must not be greater than 100%" in lines


def test_a_node_carries_each_taint_once() -> None:
    node = Node()
    for _ in range(2):
        node.spec.taints.add(key="k", effect="NoSchedule")
    node.spec.taints.add(key="k", effect="Sometimes")
    node.status.capacity["cpu"] = "many"
    paths = [error.path for error in validate("Node", prepared(node))]
    assert paths == [
        "metadata.taints[1]",
        "metadata.taints[2].effect",
        "status.capacity.cpu",
        "status.allocatable.cpu",
    ]


def test_a_claim_asks_for_storage() -> None:
    lines = complaints(prepared(PersistentVolumeClaim()))
    assert lines == [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value",
    ]


def test_a_replica_set_selects_its_own_pods() -> None:
    item = ReplicaSet()
    item.spec.selector.match_labels["app"] = "web"
    assert "`selector` does not match template `labels`" in complaints(prepared(item))[0]
    item.spec.template.metadata.labels["app"] = "web"
    assert complaints(item) == ["spec.template.spec.containers: Required value"]
    item.spec.template.spec.containers.add(name="main", image="app:1")
    assert complaints(prepared(item)) == []


def test_a_storage_class_keeps_its_provisioner() -> None:
    old = StorageClass(provisioner="a")
    prepared(old)
    new = StorageClass()
    new.CopyFrom(old)
    new.provisioner = "b"
    assert complaints(new, old) == ['provisioner: Invalid value: "b": field is immutable']


def test_a_bound_pod_gets_no_nomination_but_may_keep_one() -> None:
    old = new_pod(lambda pod: setattr(pod.spec, "node_name", "n1"))
    old.status.nominated_node_name = "n1"
    new = copy_of(old)
    assert validate_status("Pod", new, old) == []
    new.status.nominated_node_name = "n2"
    assert [str(error) for error in validate_status("Pod", new, old)] == [
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a "
        "node"
    ]


def test_names_follow_the_rule_of_their_kind() -> None:
    item = Namespace()
    item.metadata.name = "a_b"
    assert "RFC 1123 label" in complaints(prepared(item))[0]
    item.metadata.name = "a.b"
    assert complaints(item) == ['metadata.name: Invalid value: "a.b": must not contain dots']
    lease = Lease()
    lease.metadata.name = "a.b"
    assert complaints(prepared(lease)) == []
    service = Service(spec={"ports": [{"port": 80}]})
    service.metadata.name = "1a"
    assert complaints(prepared(service)) == []


def test_a_name_of_any_length_is_judged_quickly() -> None:
    pod = new_pod()
    pod.metadata.name = "a-" * 200_000
    (complaint,) = complaints(pod)
    assert complaint.endswith('a-a-...": must be no more than 253 characters')
    assert len(complaint) < 500


@pytest.mark.parametrize("levels", [30, 60])
def test_a_spec_that_protobuf_cannot_read_again_is_refused(levels: int) -> None:
    """The outcome for a spec is remembered by its bytes, which do not decode here."""
    old = new_pod()
    pod = new_pod()
    value = pod.spec.containers[0].env.add(name="A").value_from
    for _ in range(levels):
        value = value.fields["a"].struct_value
    value.fields["a"].bool_value = True
    assert "must not be nested more than 24 levels deep" in complaints(pod, old)[0]


def test_long_labels_are_not_remembered() -> None:
    """A cache counts entries: 16,384 labels of 1 MB would stay in memory."""
    tracemalloc.start()
    try:
        for number in range(20):
            pod = new_pod()
            pod.metadata.labels[f"{'k' * 100_000}{number}"] = f"{'v' * 100_000}{number}"
            assert complaints(pod)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 20


def test_large_specs_are_not_remembered() -> None:
    """A cache counts entries: thousands of specs of 1 MiB would stay in memory."""
    tracemalloc.start()
    try:
        for number in range(10):
            pod = Pod()
            for at in range(500):
                pod.spec.containers.add(name=f"c{at}", image=f"{number}-{'x' * 100}")
            assert complaints(prepared(pod)) == []
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 19


def test_an_object_that_breaks_a_newer_rule_can_lose_a_finalizer_and_nothing_else() -> None:
    stored = new_pod()
    stored.spec.containers[0].image = ""
    stored.metadata.finalizers.append("example.com/hold")
    assert complaints(stored)
    freed = copy_of(stored)
    del freed.metadata.finalizers[:]
    assert complaints(freed, stored) == []
    freed.metadata.labels["app"] = "web"
    assert complaints(freed, stored)
    freed.metadata.labels.clear()
    freed.metadata.finalizers.append("No finalizer")
    assert "metadata.finalizers[0]" in complaints(freed, stored)[0]
