"""``sched plan``, ``apply --plan`` and ``defragment --execute`` against real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podsched.app.local_cluster import LocalCluster
from podsched.cli import plan_files
from support.commands import Commands
from support.eventually import eventually_blocking

pytestmark = pytest.mark.integration

MANIFESTS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: planned}
value: 10
---
apiVersion: v1
kind: Pod
metadata: {name: planned-0}
spec:
  priorityClassName: planned
  containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]
"""


@pytest.fixture
def running(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("SCHED_TLS_CA", "SCHED_TLS_CERT", "SCHED_TLS_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Commands(cluster.server)


def test_a_plan_is_carried_out_once_and_only_on_what_it_rests_on(
    running: Commands, tmp_path: Path
) -> None:
    (tmp_path / "app.yaml").write_text(MANIFESTS)
    twice = ("-f", str(tmp_path / "app.yaml")) * 2
    made = json.loads(running.ok("plan", *twice, "-o", "json"))
    assert [one["action"] for one in made["writes"]] == ["create", "create"]
    [decision] = made["pods"]
    running.ok("label", f"node/{decision['node']}", "planned=no")
    refused = running("apply", "--plan", made["token"])
    assert refused.code == 1
    assert f"Node/{decision['node']} is changed" in refused.err
    assert running("get", "pod/planned-0").code == 1, "nothing was written"
    running.ok("label", f"node/{decision['node']}", "planned-")
    assert "pod/planned-0 created" in running.ok("apply", "--plan", made["token"])
    running.until(decision["node"], "get", "pod/planned-0")
    again = running("apply", "--plan", made["token"])
    assert "Pod/default/planned-0 exists now" in again.err
    after = json.loads(running.ok("plan", "-f", str(tmp_path / "app.yaml"), "-o", "json"))
    assert [one["action"] for one in after["writes"]] == ["unchanged", "unchanged"]


def test_a_workload_that_is_applied_already_is_unchanged(running: Commands, tmp_path: Path) -> None:
    """Although the server has filled in fields of its containers, which a manifest lacks."""
    same = json.loads(REPLICAS.replace("moved", "same").replace("web", "same"))
    same["spec"]["replicas"] = 0
    (tmp_path / "same.yaml").write_text(json.dumps(same))
    running.ok("apply", "-f", str(tmp_path / "same.yaml"))
    made = json.loads(running.ok("plan", "-f", str(tmp_path / "same.yaml"), "-o", "json"))
    assert [one["action"] for one in made["writes"]] == ["unchanged"]
    running.ok("delete", "replicaset/same")


QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: planned}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: planned}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: planned, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: planned}
spec: {clusterQueue: planned}
---
apiVersion: v1
kind: Pod
metadata: {name: queued, labels: {kueue.x-k8s.io/queue-name: planned}}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}
"""


def test_a_plan_counts_the_quota_of_queues(running: Commands, tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(QUEUE)
    done = running("plan", "-f", str(tmp_path / "queue.yaml"), "-o", "json")
    assert done.code == 1, done
    [decision] = json.loads(done.out)["pods"]
    assert "node" not in decision
    assert "quota" in decision["message"]


def pod(name: str, cpu: str) -> str:
    """A manifest of a pod."""
    metadata: dict[str, Any] = {"name": name, "labels": {"app": "moved"}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


REPLICAS = json.dumps(
    {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "moved"}},
            "template": {
                "metadata": {"labels": {"app": "moved"}},
                "spec": json.loads(pod("x", "1"))["spec"],
            },
        },
    }
)
BUDGET = json.dumps(
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "moved"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "moved"}}},
    }
)


def empty(running: Commands) -> None:
    """Delete all pods."""
    running.ok("delete", "pods", "--all", "--grace-period=0")
    eventually_blocking("no pods are left", lambda: not names(running))


@pytest.fixture
def crowded(running: Commands) -> Iterator[Commands]:
    """Two pods of 2 cpus, one on each node, and one that waits for 3."""
    empty(running)
    for text in (pod("left", "2"), pod("right", "2"), pod("waits", "3")):
        running.ok("apply", "-f", "-", stdin=text)
    for name in ("left", "right"):
        running.until("Running", "get", f"pod/{name}")
    yield running
    running("delete", "pdb/moved", "--ignore-not-found")


def planned(running: Commands) -> dict[str, Any]:
    said = running.ok("defragment", "--plan", "--force", "--for", "waits", "-o", "json")
    found: dict[str, Any] = json.loads(said)
    return found


def names(running: Commands) -> list[str]:
    return sorted(running.ok("get", "pods", "-o", "name").split())


def test_room_is_made_and_the_waiting_pod_gets_it(crowded: Commands) -> None:
    plan = planned(crowded)
    [move] = plan["moves"]
    said = crowded.ok("defragment", "--execute", plan["token"])
    assert f"pod/{move['name']} moved from {move['from']} to {move['to']}" in said
    assert f"pod/waits bound to {plan['node']}" in said
    assert len(names(crowded)) == 3, "the copy, the other one and the one that waited"
    assert f"pod/{move['name']}" not in names(crowded)


def test_what_a_budget_forbids_meanwhile_leaves_everything_as_it_was(crowded: Commands) -> None:
    plan = planned(crowded)
    crowded.ok("apply", "-f", "-", stdin=BUDGET)
    crowded.until("moved", "get", "pdb")
    stopped = crowded("defragment", "--execute", plan["token"], "--timeout", "10s")
    assert stopped.code == 1
    assert f"pod/{plan['moves'][0]['name']} stays: " in stopped.err
    assert names(crowded) == ["pod/left", "pod/right", "pod/waits"]
    crowded.until("Pending", "get", "pod/waits")


def test_a_replacement_by_a_controller_gets_the_place_that_was_held(running: Commands) -> None:
    empty(running)
    running.ok("apply", "-f", "-", stdin=REPLICAS)
    running.until("Running", "get", "pods")
    [old] = names(running)
    node, uid = (
        running.ok("get", old, "-o", f"jsonpath={{.{field}}}").strip()
        for field in ("spec.nodeName", "metadata.uid")
    )
    other = next(name for name in ("node-0000", "node-0001") if name != node)
    move = {"namespace": "default", "name": old.removeprefix("pod/"), "from": node, "to": other}
    moves = [move | {"uid": uid}]
    token = plan_files.save({"kind": "Plan", "freed": [node], "moves": moves})
    said = running.ok("defragment", "--execute", token)
    [new] = names(running)
    assert f"{old} moved from {node} to {other} as {new.removeprefix('pod/')}" in said
    assert f"node/{node} is free, and cordoned" in said
    running.ok("uncordon", node)
    running.ok("delete", "replicaset/web")
