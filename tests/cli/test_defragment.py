"""``sched defragment --plan`` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Commands

NODES = "".join(
    f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: "4", memory: 8Gi, pods: "20"}}}}
---"""
    for name in ("a", "b")
)
PODS = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]
spec:
  nodeName: a
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec:
  nodeName: b
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "4"}}}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    (tmp_path / "cluster.yaml").write_text(NODES + PODS)
    return str(tmp_path / "cluster.yaml")


def test_a_plan_names_the_moves_and_the_free_node(sched: Commands, cluster: str) -> None:
    said = sched.ok("defragment", "--plan", "--cluster", cluster)
    lines = said.splitlines()
    assert lines[0] == "1 move would free a:"
    assert lines[3].split() == ["default/web", "a", "b"]
    assert "--execute" not in said, "files cannot be changed"


def test_room_for_a_pod_is_planned_as_json(sched: Commands, cluster: str) -> None:
    said = sched.ok("defragment", "--plan", "--cluster", cluster, "--for", "waits", "-o", "json")
    plan = json.loads(said)
    assert plan["node"] == "a"
    assert plan["for"] == {"namespace": "default", "name": "waits"}
    assert [(one["name"], one["to"]) for one in plan["moves"]] == [("web", "b")]


def test_no_moves_end_with_one(sched: Commands, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text(NODES)
    done = sched("defragment", "--plan", "--cluster", str(tmp_path / "empty.yaml"))
    assert done.code == 1
    assert done.out.startswith("No moves were found that free a node. At most 10 pods may move")
    assert "--force" in done.out and "--max-moves" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "error: use either --plan or --execute TOKEN"),
        (("--plan", "--for", "nobody"), "error: --for nobody: no waiting pod default/nobody"),
        (("--execute", "0123456789abcdef"), "there is no plan with this token"),
    ],
)
def test_mistakes_are_told(
    sched: Commands,
    cluster: str,
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = sched("defragment", *arguments, "--cluster", cluster)
    assert done.code == 2
    assert message in done.err
