"""RuntimeClass admission: overhead, node selector and tolerations become part of the pod."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import PodSpec, RuntimeClass, Toleration
from podsched.api.pod_admission import apply_runtime_class, merged_tolerations

KATA: dict[str, Any] = {
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    "scheduling": {
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
    },
}


def runtime_class(**fields: Any) -> RuntimeClass:
    manifest = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **fields}
    message = from_manifest({"metadata": {"name": "kata"}, **manifest}).message
    assert isinstance(message, RuntimeClass)
    return message


def test_a_pod_takes_over_what_its_class_says() -> None:
    spec = PodSpec(runtime_class_name="kata", node_selector={"disk": "ssd"})
    assert apply_runtime_class(spec, runtime_class(**KATA)) == ""
    assert spec.overhead == {"cpu": "250m", "memory": "120Mi"}
    assert spec.node_selector == {"disk": "ssd", "runtime": "kata"}
    assert [t.key for t in spec.tolerations] == ["kata"]


def test_a_class_that_does_not_exist_is_named() -> None:
    refusal = apply_runtime_class(PodSpec(runtime_class_name="gvisor"), None)
    assert refusal == 'pod rejected: RuntimeClass "gvisor" not found'


def test_a_selector_that_contradicts_the_class_is_refused() -> None:
    spec = PodSpec(runtime_class_name="kata", node_selector={"runtime": "runc"})
    assert apply_runtime_class(spec, runtime_class(**KATA)) == (
        "conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; "
        "pod.spec.nodeSelector[runtime] = runc"
    )


@pytest.mark.parametrize("same", ["250m", "0.25"])
def test_an_overhead_of_the_same_amounts_is_accepted(same: str) -> None:
    spec = PodSpec(runtime_class_name="kata", overhead={"cpu": same, "memory": "120Mi"})
    assert apply_runtime_class(spec, runtime_class(**KATA)) == ""
    assert spec.overhead["cpu"] == "250m"


def test_another_overhead_than_that_of_the_class_is_refused() -> None:
    spec = PodSpec(runtime_class_name="kata", overhead={"cpu": "1"})
    refusal = apply_runtime_class(spec, runtime_class(**KATA))
    assert refusal == "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


@pytest.mark.parametrize("name", ["", "kata"])
def test_an_overhead_without_a_class_that_defines_one_is_refused(name: str) -> None:
    spec = PodSpec(runtime_class_name=name, overhead={"cpu": "1"})
    refusal = apply_runtime_class(spec, runtime_class(handler="kata") if name else None)
    assert refusal == (
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    )


def tolerations(*texts: str) -> list[Toleration]:
    """key:operator:value:effect:seconds, the last ones optional."""
    found = []
    for text in texts:
        key, operator, value, effect, seconds, *_ = [*text.split(":"), "", "", "", ""]
        item = Toleration(key=key, operator=operator, value=value, effect=effect)
        if seconds:
            item.toleration_seconds = int(seconds)
        found.append(item)
    return found


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["a:Exists", "a:Equal:1:NoSchedule"], ["a:Exists"]),
        (["a:Equal:1:NoSchedule", "a:Exists"], ["a:Exists"]),
        (["a:Exists", "a:Exists"], ["a:Exists"]),
        (["a:Equal:1", "a:Equal:2"], ["a:Equal:1", "a:Equal:2"]),
        ([":Exists", "a:Equal:1", "b:Exists::NoExecute:5"], [":Exists"]),
        (["a:Exists::NoExecute:5", "a:Exists::NoExecute:9"], ["a:Exists::NoExecute:9"]),
        (["a:Exists::NoExecute:5", "a:Exists::NoExecute"], ["a:Exists::NoExecute"]),
        (["a:Exists::NoSchedule", "a:Exists::NoExecute"],) * 2,
    ],
)
def test_of_tolerations_those_stay_that_no_other_includes(
    given: list[str], kept: list[str]
) -> None:
    assert merged_tolerations(tolerations(*given)) == tolerations(*kept)
