"""``sched simulate --quota`` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Commands

GPU = "example.com/gpu"
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NAME}
spec:
  cohortName: all
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: [example.com/gpu]
    flavors:
    - {name: default, resources: [{name: example.com/gpu, nominalQuota: QUOTA}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: NAME, namespace: default}
spec: {clusterQueue: NAME}
---
"""
CLUSTER = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 8, pods: 110, example.com/gpu: 8}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {allocatable: {cpu: 8, pods: 110, example.com/gpu: 8}}
---
"""
GROUP = """
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata:
  name: train
  namespace: default
  uid: train
  labels: {kueue.x-k8s.io/queue-name: research}
  creationTimestamp: "2026-01-04T00:00:00Z"
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
"""


def queue(name: str, quota: int) -> str:
    return QUEUE.replace("NAME", name).replace("QUOTA", str(quota))


def pod(name: str, gpus: int, of: str = "research", node: str = "", group: str = "") -> str:
    """A pod of a queue; the more GPUs it asks for, the later it was made."""
    spec = f"schedulingGroup: {{podGroupName: {group}}}, " if group else ""
    amounts = f'{{"{GPU}": {gpus}}}'
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: default
  uid: {name}
  labels: {{kueue.x-k8s.io/queue-name: {of}}}
  creationTimestamp: "2026-01-{gpus:02}T00:00:00Z"
spec: {{{spec}schedulerName: default-scheduler, nodeName: "{node}", containers: [
  {{name: c, image: i, resources: {{requests: {amounts}, limits: {amounts}}}}}]}}
---
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Quota 4 for the queue research, of which all is used; a gang of 2 × 4 and a pod of 8 wait."""
    path = tmp_path / "cluster.yaml"
    running = pod("running", 4, node="a")
    gang = GROUP + pod("train-0", 4, group="train") + pod("train-1", 4, group="train")
    path.write_text(CLUSTER + queue("research", 4) + running + gang + pod("wide", 8))
    return str(path)


def test_more_quota_shows_the_units_that_are_admitted_and_their_nodes(
    sched: Commands, cluster: str
) -> None:
    done = sched("simulate", "-f", cluster, "--quota", "research/gpu=+8", "-o", "json")
    result = json.loads(done.out)
    assert result["quotas"] == [f"ClusterQueue research: default/{GPU}=12 (was 4)"]
    train, wide = sorted(result["units"], key=lambda one: str(one["unit"]))[::-1]
    assert train["unit"] == "default/train"
    assert train["nodes"].keys() == {"default/train-0", "default/train-1"}
    assert not train["admittedWithout"]
    assert wide["nodes"] == {}
    assert wide["why"].startswith(f"It needs more quota: of {GPU} 8 in flavor default")
    assert done.code == 1


def test_a_pod_that_is_named_waits_with_the_others_though_it_runs_in_the_cluster(
    sched: Commands, cluster: str
) -> None:
    """It was made last now: the gang gets 8 of 12 before it."""
    asked = ("simulate", "-f", cluster, "--quota", "research/gpu=+8", "--pod", "-")
    done = sched(*asked, "-o", "json", stdin=pod("running", 4, node="a"))
    units = {one["unit"]: one for one in json.loads(done.out)["units"]}
    assert units["default/train"]["nodes"]
    assert units["default/pod:running"]["nodes"].keys() == {"default/running"}
    assert units["default/pod:running"]["admittedWithout"]


def test_quota_without_nodes_admits_nothing_more(sched: Commands, cluster: str) -> None:
    """There are 16 GPUs, 4 used and 8 for the gang: 4 are left, and a pod asks for 8."""
    done = sched("simulate", "-f", cluster, "--quota", "research/default/gpu=100", "-o", "json")
    units = {one["unit"]: one for one in json.loads(done.out)["units"]}
    assert units["default/train"]["nodes"]
    assert units["default/pod:wide"]["why"] == "Its quota suffices, so it waits for nodes."


def test_the_table_says_how_many_units_are_admitted_with_the_change_and_without(
    sched: Commands, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = sched("simulate", "-f", cluster, "--quota", "research/gpu=16").out.splitlines()
    assert lines[0] == f"ClusterQueue research: default/{GPU}=16 (was 4)"
    assert "1 of 2 waiting units would be admitted; 0 without the change." in lines


def test_less_quota_to_borrow_does_not_end_what_runs_but_more_for_another_queue_preempts_it(
    sched: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "two.yaml"
    borrower = pod("borrower", 8, node="a")
    path.write_text(
        CLUSTER.split("---\napiVersion: v1\nkind: Node\nmetadata: {name: b}")[0]
        + "---\n" + queue("research", 8) + queue("product", 0)
        + borrower + pod("claims", 8, "product")
    )  # fmt: skip
    change = ["--quota", "product/gpu=+8", "--quota", "research/gpu=-8"]
    done = sched("simulate", "-f", str(path), *change, "-o", "json")
    units = {one["unit"]: one for one in json.loads(done.out)["units"]}
    assert units["default/pod:borrower"]["preempted"] == ["default/borrower"]
    assert units["default/pod:claims"]["nodes"] == {"default/claims": "a"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("research", "is not QUEUE/[FLAVOR/]RESOURCE=+N, -N or =N, such as"),
        ("reserch/gpu=+1", 'is no ClusterQueue or Cohort "reserch" (ClusterQueues: research)'),
        (
            "research/tpu=+1",
            f'ClusterQueue research has no quota of "tpu" (it has default/{GPU})',
        ),
        ("research/spot/gpu=+1", f'no quota of "spot/gpu" (it has default/{GPU})'),
        ("research/gpu=-5", f"default/{GPU} has 4, so it cannot have 5 less"),
        ("research/gpu=+many", "many"),
    ],
)  # fmt: skip
def test_a_wrong_change_is_refused_with_what_is_wrong(
    sched: Commands, cluster: str, change: str, says: str
) -> None:
    done = sched("simulate", "-f", cluster, "--quota", change)
    assert done.code == 2
    assert f"--quota {change}: " in done.err
    assert says in " ".join(done.err.split())


def test_quota_and_changes_of_nodes_are_two_questions(sched: Commands, cluster: str) -> None:
    done = sched("simulate", "-f", cluster, "--quota", "research/gpu=+1", "--drain", "a")
    assert done.code == 2
    assert "--quota cannot be combined with" in " ".join(done.err.split())
