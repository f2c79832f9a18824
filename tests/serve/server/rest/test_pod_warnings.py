"""What is doubtful in a new pod."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.serve.server.rest.pod_warnings import pod_warnings

ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD = f'{ZONE} is deprecated since v1.17; use "topology.kubernetes.io/zone" instead'


def warnings(spec: dict[str, Any]) -> list[str]:
    whole = {"containers": [{"name": "c"}], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": whole}
    return list(pod_warnings(from_manifest(pod).message))


def test_an_ordinary_pod_has_none() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A),2"}]
    requests = {"memory": "1Gi", "cpu": "1500m"}
    assert warnings({"containers": [{"env": env, "resources": {"requests": requests}}]}) == []


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("topologySpreadConstraints[0].topologyKey", None),
        ("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
         ".matchExpressions[0].key",
         {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
             {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}]}}),
        ("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
         ".matchExpressions[0].key",
         {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference":
             {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}}]}),
    ],
)  # fmt: skip
def test_labels_that_have_new_names_are_told_with_them(
    path: str, spec: dict[str, Any] | None
) -> None:
    spread = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {}}
    found = (
        {"affinity": {"nodeAffinity": spec}} if spec else {"topologySpreadConstraints": [spread]}
    )
    assert warnings(found) == [f"spec.{path}: {OLD}"]


def test_spreading_by_no_selector_counts_no_pod() -> None:
    constraint = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1}
    assert warnings({"topologySpreadConstraints": [constraint]}) == [
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching "
        "no pod"
    ]


@pytest.mark.parametrize("affinity", ["podAffinity", "podAntiAffinity"])
def test_a_term_with_no_selector_matches_no_pod(affinity: str) -> None:
    term = {"topologyKey": "kubernetes.io/hostname"}
    terms = {
        "requiredDuringSchedulingIgnoredDuringExecution": [{**term, "labelSelector": {}}, term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
    }
    none = "a null labelSelector results in matching no pod"
    assert warnings({"affinity": {affinity: terms}}) == [
        f"spec.affinity.{affinity}.{path}.labelSelector: {none}"
        for path in (
            "requiredDuringSchedulingIgnoredDuringExecution[1]",
            "preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm",
        )
    ]


def test_a_negative_grace_period_is_told_how_it_is_treated() -> None:
    [found] = warnings({"terminationGracePeriodSeconds": -1})
    assert found.startswith("spec.terminationGracePeriodSeconds: must be >= 0")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("apps/v1 Deployment", "spec.template"),
        ("batch/v1 CronJob", "spec.jobTemplate.spec.template"),
        ("v1 PodTemplate", "template"),
    ],
)
def test_templates_are_warned_of_like_pods(kind: str, path: str) -> None:
    version, _, name = kind.partition(" ")
    content: dict[str, Any] = {"spec": {"nodeSelector": {ZONE: "a"}}}
    for member in reversed(path.split(".")):
        content = {member: content}
    manifest = {"apiVersion": version, "kind": name, "metadata": {"name": "x"}, **content}
    [found] = pod_warnings(from_manifest(manifest).message)
    assert found.startswith(f"{path}.spec.nodeSelector[{ZONE}]: deprecated since v1.17")


def test_parts_of_a_byte_and_variables_that_hide_others_are_told_of_every_container() -> None:
    init = {"resources": {"limits": {"ephemeral-storage": "100m"}}}
    main = {"env": [{"name": "A", "value": "1"}, {"name": "A", "valueFrom": {"fieldRef": {}}}]}
    fraction = 'fractional byte value "100m" is invalid, must be an integer'
    found = warnings(
        {"overhead": {"memory": "100m"}, "initContainers": [init], "containers": [main]}
    )
    assert found == [
        f"spec.overhead[memory]: {fraction}",
        f"spec.initContainers[0].resources.limits[ephemeral-storage]: {fraction}",
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when '
        "using apply",
    ]
