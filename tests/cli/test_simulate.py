"""``sched simulate`` on files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import to_manifest
from podsched.decide.runtime import plugin_calls
from podsched.telemetry.logs import get_logger
from support.commands import Commands
from support.device_objects import device_class, devices, resource_claim, template, user
from support.volume_world import storage_class

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: large}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: low}
spec:
  nodeName: large
  containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: pending}
spec:
  priorityClassName: high
  containers: [{name: c, image: i, resources: {requests: {cpu: CPU}}}]
"""


@pytest.fixture
def cluster_file(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)


def pod_of(cpu: str) -> str:
    return POD.replace("CPU", cpu)


def test_the_table_shows_verdicts_reasons_and_scores(sched: Commands, cluster_file: str) -> None:
    said = sched.ok("simulate", "-f", cluster_file, "--pod", "-", stdin=pod_of("100m"))
    lines = said.splitlines()
    assert lines[:2] == ["Pod default/pending: Schedulable", "  Best node: small"]
    assert lines[3].split()[:3] == ["NODE", "FILTER", "TOTAL"]
    assert lines[4].split()[:2] == ["small", "Success"]
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_wrong_amount_of_the_cluster_is_shown_with_its_object(
    sched: Commands, tmp_path: Path
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER.replace('cpu: "4"', 'cpu: "4x"'))
    done = sched("simulate", "-f", str(cluster), "--pod", "-", stdin=pod_of("1"))
    assert done.code == 1
    assert done.err.startswith('error: Node "large": "4x": quantities must match')


def test_reasons_are_shown_when_a_node_is_rejected(sched: Commands, cluster_file: str) -> None:
    done = sched("simulate", "-f", cluster_file, "--pod", "-", stdin=pod_of('"2"'))
    assert done.code == 1, "the pod does not fit"
    said = done.out
    [heading] = [line for line in said.splitlines() if line.startswith("NODE")]
    assert heading.split() == ["NODE", "FILTER", "PLUGIN", "REASONS"]


def test_preemption_is_shown_with_its_victims(sched: Commands, cluster_file: str) -> None:
    done = sched("simulate", "-f", cluster_file, "--pod", "-", stdin=pod_of('"2"'))
    assert done.code == 1, "the pod does not fit"
    said = done.out
    assert "Pod default/pending: Unschedulable" in said
    assert "  0/2 nodes are available: 2 Insufficient cpu." in said
    assert "Preemption: on large, evicting default/low" in said


def test_a_pod_that_is_in_the_cluster_does_not_stand_in_its_own_way(
    sched: Commands, cluster_file: str
) -> None:
    itself = pod_of('"3"').replace("pending", "low").replace("  priorityClassName: high\n", "")
    assert "Best node: large" in sched.ok(
        "simulate", "-f", cluster_file, "--pod", "-", stdin=itself
    )


USER = """
apiVersion: v1
kind: Pod
metadata: {name: p, uid: u1}
spec:
  nodeName: large
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  containers: [{name: c, image: i}]
  volumes:
  - name: v
    ephemeral:
      volumeClaimTemplate:
        spec: {storageClassName: fast, accessModes: [ReadWriteOnce],
               resources: {requests: {storage: 1Gi}}}
"""
OWN_CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: p-v, uid: v, ownerReferences: [{kind: Pod, name: p, uid: u1, controller: true}]}
spec: {storageClassName: fast, volumeName: gone, accessModes: [ReadWriteOnce]}
"""


@pytest.mark.parametrize("replicas", [(), ("--replicas", "1")])
def test_the_claims_of_a_pod_that_is_in_the_cluster_do_not_either(
    sched: Commands, tmp_path: Path, replicas: tuple[str, ...]
) -> None:
    mine = resource_claim("mine")
    mine.metadata.owner_references.add(kind="Pod", name="p", uid="u1", controller=True)
    result = mine.status.allocation.devices.results.add(request="gpus", pool="large")
    result.device, result.driver = "gpu-0", "gpu.example.com"
    mine.status.reserved_for.add(resource="pods", name="p", uid="u1")
    made = [device_class(), template("one"), devices("large", 1), mine]
    fast = storage_class("fast", "csi.example.com")
    manifests = [fast, *(to_manifest(item) for item in made)]
    parts = [CLUSTER, USER, OWN_CLAIM, *map(json.dumps, manifests)]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("\n---\n".join(parts))
    wanted = USER.replace(", uid: u1", "")
    sched.ok("simulate", "-f", str(cluster), "--pod", "-", *replicas, stdin=wanted)


@pytest.mark.parametrize("question", ["simulate --replicas 2", "capacity"])
def test_pods_like_one_with_claims_get_claims_of_their_own(
    sched: Commands, tmp_path: Path, question: str
) -> None:
    running = user("p", template="one", nodeName="large")
    running.status.resource_claim_statuses.add(name="mine", resource_claim_name="of-p")
    claim = resource_claim("of-p")
    claim.metadata.owner_references.add(kind="Pod", name="p", uid="uid-p", controller=True)
    result = claim.status.allocation.devices.results.add(request="gpus", pool="large")
    result.device, result.driver = "gpu-0", "gpu.example.com"
    claim.status.reserved_for.add(resource="pods", name="p", uid="uid-p")
    made = [device_class(), template("one"), devices("large", 3), claim, running]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("\n---\n".join([CLUSTER, *(json.dumps(to_manifest(one)) for one in made)]))
    asked = [*question.split(), "-f", str(cluster), "--pod", "-"]
    said = sched.ok(*asked, stdin=json.dumps(to_manifest(running)))
    assert "2 pods like default/p fit" in said or "2 of 2 pods fit" in said


def test_kinds_that_no_decision_depends_on_are_counted(
    sched: Commands, cluster_file: str, tmp_path: Path
) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("apiVersion: example.com/v1\nkind: Database\nmetadata: {name: d}\n")
    files = ["-f", cluster_file, "-f", str(more)]
    done = sched("simulate", *files, "--pod", "-", stdin=pod_of("100m"))
    assert done.code == 0
    assert done.errors == [
        "warning: skipped 1 object of kinds that no scheduling decision depends on"
    ]


def test_at_80_columns_scores_have_letters_and_a_legend(
    sched: Commands, cluster_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = sched.ok("simulate", "-f", cluster_file, "--pod", "-", stdin=pod_of("100m"))
    assert max(map(len, said.splitlines())) <= 80
    assert "NodeResourcesFit" in said.split("Scores:")[1]


def test_a_plugin_that_scores_few_pods_has_no_column_for_others(
    sched: Commands, cluster_file: str
) -> None:
    command = ("simulate", "-f", cluster_file, "--pod", "-")
    assert "DynamicResources" not in sched.ok(*command, stdin=pod_of("100m"))
    # Results of scenarios name all that kube-scheduler names.
    assert "DynamicResources" in sched.ok(*command, "-o", "json", stdin=pod_of("100m"))


def test_json_is_the_form_of_the_results_of_scenarios(sched: Commands, cluster_file: str) -> None:
    said = sched.ok(
        "simulate", "-f", cluster_file, "--pod", "-", "-o", "json", stdin=pod_of("100m")
    )
    result = json.loads(said)
    assert result["id"] == "default/pending"
    assert result["filter"]["large"]["code"] == "Success"


def scenario(identity: str) -> dict[str, object]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "1", "pods": "1"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c"}]},
    }
    return {"id": identity, "objects": [node], "pod": pod}


@pytest.mark.parametrize("compressed", [False, True])
def test_a_broken_scenario_has_its_error_and_the_rest_go_on(
    sched: Commands, tmp_path: Path, compressed: bool
) -> None:
    broken = scenario("broken") | {"objects": "none"}
    text = "\n".join(
        [json.dumps(scenario("a")), json.dumps(broken), "{", json.dumps(scenario("b"))]
    )
    file = tmp_path / ("s.jsonl.gz" if compressed else "s.jsonl")
    file.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    done = sched("simulate", "--scenarios", str(file))
    assert (done.code, done.err) == (1, f"error: {file}: 2 of 4 cases cannot be read or run\n")
    results = [json.loads(line) for line in done.out.splitlines()]
    assert [result["id"] for result in results] == ["a", "broken", "line 3", "b"]
    assert [sorted(result) for result in results[1:3]] == [["error", "id"]] * 2
    assert results[3]["best"] == ["a"]


def test_scenarios_that_cannot_be_read_are_one_line(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl.gz"
    done = sched("simulate", "--scenarios", str(file))
    assert (done.code, done.err) == (2, f"error: {file}: No such file or directory\n")
    file.write_bytes(b"not compressed")
    done = sched("simulate", "--scenarios", str(file))
    assert done.code == 2
    assert len(done.errors) == 1
    whole = gzip.compress(json.dumps(scenario("a")).encode() * 50)
    file.write_bytes(whole[:-20])
    done = sched("simulate", "--scenarios", str(file))
    assert done.code == 2
    assert len(done.errors) == 1


def test_a_file_without_scenarios_is_an_error_that_names_it(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text("")
    done = sched("simulate", "--scenarios", str(file))
    message = f"error: {file}: no case in it; each line is one JSON document\n"
    assert (done.code, done.out, done.err) == (1, "", message)


def test_queue_cases_are_a_result_a_line(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    case = {"id": "a", "kind": "available", "expect": {"available": {}}}
    file.write_text(json.dumps(case) + "\n{\n")
    done = sched("simulate", "--queue-cases", str(file))
    assert (done.code, done.err) == (1, f"error: {file}: 1 of 2 cases cannot be read or run\n")
    assert [json.loads(line)["agrees"] for line in done.out.splitlines()] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no pod to schedule"),
        (["--pod", "-"], "no cluster"),
        (["--scenarios", "x", "--live"], "--scenarios cannot be combined"),
        (
            ["--scenarios", "x", "--queue-cases", "y"],
            "use only one of --scenarios and --queue-cases",
        ),
        (["--faults", "leak", "--scenarios", "x"], "--faults is for --allocations"),
        (["-o", "yaml"], "'yaml' is not one of 'table', 'json'"),
    ],
)
def test_a_command_that_says_too_little_or_too_much_is_told_what(
    sched: Commands, arguments: list[str], says: str
) -> None:
    done = sched("simulate", *arguments)
    assert done.code == 2
    [line] = done.errors
    assert says in line


def test_every_mistake_of_the_pod_is_a_line(sched: Commands, cluster_file: str) -> None:
    pod = pod_of('"-1"').replace("name: pending", "name: Pending").replace("image: i, ", "")
    done = sched("simulate", "-f", cluster_file, "--pod", "-", stdin=pod)
    assert done.code == 1
    assert len(done.errors) == 4, done.err


def test_a_file_that_makes_no_pod_is_refused(sched: Commands, cluster_file: str) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
    done = sched("simulate", "-f", cluster_file, "--pod", "-", stdin=node)
    assert done.code == 2
    assert done.errors == ["error: -: no pod, and no workload that creates pods"]


RUNTIME = """---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: "1"}}
"""


def test_overhead_of_the_runtime_class_counts(
    sched: Commands, cluster_file: str, tmp_path: Path
) -> None:
    """With it, the pod does not fit the small node any more."""
    runtime = tmp_path / "runtime.yaml"
    runtime.write_text(RUNTIME)
    pod = pod_of("500m").replace("spec:", "spec:\n  runtimeClassName: kata", 1)
    command = ("simulate", "-f", cluster_file, "-f", str(runtime), "--pod", "-", "-o", "json")
    result = json.loads(sched(*command, stdin=pod).out)
    assert result["filter"]["small"]["reasons"] == ["Insufficient cpu"]


def test_a_pod_that_admission_would_refuse_is_refused(sched: Commands, cluster_file: str) -> None:
    pod = pod_of("500m").replace("spec:", "spec:\n  runtimeClassName: kata", 1)
    done = sched("simulate", "-f", cluster_file, "--pod", "-", stdin=pod)
    assert done.code == 1
    assert 'pods "pending" is forbidden: pod rejected: RuntimeClass "kata" not found' in done.err


_RAISES = """
from podsched.framework.plugin import Traits

class Raises:
    name = "Raises"
    traits = Traits(reads_pods=False)

    def __init__(self, args, handle):
        pass

    def score(self, state, pod, nodes, rows):
        raise KeyError("missing")
"""


def test_a_score_plugin_that_raises_is_an_error_with_its_traceback_beside_the_result(
    sched: Commands, cluster_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    about = packages / "raises-1.dist-info"
    about.mkdir(parents=True)
    (packages / "raises_when_scoring.py").write_text(_RAISES)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: raises\nVersion: 1\n")
    points = "[podsched.plugins]\nRaises = raises_when_scoring:Raises\n"
    (about / "entry_points.txt").write_text(points)
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{plugins: {score: {enabled: [{name: Raises}]}}}]")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setattr(plugin_calls, "_log", get_logger("plugins"))
    monkeypatch.setattr(plugin_calls, "_logged", set())
    arguments = ["-f", cluster_file, "--pod", "-", "--config", str(config)]
    done = sched("simulate", *arguments, stdin=pod_of("100m"))
    assert done.code == 2
    assert done.out.splitlines()[0] == "Pod default/pending: Error"
    assert "plugin \"Raises\" failed with: 'missing'" in done.out
    assert "Traceback" not in done.out
    assert done.err.count("KeyError: 'missing'") == 1


def test_what_would_make_a_pod_fit_is_told_with_the_number_of_nodes(
    sched: Commands, cluster_file: str
) -> None:
    done = sched("simulate", "-f", cluster_file, "--pod", "-", stdin=pod_of('"2"'))
    told = done.out.split("What would make it fit, the least of each kind:\n")[1]
    assert "lower its request of cpu from 2 to " in told
    told = sched("simulate", "-f", cluster_file, "--pod", "-", "-o", "json", stdin=pod_of('"2"'))
    changes = json.loads(told.out)["changes"]
    assert {"requests"} <= {change["kind"] for change in changes}


def test_without_a_table_of_nodes_its_parts_are_one_line_apart(
    sched: Commands, cluster_file: str
) -> None:
    gated = pod_of("1").replace("spec:", "spec:\n  schedulingGates: [{name: example.com/wait}]", 1)
    done = sched("simulate", "-f", cluster_file, "--pod", "-", stdin=gated)
    assert done.out.startswith("Pod default/pending: Gated")
    assert "\n\n\n" not in done.out


def allocation_case(devices: list[dict[str, Any]], count: int, **claimed: Any) -> dict[str, Any]:
    pool = {"name": "p", "resourceSliceCount": 1}
    of_slice = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n", "devices": devices}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    requests = {"requests": [{"name": "r", "exactly": exactly}]}
    selector = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
    return {
        "name": "one",
        "node": {"metadata": {"name": "n"}},
        "classes": [{"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}],
        "slices": [{"metadata": {"name": "s"}, "spec": of_slice}],
        "claims": [{"metadata": {"name": "c"}, "spec": {"devices": requests | claimed}}],
    }


def test_allocation_cases_give_a_result_a_line_whatever_they_hold(
    sched: Commands, tmp_path: Path
) -> None:
    case = allocation_case([{"name": "gpu-0"}], count=1)
    file = tmp_path / "cases.jsonl"
    file.write_text(f"{json.dumps(case)}\n\nnot json\n{json.dumps(case | {'slices': []})}\n")
    done = sched("simulate", "--allocations", str(file))
    assert (done.code, done.err) == (1, f"error: {file}: 1 of 3 cases cannot be read or run\n")
    first, broken, without = map(json.loads, done.out.splitlines())
    assert (first["name"], first["outcome"]) == ("one", "allocated")
    assert first["allocations"][0]["devices"]["results"] == [
        {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}
    ]
    assert (broken["name"], broken["outcome"]) == ("line 3", "error")
    assert (without["outcome"], without["allocations"]) == ("none", None)


def test_selectors_give_a_result_a_line_whatever_they_hold(sched: Commands, tmp_path: Path) -> None:
    case = {
        "name": "memory",
        "expression": 'device.capacity["a.example"].memory.isLessThan(quantity("1Gi"))',
        "device": {"driver": "a.example", "capacity": {"memory": {"value": "80Gi"}}},
    }
    file = tmp_path / "cases.jsonl"
    without = case | {"device": {"driver": "b.example"}}
    lines = [json.dumps(case), "", "not json", json.dumps(without), '{"expression": "1 +"}']
    file.write_text("\n".join(lines))
    done = sched("simulate", "--cel", str(file))
    assert (done.code, done.err) == (1, f"error: {file}: 1 of 4 cases cannot be read or run\n")
    first, broken, failed, wrong = map(json.loads, done.out.splitlines())
    assert first == {
        "name": "memory",
        "outcome": "ok",
        "match": False,
        "estimatedCost": 6,
        "actualCost": 6,
    }
    assert (broken["name"], broken["outcome"]) == ("line 3", "bad-case")
    assert (failed["outcome"], failed["error"]) == ("runtime-error", "no such key: memory")
    assert (wrong["name"], wrong["outcome"]) == ("line 5", "compile-error")


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [((), "none"), (("--faults", "leak"), "none"), (("--faults", "1.36.2"), "allocated")],
)
def test_known_faults_are_kept_on_request(
    sched: Commands, tmp_path: Path, faults: tuple[str, ...], outcome: str
) -> None:
    """To v1.36.2 these values are distinct: it compares with the latest device only."""
    devices = [
        {"name": f"gpu-{n}", "attributes": {"rack": {"int": rack}}}
        for n, rack in enumerate((1, 2, 1))
    ]
    distinct = [{"distinctAttribute": "gpu.example.com/rack"}]
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(allocation_case(devices, count=3, constraints=distinct)))
    line = sched.ok("simulate", "--allocations", str(file), *faults)
    assert json.loads(line)["outcome"] == outcome
