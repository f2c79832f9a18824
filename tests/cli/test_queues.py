"""``sched queues`` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from podsched.cli.queues import promised_starts, table
from support.commands import Commands

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  cohortName: all
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 8, borrowingLimit: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: product}
spec:
  cohortName: all
  namespaceSelector: {}
  stopPolicy: Hold
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 16, lendingLimit: 12}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: research, namespace: default}
spec: {clusterQueue: research}
---
apiVersion: v1
kind: Namespace
metadata: {name: default}
"""


def pod(name: str, cpu: str, node: str = "") -> str:
    return f"""
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: default
  labels: {{kueue.x-k8s.io/queue-name: research}}
spec:
  nodeName: "{node}"
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(QUEUES + pod("big", "7", "a") + pod("more", "3", "a") + pod("next", "3"))
    return str(path)


def test_usage_and_what_is_borrowed_is_counted_from_the_pods_with_a_node(
    sched: Commands, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = sched("queues", "-f", cluster)
    assert result.out.splitlines() == [
        "QUEUE                    SHARE   WAITING   ADMITTED   USED/QUOTA",
        "all/                     0       1         2          default: cpu 10/20",
        "├─ product               0       0         0          (stopped); default: cpu 0/16",
        "└─ research              100     1         2          default: cpu 10/8 (2 borrowed)",
        "   └─ default/research           1         2          default: cpu 10",
    ]


def test_json_and_yaml_say_the_same(sched: Commands, cluster: str) -> None:
    as_json = json.loads(sched("queues", "-f", cluster, "-o", "json").out)
    assert yaml.safe_load(sched("queues", "-f", cluster, "-o", "yaml").out) == as_json
    [cohort] = as_json["queues"]
    assert cohort["children"][1]["quotas"] == [
        {
            "flavor": "default",
            "resource": "cpu",
            "quota": "8",
            "used": "10",
            "borrowed": "2",
            "available": "2",
        }
    ]


def test_a_local_queue_of_no_cluster_queue_is_shown_with_the_name_that_it_has(
    sched: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "lost.yaml"
    path.write_text(QUEUES.replace("clusterQueue: research", "clusterQueue: resaerch"))
    lines = sched("queues", "-f", str(path)).out.splitlines()
    assert [line.split() for line in lines[-2:]] == [
        ["resaerch", "0", "0", "0", "(does", "not", "exist)"],
        ["└─", "default/research", "0", "0", "-"],
    ]


@pytest.mark.parametrize(
    ("good", "wrong", "where"),
    [
        ("nominalQuota: 8", "nominalQuota: 8x", 'ClusterQueue "research"'),
        (
            "spec: {clusterQueue: research}",
            "spec: {clusterQueue: research, fairSharing: {weight: 8x}}",
            'LocalQueue "default/research"',
        ),
    ],
)
def test_a_wrong_amount_is_named_with_its_object(
    sched: Commands, tmp_path: Path, good: str, wrong: str, where: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(QUEUES.replace(good, wrong))
    done = sched("queues", "-f", str(path))
    assert done.code == 1
    assert done.err.startswith(f'error: {where}: "8x": ')


def test_a_table_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    quota = {"flavor": "on-demand", "resource": "example.com/gpu", "quota": "8", "used": "8"}
    tree = {"kind": "ClusterQueue", "name": "q" * 60, "problem": "", "share": 0, "waiting": 99999}
    tree |= {"admitted": 99999, "quotas": [quota] * 5, "children": []}
    assert all(len(line) <= 80 for line in table([tree]))


def test_deep_levels_have_a_number_in_place_of_an_indent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    node = {"kind": "Cohort", "problem": "", "share": 0, "waiting": 0, "admitted": 0, "quotas": []}
    tree = node | {"name": "level-30", "children": []}
    for level in reversed(range(30)):
        tree = node | {"name": f"level-{level}", "children": [tree]}
    lines = table([tree])
    assert lines[5].startswith("         └─ level-4/  ")
    assert lines[6].startswith("5: └─ level-5/  ")
    assert lines[31].startswith("30: └─ level-30/  ")


def test_without_queues_that_is_said(sched: Commands, tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert "No queues found." in sched("queues", "-f", str(path)).err


def test_promised_starts_are_shown_below_the_tree() -> None:
    node = {"kind": "ClusterQueue", "name": "q", "problem": "", "waiting": 1, "admitted": 0}
    reserved = [{"unit": "default/wide", "start": "2027-01-15T08:01:35Z", "nodes": ["n1", "n2"]}]
    tree = node | {"quotas": [], "children": [], "reserved": reserved}
    assert promised_starts([tree])[1].split() == [
        "default/wide",
        "q",
        "2027-01-15T08:01:35Z",
        "n1,n2",
    ]
    assert promised_starts([tree | {"reserved": []}]) == []
