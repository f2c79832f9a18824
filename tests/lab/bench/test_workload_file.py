"""Workloads from YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.config.errors import ConfigError
from podsched.lab.bench import ops
from podsched.lab.bench.workload_file import load_workloads, parse_workloads

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "bench" / "rollout.yaml"

TWO_SIZES = """
name: Mine
workloadTemplate:
- {opcode: createNodes, countParam: $initNodes}
- {opcode: createNodes, count: 3}
- opcode: createPods
  countParam: $measurePods
  collectMetrics: true
  podTemplates:
  - {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: "a"}]}}
  - {metadata: {labels: {app: b}}, spec: {containers: [{name: c, image: "b"}]}}
workloads:
- {name: Small, params: {initNodes: 5, measurePods: 4}, kubeScheduler: 10}
- {name: Large, params: {initNodes: 50, measurePods: 40}}
"""


def errors_of(text: str, directory: Path | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_workloads(text, directory)
    return [str(error) for error in caught.value.errors]


def test_the_example_can_be_loaded() -> None:
    [workload] = load_workloads(EXAMPLE)
    assert {type(op) for op in workload.ops} == {
        ops.CreateAny, ops.CreateNodes, ops.CreatePods, ops.DeletePods, ops.Churn, ops.Barrier,
    }  # fmt: skip


def test_each_entry_of_workloads_is_one_with_its_numbers() -> None:
    small, large = parse_workloads(TWO_SIZES)
    assert (small.name, small.nodes, small.pods, small.kube_scheduler) == ("Mine/Small", 8, 4, 10)
    assert (large.name, large.nodes, large.pods) == ("Mine/Large", 53, 40)


def test_parameters_from_outside_replace_those_of_the_same_name() -> None:
    small, _ = parse_workloads(TWO_SIZES, params={"initNodes": 7, "others": 1})
    assert (small.nodes, small.pods, small.kube_scheduler) == (10, 4, 0)
    assert small.params == {"initNodes": 7, "measurePods": 4}


def test_nodes_of_several_operations_get_names_of_their_own() -> None:
    small, _ = parse_workloads(TWO_SIZES)
    created = [op for op in small.ops if isinstance(op, ops.CreateNodes)]
    names = [node.metadata.name for op in created for node in op.nodes(0, 10)]
    assert names == [f"node-{n:05d}" for n in range(8)]


def test_templates_of_pods_take_turns() -> None:
    small, _ = parse_workloads(TWO_SIZES)
    pods = small.ops[-1]
    assert isinstance(pods, ops.CreatePods)
    assert [pod.metadata.labels["app"] for pod in pods.pods(0, 9)] == ["a", "b", "a", "b"]


def test_a_template_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {generateName: web-}, spec: {containers: []}}"
    )
    text = (
        "{name: A, workloadTemplate: [{opcode: createPods, count: 1, podTemplatePath: pod.yaml}]}"
    )
    [workload] = parse_workloads(text, tmp_path)
    [op] = workload.ops
    assert isinstance(op, ops.CreatePods)
    assert [pod.metadata.name for pod in op.pods(0, 1)] == ["web-pod-0-0"]
    assert errors_of(text.replace("pod.yaml", "gone.yaml"), tmp_path) == [
        'workloadTemplate[0].podTemplatePath: Invalid value: "gone.yaml": No such file or directory'
    ]


def test_a_template_file_that_is_too_large_is_refused_and_not_cut_off(tmp_path: Path) -> None:
    pod = b"{apiVersion: v1, kind: Pod, spec: {containers: []}}\n"
    (tmp_path / "pod.yaml").write_bytes(pod + b"#" * (4 << 20))
    text = (
        "{name: A, workloadTemplate: [{opcode: createPods, count: 1, podTemplatePath: pod.yaml}]}"
    )
    assert errors_of(text, tmp_path) == [
        'workloadTemplate[0].podTemplatePath: Invalid value: "pod.yaml": more than 4 MiB'
    ]


@pytest.mark.parametrize(
    ("op", "error"),
    [
        ("{opcode: fly}",
         'opcode: Unsupported value: "fly": supported values: "barrier", "churn", "createAny", '
         '"createNodes", "createPods", "createResourceDriver", "deletePods", "sleep"'),
        ("{count: 3}", "opcode: Required value"),
        ("{opcode: createNodes}", "count: Required value: or countParam"),
        ("{opcode: createNodes, count: -1}", "count: Invalid value: -1: is out of range"),
        ("{opcode: createNodes, count: many}", 'count: Invalid value: "many": must be an integer'),
        ("{opcode: createNodes, countParam: 2000 * 2000}",
         'countParam: Invalid value: "2000 * 2000": must be at most 2,000,000'),
        ("{opcode: createNodes, countParam: $n}",
         'countParam: Invalid value: "$n": no workload has a parameter of this name'),
        ("{opcode: createNodes, countParam: 4 // 0}",
         'countParam: Invalid value: "4 // 0": the divisor must be a positive integer'),
        ("{opcode: createResourceDriver, driverName: gpu.example.com}",
         "maxClaimsPerNode: Required value: or maxClaimsPerNodeParam"),
        ("{opcode: createResourceDriver, maxClaimsPerNode: 1}", "driverName: Required value"),
        ("{opcode: createNodes, count: 1, colour: red}", "colour: Unknown field"),
        ("{opcode: createPods, count: 1, podTemplate: {spec: {nodename: a}}}",
         'podTemplate: Invalid value: null: unknown field "spec.nodename"'),
        ("{opcode: createPods, count: 1, podTemplate: {spec: {priority: high}}}",
         'podTemplate.spec.priority: Invalid value: "high": expected an integer, got string high'),
        ("{opcode: createPods, count: 1, podTemplate: {kind: Node}}",
         'podTemplate.kind: Invalid value: "Node": must be Pod'),
        ('{opcode: createPods, count: 1, podTemplate: {spec: {nodeName: "{{x}}"}}}',
         'podTemplate.spec.nodeName: Invalid value: "{{x}}": only "index", parameters, integers, '
         "+ - * // % and parentheses are allowed"),
        ("{opcode: createAny, count: 1}", "template: Required value"),
        ("{opcode: churn, mode: wild, template: {apiVersion: v1, kind: Pod}}",
         'mode: Unsupported value: "wild": supported values: "create", "recreate"'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_path(op: str, error: str) -> None:
    text = f"{{name: A, workloadTemplate: [{{opcode: barrier}}, {op}]}}"
    assert errors_of(text) == [f"workloadTemplate[1].{error}"]


def test_all_mistakes_are_told_at_once() -> None:
    assert errors_of("workloadTemplate: [{opcode: fly}, {opcode: createNodes}]\n---\nname: B") == [
        "[0].name: Required value",
        '[0].workloadTemplate[0].opcode: Unsupported value: "fly": supported values: "barrier", '
        '"churn", "createAny", "createNodes", "createPods", "createResourceDriver", '
        '"deletePods", "sleep"',
        "[0].workloadTemplate[1].count: Required value: or countParam",
        "[1].workloadTemplate: Required value: at least one operation",
    ]


@pytest.mark.parametrize("text", ["", "- a", "{", "name: [", "a\0b"])
def test_what_is_no_workload_is_one_error(text: str) -> None:
    assert len(errors_of(text)) == 1


def test_templates_and_counts_are_computed_from_parameters() -> None:
    text = """
    name: A
    workloadTemplate:
    - opcode: createPods
      countParam: $pods // $size
      podTemplate: {metadata: {name: "p-{{index * size}}"}, spec: {priority: "{{int(pods)}}"}}
    workloads: [{params: {pods: 7, size: 2}}]
    """
    [workload] = parse_workloads(text)
    [op] = workload.ops
    assert isinstance(op, ops.CreatePods)
    made = op.pods(0, 10)
    assert [pod.metadata.name for pod in made] == ["p-0", "p-2", "p-4"]
    assert {pod.spec.priority for pod in made} == {7}


def test_a_resource_driver_covers_the_nodes_before_it() -> None:
    (workload,) = parse_workloads("""
name: Devices
workloadTemplate:
- {opcode: createNodes, count: 3}
- {opcode: createResourceDriver, driverName: gpu.example.com, maxClaimsPerNodeParam: $devices}
workloads:
- {params: {devices: 8}}
""")
    assert workload.ops[1] == ops.CreateResourceDriver("gpu.example.com", nodes=3, devices=8)
