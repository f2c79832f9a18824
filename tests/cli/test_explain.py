"""``sched explain``: what it prints of a dump, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import Commands

LONGEST = 80


def node(name: str, **parts: Any) -> dict[str, Any]:
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "20"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": allocatable}, **parts}  # fmt: skip


def pod(name: str, cpu: str = "1", on: str = "", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec |= {"containers": [container]} | ({"nodeName": on} if on else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
            "spec": spec}  # fmt: skip


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Five nodes, one of them tainted, as kubectl prints them, at 80 columns."""
    monkeypatch.setenv("COLUMNS", str(LONGEST))
    tainted = {"taints": [{"key": "db", "effect": "NoSchedule"}]}
    items = [pod("web", "2500m", priority=7), {"apiVersion": "x/v1", "kind": "Odd"}]
    items += [node("worker-0", spec=tainted), *(node(f"worker-{n}") for n in range(1, 5))]
    items += [pod(f"there-{n}", f"{n * 250 + 1750}m", f"worker-{n}") for n in range(1, 5)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def explained(sched: Commands, dump: str, *arguments: str) -> str:
    return sched.ok("explain", "pod", "web", "-n", "shop", "-f", dump, *arguments)


def test_the_funnel_is_drawn_and_groups_tell_by_how_much_nodes_miss(
    sched: Commands, dump: str
) -> None:
    text = explained(sched, dump, "--node", "worker-4")
    assert "Pod shop/web: Pending" in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= LONGEST
    start = lines.index("Nodes: 0 of 5 fit")
    assert lines[start + 1 : start + 4] == [
        "  all nodes         5  " + "\u2588" * 30,
        "  TaintToleration   4  " + "\u2588" * 24 + "       -1",
        "  NodeResourcesFit  0  " + " " * 31 + "-4",
    ]
    assert "    cpu: lacks 500m to 1250m of 2500m; worker-1 has 2" in lines
    assert "    on worker-1, worker-2, worker-3, worker-4" in lines
    assert "  worker-4: Unschedulable (NodeResourcesFit)" in lines
    assert "would evict on worker-1: shop/there-1" in text


def test_json_is_the_message(sched: Commands, dump: str) -> None:
    told = json.loads(explained(sched, dump, "-o", "json"))
    assert (told["state"], told["nodes"]) == ("PENDING", 5)
    assert sum(group["nodes"] for group in told["groups"]) == 5
    assert told["preemption"]["candidates"][0]["victims"][0]["name"] == "there-1"


def test_a_bound_pods_scores_are_a_table_with_its_node_first(sched: Commands, dump: str) -> None:
    text = sched.ok("explain", "pod", "there-2", "-n", "shop", "-f", dump)
    assert text.startswith("Pod shop/there-2: Bound on worker-2\n")
    table = text[text.index("Scores") :].splitlines()
    assert table[1].split()[:2] == ["NODE", "TOTAL"]
    assert table[2].split()[0] == "worker-2"
    assert "decision made now" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("pod", "nobody"), 1, 'pods "nobody" not found in namespace "shop"'),
        (("node", "worker-1"), 2, "pods and pod groups can be explained, not nodes"),
        (("job", "train"), 2, "not jobs; a Job in a queue is a pod group of that name"),
        (("thing", "x"), 2, 'doesn\'t have a resource type "thing"'),
        (("web-0",), 2, "name the kind, too: sched explain pod web-0"),
        (("pod", "web", "--node", "nope"), 1, 'nodes "nope" not found'),
        (("pod", "there-2", "--node", "nope"), 1, 'nodes "nope" not found'),
        (("group", "g", "--node", "worker-1"), 2, "--node is for the explanation of a pod"),
        (("pod", "web", "--replica", "a"), 2, "--replica cannot be combined with -f"),
        (("pod", "web", *("--node=x%d" % n for n in range(101))), 2, "at most 100 nodes"),  # noqa: UP031
    ],
)
def test_mistakes_are_told_in_a_line(
    sched: Commands, dump: str, arguments: tuple[str, ...], code: int, why: str
) -> None:
    result = sched("explain", *arguments, "-n", "shop", "-f", dump)
    assert result.code == code
    assert why in result.err
    assert result.err.splitlines()[-1].startswith("error: ")


def test_a_configuration_is_for_answers_that_are_computed_here(sched: Commands) -> None:
    result = sched("explain", "pod", "web", "--config", "c.yaml")
    assert (result.code, "--config needs -f or --kubeconfig" in result.err) == (2, True)


BUNDLED = """
apiVersion: v1
kind: Node
metadata: {name: secret-node}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
"""


@pytest.mark.parametrize("how", [(), ("--anonymize",)])
def test_a_bundle_is_packed_and_its_decision_made_again(
    sched: Commands, tmp_path: Path, how: tuple[str, ...]
) -> None:
    cluster, bundle = tmp_path / "cluster.yaml", str(tmp_path / "decision.bundle")
    cluster.write_text(BUNDLED)
    said = sched.ok("explain", "pod", "waits", "-f", str(cluster), "--bundle", bundle, *how)
    assert "Unschedulable; 1 object," in said
    done = sched("simulate", "--bundle", bundle)
    assert done.code == 1, "the pod does not fit"
    assert "lower its request of cpu from 2 to 1" in done.out
    assert "The result is the same as in the bundle." in done.out
    assert ("secret-node" in done.out) == (not how)


def test_what_is_no_bundle_is_refused_in_one_line(sched: Commands, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text("text")
    done = sched("simulate", "--bundle", str(path))
    assert done.code == 2, "1 would say that the pod does not fit"
    assert done.err == f"error: {path} is not a bundle of sched explain: it is not gzipped JSON\n"


def test_a_pod_group_is_explained_with_its_domains_and_what_would_let_it_start(
    sched: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(LONGEST))
    zones = [
        node(f"{zone}-{at}", metadata={"name": f"{zone}-{at}", "labels": {"zone": zone}})
        for zone, count in (("small", 1), ("large", 2))
        for at in range(count)
    ]
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "shop"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 6}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
        },
    }  # fmt: skip
    members = [pod(f"train-{n}", "2", schedulingGroup={"podGroupName": "train"}) for n in range(6)]
    path = tmp_path / "dump.json"
    items = [*zones, group, *members]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    text = sched.ok("explain", "group", "train", "-n", "shop", "-f", str(path))
    lines = text.splitlines()
    assert max(map(len, lines)) <= LONGEST
    assert lines[0] == "PodGroup shop/train: waits"
    assert "  Group         train: a gang of at least 6; 6 members, 0 with a node" in lines
    start = lines.index("How many members fit")
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["zone", "NODES", "HOLDS", "LACKS"],
        ["large", "2", "4", "2"],
        ["small", "1", "2", "4"],
    ]
    start = lines.index("What would let it start, the least of each kind")
    assert lines[start + 1 : start + 4] == [
        "  a minCount of 4 in place of 6",
        "  add a node like large-0",
        "  do not require zone",
    ]


def test_a_pod_group_that_is_not_there_is_refused(sched: Commands, dump: str) -> None:
    done = sched("explain", "podgroup", "train", "-n", "shop", "-f", dump)
    assert done.code == 1
    assert 'podgroups "train" not found in namespace "shop"' in done.err
