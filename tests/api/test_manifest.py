"""Manifests in and out."""

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Callable
from typing import Any

import pytest

from podsched.api.manifest import (
    ManifestError,
    apply_merge_patch,
    from_manifest,
    load_documents,
    merge_patch,
    to_manifest,
)
from podsched.api.objects import Node, Pod, PodDisruptionBudget

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  creationTimestamp: null
  labels: {app: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: nginx:1.27
    env: [{name: A, value: "1"}, {name: B, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    ports: [{containerPort: 80, hostPort: 8080, hostIP: 10.0.0.1}]
    livenessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 5}
    resources:
      requests: {cpu: 1, memory: 1.5Gi}
      limits: {cpu: 1.5}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: disk, awsElasticBlockStore: {volumeID: vol-1}}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: zone, namespaceSelector: {}, labelSelector: {matchLabels: {app: web}}}
"""


def read(text: str, **options: bool) -> Any:
    (document,) = load_documents(text)
    return from_manifest(document, **options).message


def test_an_ordinary_manifest_reads_without_a_warning() -> None:
    (document,) = load_documents(POD)
    assert from_manifest(document, strict=True).warnings == []


def test_what_is_read_is_printed_back() -> None:
    pod: Pod = read(POD)
    printed = to_manifest(pod)
    assert list(printed)[:2] == ["apiVersion", "kind"]
    container = printed["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1.5Gi"}
    assert container["resources"]["limits"] == {"cpu": "1.5"}
    assert container["ports"] == [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}]
    assert container["livenessProbe"] == {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5}
    assert printed["spec"]["volumes"][0] == {"name": "scratch", "emptyDir": {}}
    assert from_manifest(printed, strict=True).message == pod


def test_absent_empty_and_zero_are_told_apart() -> None:
    pod: Pod = read(POD)
    assert pod.spec.HasField("termination_grace_period_seconds")
    assert not pod.spec.HasField("priority")
    anti_affinity = pod.spec.affinity.pod_anti_affinity
    (term,) = anti_affinity.required_during_scheduling_ignored_during_execution
    assert term.HasField("namespace_selector")


def test_unknown_fields_are_named_with_their_path() -> None:
    text = POD.replace("image: nginx:1.27", "image: nginx:1.27\n    imagee: x")
    (document,) = load_documents(text)
    assert from_manifest(document).warnings == ['unknown field "spec.containers[0].imagee"']
    with pytest.raises(ManifestError, match=r'unknown field "spec.containers\[0\].imagee"'):
        from_manifest(document, strict=True)


def test_all_mistakes_are_reported_at_once_with_their_paths() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": 7, "labels": {"a": True}},
        "spec": {"containers": {"name": "x"}, "priority": "high", "hostNetwork": "yes"},
    }
    with pytest.raises(ManifestError) as caught:
        from_manifest(document)
    assert [problem.path for problem in caught.value.problems] == [
        "metadata.name",
        "metadata.labels[a]",
        "spec.containers",
        "spec.priority",
        "spec.hostNetwork",
    ]
    assert "expected a string, got boolean true" in str(caught.value)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"apiVersion": "v1", "kind": "Bus"}, 'no matches for kind "Bus"'),
        ({"apiVersion": "v2", "kind": "Pod"}, "it is served in v1"),
        ({"metadata": {}}, "kind: must not be empty; apiVersion: must not be empty"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion: expected a string, got number"),
    ],
)
def test_a_kind_that_is_not_served_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        from_manifest(document)


def test_lists_are_opened_and_empty_documents_left_out() -> None:
    text = "---\n---\nkind: List\napiVersion: v1\nitems:\n- {kind: Pod}\n- {kind: Node}\n---\n{}\n"
    assert [d.get("kind") for d in load_documents(text)] == ["Pod", "Node", None]


@pytest.mark.parametrize("text", ["a: [", "- 1", "a: 1\na: 2", "\x00"])
def test_text_that_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(ManifestError):
        load_documents(text)


def test_an_equals_sign_is_text() -> None:
    assert load_documents("command: [test, a, =, b]") == [{"command": ["test", "a", "=", "b"]}]


def test_json_may_have_a_character_as_a_surrogate_pair() -> None:
    """So Python's ``json`` writes it; libyaml refuses it."""
    document = {"a": "\U0001f680\U0001f680", "b": r"\ud83d\ude80 \\\ud83d\ude80"}
    assert load_documents(json.dumps(document)) == [document]
    assert load_documents(r"{a: '\ud83d\ude80'}") == [{"a": r"\ud83d\ude80"}]
    with pytest.raises(ManifestError):
        load_documents(r'{"a": "\ud83d"}')


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_bomb(9), "aliases stand for more than 100,000 nodes"),
        ("a: &a [*a]", r"\*a refers to what it is part of"),
        ("a: &a {b: {c: *a}}", r"\*a refers to what it is part of"),
        ("[" * 200, "nested more than 100 levels deep"),
        ("{a: " * 200_000, "nested more than 100 levels deep"),
        ("- " * 200_000 + "a", "nested more than 100 levels deep"),
        ("? [a]\n: b", "a key must be a string"),
        ("? {a: b}\n: c", "a key must be a string"),
    ],
    ids=["bomb", "cycle", "deep cycle", "lists", "maps", "blocks", "list as key", "map as key"],
)
def test_text_that_costs_more_than_its_size_says_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        load_documents(text)


@pytest.mark.parametrize("encode", [str, str.encode])
def test_a_tab_is_named_with_its_line(encode: Callable[[str], str | bytes]) -> None:
    with pytest.raises(ManifestError) as failed:
        load_documents(encode("metadata:\n  labels:\n  \ta: b\n"))
    assert str(failed.value).endswith("at line 3, column 3: a tab; YAML is indented with spaces")


def test_another_character_that_begins_nothing_is_not_called_a_tab() -> None:
    with pytest.raises(ManifestError) as failed:
        load_documents("a:\n  @b")
    assert str(failed.value).endswith("at line 2, column 3")


def test_lists_deeper_than_the_parser_itself_reads_are_refused() -> None:
    with pytest.raises(ManifestError, match="error parsing YAML: "):
        load_documents("[" * 200_000)


@pytest.mark.parametrize("value", ["!!binary YQ==", "!!timestamp 2026-01-01", "!!timestamp x",
                                   "!!set {a}", "!!omap [a: 1]", "!!pairs [a: 1]"])  # fmt: skip
def test_types_that_json_does_not_have_are_refused(value: str) -> None:
    with pytest.raises(ManifestError, match="are not supported"):
        load_documents(f"a: {value}")


@pytest.mark.parametrize("value", ["1:30", "190:20:30.15", f"{'1:' * 200}1.5", "!!int 1:30"])
def test_a_number_in_base_60_is_text(value: str) -> None:
    assert load_documents(f"value: {value}") == [{"value": value.removeprefix("!!int ")}]


@pytest.mark.parametrize("value", ["!!bool x", "!!int x", "!!int ''", "!!float .", "!!int [1]"])
def test_a_value_that_does_not_fit_its_type_is_refused(value: str) -> None:
    with pytest.raises(ManifestError, match="error parsing YAML"):
        load_documents(f"a: {value}")


def test_aliases_of_ordinary_manifests_are_read() -> None:
    text = "a: &labels {app: web}\nb: [*labels, *labels]\n---\nc: &labels x\nd: *labels"
    assert load_documents(text) == [
        {"a": {"app": "web"}, "b": [{"app": "web"}, {"app": "web"}]},
        {"c": "x", "d": "x"},
    ]


def test_dates_and_clock_times_stay_strings() -> None:
    (document,) = load_documents("when: 2024-01-02T03:04:05Z\nclock: 22:22\nmode: 0644\nn: 0o17")
    assert document["when"] == "2024-01-02T03:04:05Z"
    assert document["clock"] == "22:22"
    assert document["mode"] == 0o644


def test_times_read_and_print_with_their_fraction() -> None:
    text = (
        "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: l}\n"
        "spec: {renewTime: '2024-01-02T05:04:05.123456+02:00', acquireTime: 2024-01-02T03:04:05Z}"
    )
    spec = to_manifest(read(text))["spec"]
    assert spec["renewTime"] == "2024-01-02T03:04:05.123456Z"
    assert spec["acquireTime"] == "2024-01-02T03:04:05Z"


def test_int_or_string_prints_as_it_is_usually_written() -> None:
    budget = PodDisruptionBudget()
    budget.spec.min_available = "2"
    assert to_manifest(budget)["spec"]["minAvailable"] == 2
    budget.spec.min_available = "30%"
    assert to_manifest(budget)["spec"]["minAvailable"] == "30%"


def test_counts_that_kubernetes_prints_at_zero_are_printed_at_zero() -> None:
    budget = PodDisruptionBudget()
    budget.status.SetInParent()
    assert to_manifest(budget)["status"]["disruptionsAllowed"] == 0


def test_a_merge_patch_sets_clears_and_replaces() -> None:
    pod: Pod = read(POD)
    pod.metadata.annotations["old"] = "x"
    patch = {
        "metadata": {"labels": {"tier": "front", "app": None}, "annotations": None},
        "spec": {"schedulingGates": [{"name": "a"}], "terminationGracePeriodSeconds": None},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    patched = apply_merge_patch(pod, patch).message
    assert isinstance(patched, Pod)
    assert dict(patched.metadata.labels) == {"tier": "front"}
    assert not patched.metadata.annotations
    assert [gate.name for gate in patched.spec.scheduling_gates] == ["a"]
    assert not patched.spec.HasField("termination_grace_period_seconds")
    assert patched.status.conditions[0].type == "Ready"
    assert dict(pod.metadata.labels) == {"app": "web"}


def test_a_merge_patch_replaces_a_list_as_a_whole() -> None:
    node = Node()
    node.spec.taints.add(key="a", effect="NoSchedule")
    node.spec.taints.add(key="b", effect="NoSchedule")
    patched = apply_merge_patch(node, {"spec": {"taints": [{"key": "c", "effect": "NoExecute"}]}})
    assert isinstance(patched.message, Node)
    assert [taint.key for taint in patched.message.spec.taints] == ["c"]


def test_the_merge_patch_between_two_contents_has_only_what_differs() -> None:
    old = {"same": [{"a": 1}], "part": {"same": "x", "new": 1}, "equal": {"a": 1}, "gone": 1}
    new = {"same": [{"a": 1}], "part": {"same": "x", "new": 2}, "equal": {"a": 1}, "empty": None}
    expected = {"gone": None, "part": {"new": 2}, "empty": None}
    assert merge_patch(old, copy.deepcopy(new)) == expected


def test_a_merge_patch_replaces_a_number_by_an_equal_boolean() -> None:
    assert merge_patch({"a": 1, "b": [1]}, {"a": True, "b": [True]}) == {"a": True, "b": [True]}


def test_of_many_mistakes_only_the_first_are_told() -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [1] * 5_000}}
    with pytest.raises(ManifestError) as raised:
        from_manifest(manifest)
    assert len(raised.value.problems) == 101
    assert "spec.containers[0]" in str(raised.value)
    assert str(raised.value).endswith("and 4,900 more")


def test_large_text_is_loaded_without_looking_for_cycles_in_it() -> None:
    """That took half of the time, and more the larger the text."""
    seen: list[str] = []

    def collected(phase: str, _: dict[str, int]) -> None:
        seen.append(phase)

    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(100, 10, 10)
    try:
        assert len(load_documents("---\n" + "a: [{}, {}]\n---\n" * 3_000)) == 3_000
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)
    assert gc.isenabled()
    assert len(seen) < 10
