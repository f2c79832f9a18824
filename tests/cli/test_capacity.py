"""``sched capacity`` and ``sched headroom`` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Commands
from support.volume_world import storage_class

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {topology.kubernetes.io/zone: x}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "20"}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {topology.kubernetes.io/zone: y}}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "20"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeName: a
  containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 1Gi}}}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: CPU}}}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)


def pod_of(cpu: str) -> str:
    return POD.replace("CPU", cpu)


def test_the_cluster_may_be_named_as_in_simulate(sched: Commands, cluster: str) -> None:
    said = sched.ok("capacity", "-f", cluster, "--pod", "-", stdin=pod_of("1"))
    assert said.startswith("11 pods like default/web fit, on 2 nodes.")
    assert sched("capacity", "--cluster", cluster).code == 2


GROUP = """
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 16}}}
---
"""


@pytest.mark.parametrize(
    "pod",
    [
        GROUP + pod_of("1").replace("spec:", "spec:\n  schedulingGroup: {podGroupName: train}"),
        pod_of("1").replace(
            "{name: web}",
            "{name: web, labels: {kueue.x-k8s.io/pod-group-name: train}, "
            'annotations: {kueue.x-k8s.io/pod-group-total-count: "16"}}',
        ),
    ],
)
def test_a_member_of_a_gang_is_counted_by_itself(sched: Commands, cluster: str, pod: str) -> None:
    said = sched.ok("capacity", "-f", cluster, "--pod", "-", stdin=pod)
    assert said.startswith("11 pods like default/web fit, on 2 nodes.")


def test_capacity_counts_by_zone_and_says_what_ends_it(
    sched: Commands, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = sched.ok("capacity", "-f", "-", "--cluster", cluster, stdin=pod_of("1"))
    lines = said.splitlines()
    assert lines[0] == "11 pods like default/web fit, on 2 nodes."
    cells = [line.split() for line in lines]
    assert ["x", "1", "3"] in cells
    assert ["y", "1", "8"] in cells
    assert ["2", "NodeResourcesFit", "Insufficient", "cpu"] in cells
    assert max(map(len, lines)) <= 80


def test_one_pod_fits_and_two_fit(sched: Commands, cluster: str) -> None:
    asked = ["capacity", "-f", "-", "--cluster", cluster]
    said = [sched.ok(*asked, stdin=pod_of(cpu)).splitlines()[0] for cpu in ('"5"', '"4"')]
    ends = ("1 pod like default/web fits, on 1 node.", "2 pods like default/web fit, on 1 node.")
    assert said == list(ends)


def test_capacity_as_json_has_every_node(sched: Commands, cluster: str) -> None:
    said = sched.ok(
        "capacity", "-f", "-", "--cluster", cluster, "-o", "json", stdin=pod_of("1500m")
    )
    result = json.loads(said)
    assert (result["fits"], result["nodes"]) == (7, {"a": 2, "b": 5})
    assert result["limits"] == [
        {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"], "nodes": 2}
    ]


def test_a_pod_that_fits_nowhere_ends_with_one(sched: Commands, cluster: str) -> None:
    done = sched("capacity", "-f", "-", "--cluster", cluster, stdin=pod_of('"9"'))
    assert done.code == 1
    assert done.out.startswith("0 pods like default/web fit.")


def test_without_a_cluster_the_server_is_asked(sched: Commands, impatient: None) -> None:
    done = sched("capacity", "-f", "-", "--server", "127.0.0.1:1", stdin=pod_of("1"))
    assert done.code == 3
    assert "cannot reach the API server at 127.0.0.1:1" in done.err


def test_headroom_shows_shapes_and_fragmentation(
    sched: Commands, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = sched.ok("headroom", "--cluster", cluster)
    assert said.startswith("Free on 2 nodes open to any pod: 11 of 12 cpu, 15Gi of 16Gi memory.")
    assert "1 cpu, 1Gi" in said
    assert "Fragmentation" in said
    assert max(map(len, said.splitlines())) <= 80


def test_headroom_as_json_has_amounts_in_units(sched: Commands, cluster: str) -> None:
    result = json.loads(sched.ok("headroom", "--cluster", cluster, "-o", "json"))
    assert result["free"] == {"cpu": 11_000, "memory": 15 << 30}
    assert [one["requests"]["cpu"] for one in result["largest"]] == [4000, 2000, 1000]
    assert result["shapes"][0]["more"] == 11


STORAGE = json.dumps(storage_class("fast", "csi.example.com")) + "\n---"
SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      storageClassName: fast
      accessModes: [ReadWriteOncePod]
      resources: {requests: {storage: 1Gi}}
"""


def test_each_pod_of_a_stateful_set_has_claims_of_its_own(sched: Commands, cluster: str) -> None:
    said = sched.ok("capacity", "-f", "-", "--cluster", cluster, stdin=STORAGE + SET)
    assert said.startswith("11 pods like default/db-0 fit, on 2 nodes.")


def test_the_largest_pod_in_proportion_is_told_to_the_last_unit(sched: Commands) -> None:
    small = CLUSTER.replace('cpu: "4"', "cpu: 215m").replace('cpu: "8"', "cpu: 10m")
    small = small.replace('cpu: "1", memory: 1Gi', "cpu: 100m")
    said = sched.ok("headroom", "--cluster", "-", stdin=small)
    assert "114m" not in said
    assert said.count("115m cpu") == 4
