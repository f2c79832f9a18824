"""``sched simulate`` with several pods, and with nodes that come and go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import to_manifest
from support.commands import Commands
from support.device_objects import device_class, devices, template, user

OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
          "controller": True}]  # fmt: skip


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": allocatable}}  # fmt: skip


def pod(name: str, cpu: str = "1", node_name: str = "", **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container]} | ({"nodeName": node_name} if node_name else {})
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": spec}  # fmt: skip


def written(path: Path, *items: dict[str, Any]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two nodes with a budgeted application, as kubectl prints them, with kinds of no interest."""
    web = {"labels": {"app": "web"}, "ownerReferences": OWNER}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
              "metadata": {"name": "web", "namespace": "default"},
              "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}  # fmt: skip
    return written(tmp_path / "cluster.json", node("a"), node("b"), budget,
                   pod("web-0", "1", "a", **web), pod("web-1", "1", "a", **web),
                   {"apiVersion": "x/v1", "kind": "Odd", "metadata": {"name": "of"}})  # fmt: skip


def test_replicas_are_scheduled_in_turn_until_none_fits(
    sched: Commands, cluster: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "pod.json", pod("job", "2"))
    done = sched("simulate", "-f", cluster, "--pod", file, "--replicas", "5", "-o", "json")
    assert done.code == 1
    result = json.loads(done.out)
    assert [one.get("node") for one in result["pods"]] == ["b", "a", "b", None, None]
    assert result["pods"][0]["pod"] == "default/job-1"
    assert "Insufficient cpu" in result["pods"][4]["message"]


def test_workloads_stand_for_their_pods(sched: Commands, cluster: str, tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"app": "api"}}, "spec": pod("x")["spec"]}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"},
                  "spec": {"replicas": 3, "template": template,
                           "selector": {"matchLabels": {"app": "api"}}}}  # fmt: skip
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "none"}}
    sets = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {"template": {"spec": pod("x")["spec"]},
                     "volumeClaimTemplates": [claim]}}  # fmt: skip
    first, second = written(tmp_path / "1.json", deployment), written(tmp_path / "2.json", sets)
    done = sched("simulate", "-f", cluster, "--pod", first, "--pod", second, "-o", "json")
    result = json.loads(done.out)
    names = [one["pod"] for one in result["pods"]]
    assert names == ["default/api-0", "default/api-1", "default/api-2", "default/db-0"]
    assert all("node" in one for one in result["pods"][:3])
    assert "unbound immediate PersistentVolumeClaims" in result["pods"][3]["message"]


STORAGE_CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                 "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
                 "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
CLAIM = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
         "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip


def in_zone(name: str) -> dict[str, Any]:
    """A node in the zone of its name."""
    made = node(name)
    made["metadata"]["labels"] = {"zone": name}
    return made


def volume_on(node_name: str) -> dict[str, Any]:
    zone = {"key": "zone", "operator": "In", "values": [node_name]}
    terms = [{"matchExpressions": [zone]}]
    spec = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"}, "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}  # fmt: skip
    return {"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{node_name}"}, "spec": spec}  # fmt: skip


def database() -> dict[str, Any]:
    templates = [{"metadata": {"name": "data"}, "spec": CLAIM}]
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {"template": {"spec": pod("x")["spec"]},
                     "volumeClaimTemplates": templates}}  # fmt: skip


def test_new_volumes_can_be_bound(sched: Commands, tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.json", in_zone("a"), in_zone("b"), STORAGE_CLASS)
    file = written(tmp_path / "db.json", volume_on("b"), database())
    result = json.loads(sched.ok("simulate", "-f", nodes, "--pod", file, "-o", "json"))
    assert result["pods"][0]["node"] == "b"


@pytest.mark.parametrize("question", ["simulate --pod", "capacity --pod"])
def test_pods_of_a_set_keep_the_volumes_that_they_have(
    sched: Commands, tmp_path: Path, question: str
) -> None:
    volume, claim = volume_on("b"), {"name": "data-db-0", "namespace": "default", "uid": "u"}
    volume["spec"]["claimRef"] = claim
    volume["status"] = {"phase": "Bound"}
    bound = {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": claim | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
             "spec": {**CLAIM, "volumeName": "volume-b"}, "status": {"phase": "Bound"}}  # fmt: skip
    items = [in_zone("a"), in_zone("b"), STORAGE_CLASS, volume, bound]
    there = written(tmp_path / "there.json", *items)
    file = written(tmp_path / "db.json", volume_on("b"), database())
    result = json.loads(sched.ok(*question.split(), file, "-f", there, "-o", "json"))
    where = result["nodes"] if "nodes" in result else {one["node"]: 1 for one in result["pods"]}
    assert where == {"b": 4 if "nodes" in result else 1}


def test_a_mistake_in_a_template_is_reported_once(
    sched: Commands, cluster: str, tmp_path: Path
) -> None:
    spec = {"replicas": 3, "template": {"spec": {**pod("x")["spec"], "nodename": "a"}}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}}
    file = written(tmp_path / "deployment.json", {**deployment, "spec": spec})
    done = sched("simulate", "-f", cluster, "--pod", file)
    what = 'Deployment api: unknown field "spec.template.spec.nodename"'
    assert [line for line in done.errors if "nodename" in line] == [f"warning: {file}: {what}"]


def test_a_drain_names_waves_and_budgets(sched: Commands, cluster: str) -> None:
    said = sched.ok("simulate", "-f", cluster, "--drain", "a")
    lines = [line.split() for line in said.splitlines()]
    assert ["default/web-0", "a", "b", "1", "web"] in lines
    assert ["default/web-1", "a", "b", "2", "web"] in lines


def test_nodes_can_be_added_from_a_file_or_like_another(
    sched: Commands, cluster: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "pod.json", pod("large", "8"))
    large = written(tmp_path / "large.json", node("a", "8"))
    added = ("--add-node", f"{large}:2", "--add-node", "b")
    result = sched.ok("simulate", "-f", cluster, "--pod", file, *added, "-o", "json")
    assert json.loads(result)["pods"][0]["node"] == "a-added-1"


@pytest.mark.parametrize("like", ["a", "FILE"])
def test_added_nodes_get_the_defaults_that_a_server_would_give_them(
    sched: Commands, tmp_path: Path, like: str
) -> None:
    """A node whose manifest has no allocatable offers its capacity."""
    plain = node("a") | {"status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "20"}}}
    cluster = written(tmp_path / "cluster.json", plain)
    file = written(tmp_path / "pod.json", pod("large", "3"))
    question = ("simulate", "-f", cluster, "--pod", file, "--replicas", "2")
    sched.ok(*question, "--add-node", like.replace("FILE", cluster))


def test_pods_of_daemon_sets_take_their_room_on_added_nodes(
    sched: Commands, tmp_path: Path
) -> None:
    owners = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "d",
               "controller": True}]  # fmt: skip
    daemon = pod("logs-a", "3", "a", ownerReferences=owners)
    cluster = written(tmp_path / "cluster.json", node("a"), daemon)
    file = written(tmp_path / "pod.json", pod("large", "2"))
    done = sched("simulate", "-f", cluster, "--pod", file, "--add-node", "a:2", "-o", "json")
    assert "Insufficient cpu" in json.loads(done.out)["pods"][0]["message"]


def with_devices(name: str, count: int) -> list[dict[str, Any]]:
    """A node and its devices."""
    return [node(name), to_manifest(devices(name, count))]


def test_added_nodes_have_devices_like_the_one_they_are_like_or_those_of_their_file(
    sched: Commands, tmp_path: Path
) -> None:
    objects = [device_class(), template("one")]
    cluster = written(
        tmp_path / "gpus.json", *with_devices("a", 1), node("b"), *map(to_manifest, objects)
    )
    file = written(tmp_path / "pod.json", to_manifest(user("p", template="one")))
    more = written(tmp_path / "more.json", *with_devices("c", 2))
    question = ("simulate", "-f", cluster, "--pod", file, "--replicas", "9", "-o", "json")
    added = (("a:2", 3), ("b:2", 1), (f"{more}:2", 5))
    for like, fitting in added:
        found = json.loads(sched(*question, "--add-node", like).out)
        assert sum("node" in one for one in found["pods"]) == fitting, like
    told = sched(*question, "--add-node", file)
    assert told.code == 2
    assert "must contain exactly one Node" in told.err


def test_a_removed_node_loses_pods_without_a_controller(
    sched: Commands, cluster: str, tmp_path: Path
) -> None:
    more = written(tmp_path / "more.json", pod("alone", "1", "a"))
    done = sched("simulate", "-f", cluster, "-f", more, "--remove-node", "a", "-o", "json")
    assert done.code == 1
    fates = {one["pod"]: one["fate"] for one in json.loads(done.out)["moves"]}
    assert fates == {
        "default/alone": "Lost",
        "default/web-0": "Moves",
        "default/web-1": "Moves",
    }


def test_it_reads_well_at_80_columns(
    sched: Commands, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = written(tmp_path / "pod.json", pod("job", "2"))
    done = sched("simulate", "-f", cluster, "--pod", file, "--replicas", "9", "--drain", "a")
    assert max(map(len, done.out.splitlines())) <= 80
    assert "default/job-2 and 7 more" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--drain", "x"), 'error: --drain: there is no node "x"'),
        (("--remove-node", "a", "--drain", "a"), "a node is either removed or drained"),
        (("--add-node", "a:0"), "error: --add-node a:0: the number of nodes must be 1 to 10,000"),
        (("--add-node", "a:²"), 'there is no node "a:²" and no file of this name'),
        (("--add-node", "a:" + "9" * 5000), "error: a:999"),
        (("--add-node", "/nowhere:2"), 'there is no node "/nowhere" and no file of this name'),
    ],
)
def test_mistakes_are_told(
    sched: Commands, cluster: str, arguments: tuple[str, ...], message: str
) -> None:
    done = sched("simulate", "-f", cluster, *arguments)
    assert done.code in (1, 2)
    assert message in done.err


GANG = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "1", pods: "10"}}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
"""
MEMBER = """
apiVersion: v1
kind: Pod
metadata: {name: train-0}
spec:
  schedulingGroup: {podGroupName: train}
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""


def test_one_member_of_a_gang_fits_only_with_those_that_wait(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    for cpu, code in (("1", 1), ("2", 0)):
        file.write_text(GANG.replace('cpu: "1"', f'cpu: "{cpu}"') + MEMBER)
        asked = MEMBER.replace("train-0", "train-1")
        done = sched("simulate", "-f", str(file), "--pod", "-", stdin=asked)
        assert done.code == code, done.out
