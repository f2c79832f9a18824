"""Commands against a real server with a scheduler and hollow nodes, as users type them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from podsched.app.local_cluster import LocalCluster
from support.commands import Commands
from support.eventually import PATIENCE

pytestmark = pytest.mark.integration

FIVE_MISTAKES = """
apiVersion: v1
kind: Pod
metadata: {name: Web}
spec:
  restartPolicy: Sometimes
  containers:
    - {name: a, image: i, resources: {requests: {cpu: "-1"}}}
    - {name: a, image: i}
    - {name: b, image: i, ports: [{containerPort: 99999}]}
"""


@pytest.fixture
def sched(sched: Commands, cluster: LocalCluster) -> Iterator[Commands]:
    """Commands that know the server; what a test leaves is removed."""
    yield Commands(cluster.server)
    commands = Commands(cluster.server)
    commands.ok("delete", "pods", "--all", "--grace-period", "0")
    commands("delete", "pods", "--all", "-n", "other", "--grace-period", "0")


@pytest.fixture
def to_cordon(sched: Commands) -> Iterator[Commands]:
    """Commands for a test after which the nodes take pods again, however it ends."""
    yield sched
    sched.ok("uncordon", "node-0000", "node-0001")


def pod(name: str, cpu: str = "10m", **labels: str) -> str:
    """A pod's manifest."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
                ],
            },
        }
    )


# ---------------------------------------------------------------------- apply, create


def test_apply_creates_configures_and_leaves_unchanged(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(pod("web", app="web"))
    assert sched.ok("apply", "-f", str(file)) == "pod/web created\n"
    sched.until("Running", "get", "pod", "web")
    assert sched.ok("apply", "-f", str(file)) == "pod/web unchanged\n"
    file.write_text(pod("web", app="other"))
    assert sched.ok("apply", "-f", str(file)) == "pod/web configured\n"
    assert yaml.safe_load(sched.ok("get", "pod", "web", "-o", "yaml"))["metadata"]["labels"] == {
        "app": "other"
    }


def test_apply_takes_a_directory_and_standard_input(sched: Commands, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(pod("a") + "---\n" + pod("b"))
    (tmp_path / "c.json").write_text(json.dumps(yaml.safe_load(pod("c"))))
    (tmp_path / "notes.txt").write_text("not a manifest")
    said = sched.ok("apply", "-f", str(tmp_path), "-f", "-", stdin=pod("d"))
    assert said.split() == [word for name in "abcd" for word in (f"pod/{name}", "created")]


def test_a_namespace_is_for_what_does_not_say_its_own(sched: Commands) -> None:
    elsewhere = yaml.safe_load(pod("b"))
    elsewhere["metadata"]["namespace"] = "default"
    sched.ok(
        "create", "-n", "other", "-f", "-", stdin=pod("a") + "---\n" + yaml.safe_dump(elsewhere)
    )
    assert sched.ok("get", "pods", "-n", "other", "-o", "name") == "pod/a\n"
    listed = sched.ok("get", "pods", "-A").splitlines()
    assert [line.split()[:2] for line in listed] == [
        ["NAMESPACE", "NAME"],
        ["default", "b"],
        ["other", "a"],
    ]


def test_a_workload_that_makes_no_pods_is_said_to_when_it_is_created(
    sched: Commands, tmp_path: Path
) -> None:
    manifest = yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "alone"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        }
    )
    file = tmp_path / "alone.yaml"
    file.write_text(manifest)
    created = sched("apply", "-f", str(file))
    sched.ok("delete", "-f", str(file))
    assert "warning: a StatefulSet makes no pods: podsched has controllers for" in created.err


def test_an_unknown_field_is_a_warning_or_with_strict_an_error(sched: Commands) -> None:
    manifest = pod("web").replace("spec:", "spec:\n  colour: red")
    strict = sched("apply", "--strict", "-f", "-", stdin=manifest)
    assert strict.code == 1
    assert strict.errors == ['error: standard input: Pod web: unknown field "spec.colour"']
    lenient = sched("apply", "-f", "-", stdin=manifest)
    assert (lenient.code, lenient.out) == (0, "pod/web created\n")
    assert lenient.errors == ['warning: standard input: Pod web: unknown field "spec.colour"']


def test_all_of_five_mistakes_are_reported_each_on_a_line(sched: Commands) -> None:
    for command in ("apply", "create"):
        done = sched(command, "-f", "-", stdin=FIVE_MISTAKES)
        assert (done.code, done.out) == (1, "")
        assert len(done.errors) == 5, done.err
        for path in (
            "metadata.name",
            "spec.containers[0].resources.requests[cpu]",
            "spec.containers[1].name",
            "spec.containers[2].ports[0].containerPort",
            "spec.restartPolicy",
        ):
            assert any(line.startswith(f"error: pod/Web: {path}: ") for line in done.errors), path
    assert sched.ok("create", "-f", "-", stdin=pod("web")) == "pod/web created\n"


def test_mistakes_in_several_files_are_all_reported_and_nothing_is_done(
    sched: Commands, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(pod("good"))
    (tmp_path / "b.yaml").write_text("apiVersion: v2\nkind: Pod\nmetadata: {name: x}")
    (tmp_path / "c.yaml").write_text("a: [")
    (tmp_path / "d.yaml").write_text(pod("p").replace("name: c", "name: [c]"))
    done = sched("apply", "-f", str(tmp_path))
    assert (done.code, done.out) == (1, "")
    assert [line.split(":")[1].strip() for line in done.errors] == [
        str(tmp_path / f"{name}.yaml") for name in "bcd"
    ]
    assert 'no matches for kind "Pod" in version "v2"' in done.errors[0]
    assert sched("get", "pod", "good").code == 1


ROLLOUT = (
    "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: d}\nspec: {template: {}}\n"
)


def test_kinds_that_podsched_does_not_have_are_named_and_the_rest_is_applied(
    sched: Commands, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "all.yaml").write_text(ROLLOUT + "---\n" + pod("web"))
    assert sched("apply", "-f", str(tmp_path)).code == 2, "the directory itself has no manifest"
    done = sched("apply", "-R", "-f", str(tmp_path))
    assert (done.code, done.out) == (1, "pod/web created\n")
    [line] = done.errors
    assert "Rollout d: podsched does not run a Rollout" in line
    # Until then others write to the pod, and it is not the one that apply has read before.
    sched.until("Running", "get", "pod", "web")
    skipped = sched("apply", "-R", "-f", str(tmp_path), "--skip-unknown")
    assert (skipped.code, skipped.out) == (0, "pod/web unchanged\n")


def test_a_partial_manifest_is_enough_to_change_an_object(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("web"))
    partial = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, labels: {a: b}}\n"
    two = partial.replace("NAME", "web") + "---\n" + partial.replace("NAME", "none")
    done = sched("apply", "-f", "-", stdin=two)
    assert (done.code, done.out) == (1, "pod/web configured\n")
    assert "spec.containers: Required value" in done.errors[0]


def test_a_drained_node_has_no_pods_and_takes_none(to_cordon: Commands) -> None:
    sched = to_cordon
    sched.ok("create", "-f", "-", stdin=pod("web"))
    sched.ok("wait", "pod/web", "--for=condition=PodScheduled", "--timeout=3m")
    node = sched.ok("get", "pod", "web", "-o", "jsonpath={.spec.nodeName}")
    refused = sched("drain", node)
    assert (refused.code, len(refused.errors)) == (1, 1), "no controller would replace the pod"
    sched.ok("uncordon", node)
    tried = sched.ok("drain", node, "--force", "--dry-run=server").splitlines()
    assert tried == [
        f"node/{node} cordoned (server dry run)",
        "pod/web would be evicted (server dry run)",
    ]
    assert "SchedulingDisabled" not in sched.ok("get", "node", node)
    assert sched.ok("drain", node, "--force").splitlines()[-1] == f"node/{node} drained"
    assert sched("get", "pod", "web").code == 1
    assert "Ready,SchedulingDisabled" in sched.ok("get", "node", node)


def test_waiting_ends_when_the_state_is_reached_or_time_is_over(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("web") + "---\n" + pod("big", cpu="100"))
    running = ("--for=jsonpath={.status.phase}=Running",)
    assert sched.ok("wait", "pod/web", *running, "--timeout=3m") == "pod/web condition met\n"
    late = sched("wait", "pods", "big", *running, "--timeout=300ms")
    assert (late.code, len(late.errors)) == (1, 1)
    sched.ok("delete", "pod", "web", "--grace-period=0")
    assert sched.ok("wait", "pod/web", "--for=delete", "--timeout=3m") == "pod/web deleted\n"


def test_events_of_one_object_are_shown(sched: Commands) -> None:
    # No other test has a pod of this name: Events outlive their pods, and one that was deleted
    # while it was being bound leaves a warning.
    sched.ok("create", "-f", "-", stdin=pod("observed"))
    sched.until("Scheduled", "events", "--for", "pod/observed")
    assert "pod/observed" not in sched.ok("events", "--for", "pod/observed", "--types", "Warning")


def test_several_kinds_and_names_are_shown(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("a") + "---\n" + pod("b"))
    said = sched.ok("get", "pods,nodes")
    assert "pod/a" in said and "node/node-0000" in said
    done = sched("get", "pods", "b", "nowhere", "a", "-o", "name")
    assert (done.code, done.out) == (1, "pod/b\npod/a\n")
    assert sched.ok("get", "pods", "-o", "jsonpath={.items[*].metadata.name}") == "a b"


def test_a_second_pod_of_the_same_name_is_refused_and_the_others_are_created(
    sched: Commands,
) -> None:
    sched.ok("create", "-f", "-", stdin=pod("web"))
    done = sched("create", "-f", "-", stdin=pod("a") + "---\n" + pod("web") + "---\n" + pod("b"))
    assert (done.code, done.out) == (1, "pod/a created\npod/b created\n")
    assert done.errors == ['error: pod/web: pods "web" already exists']


def test_a_change_of_an_old_resource_version_is_refused(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("web", cpu="100"))
    sched.until("FailedScheduling", "describe", "pod", "web")
    old = sched.ok("get", "pod", "web", "-o", "yaml")
    sched.ok("label", "pod", "web", "app=web")
    done = sched("apply", "-f", "-", stdin=old.replace("labels: {}", "labels: {app: mine}"))
    assert done.code == 1
    [line] = done.errors
    assert "the object has been modified" in line


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_what_get_prints_can_be_applied(sched: Commands, output: str) -> None:
    sched.ok("create", "-f", "-", stdin=pod("a", app="x") + "---\n" + pod("b"))
    sched.until("Running", "get", "pod", "a")
    sched.until("Running", "get", "pod", "b")
    printed = sched.ok("get", "pods", "-o", output)
    assert sched.ok("apply", "--strict", "-f", "-", stdin=printed) == (
        "pod/a unchanged\npod/b unchanged\n"
    )
    single = sched.ok("get", "node", "node-0000", "-o", output)
    assert sched.ok("apply", "--strict", "-f", "-", stdin=single).startswith("node/node-0000 ")


def test_a_message_of_20_mb_is_refused_and_the_server_goes_on(sched: Commands) -> None:
    manifest = yaml.safe_load(pod("huge"))
    manifest["metadata"]["annotations"] = {"note": "x" * 20_000_000}
    done = sched("create", "-f", "-", stdin=json.dumps(manifest))
    assert (done.code, done.out) == (1, "")
    [line] = done.errors
    assert line.startswith("error: pod/huge: ")
    assert len(line) < 300
    assert sched.ok("create", "-f", "-", stdin=pod("web")) == "pod/web created\n"


# ---------------------------------------------------------------------- get, describe


def test_selectors_choose(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("a", app="x") + "---\n" + pod("b", "100", app="y"))
    sched.until("Running", "get", "pod", "a")
    assert sched.ok("get", "po", "-l", "app in (x,z)", "-o", "name") == "pod/a\n"
    assert sched.ok("get", "po", "-l", "app!=x", "-o", "name") == "pod/b\n"
    unbound = ["--field-selector", "spec.nodeName="]
    assert sched.ok("get", "po", *unbound, "-o", "name") == "pod/b\n"
    nothing = sched("get", "po", "-l", "app=none")
    assert (nothing.code, nothing.err) == (0, "No resources found in default namespace.\n")
    assert json.loads(sched.ok("get", "po", "-l", "app=none", "-o", "json"))["items"] == []


def test_wide_has_more_columns(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("a"))
    narrow, wide = (sched.ok("get", "pods", *more).splitlines()[0] for more in ([], ["-o", "wide"]))
    assert narrow.split() == ["NAME", "STATUS", "NODE", "AGE"]
    assert "PRIORITY" in wide
    assert "ZONE" in sched.ok("get", "nodes", "-o", "wide")


def test_watch_shows_what_happens_until_it_is_interrupted(
    sched: Commands, cluster: LocalCluster
) -> None:
    command = [sys.executable, "-m", "podsched", "get", "pods", "-w", "-s", cluster.server]
    # A shell's background jobs, and what they start, ignore SIGINT; a handler is not inherited. Not
    # with preexec_fn: gRPC's fork handlers abort some 2 of 100 such children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    stop = threading.Timer(PATIENCE, watching.kill)
    stop.start()
    try:
        assert watching.stdout is not None
        sched.ok("create", "-f", "-", stdin=pod("watched"))
        seen: list[list[str]] = []
        while not seen or "Running" not in seen[-1]:
            line = watching.stdout.readline()
            assert line, f"the watch ended: {watching.communicate()[1]}"
            seen.append(line.split())
        watching.send_signal(2)
        assert watching.wait() == 130
        assert watching.stderr is not None
        assert watching.stderr.read() == ""
    finally:
        stop.cancel()
        watching.kill()
        watching.communicate()
    assert {"NAME", "watched"} == {words[0] for words in seen}


def test_run_makes_a_gang_from_one_line(sched: Commands) -> None:
    made = sched.ok("run", "--gang", "3", "--cpu", "10m", "job", "--", "image:1", "train")
    assert made.splitlines() == [
        "podgroup/job created",
        *(f"pod/job-{i} created" for i in range(3)),
    ]
    sched.until("Scheduled", "get", "podgroup", "job")
    sched.until("Running", "get", "pod", "job-2")
    manifest = sched.ok("get", "pod", "job-2", "-o", "json")
    assert '"podGroupName": "job"' in manifest
    assert '"command": [' in manifest


def test_run_without_an_image_says_how_it_is_called(sched: Commands) -> None:
    failed = sched("run", "job")
    assert failed.code == 2
    assert "sched run [--gang N] NAME -- IMAGE" in failed.err


def test_describe_says_why_a_pod_waits(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("big", cpu="100"))
    sched.until("PodScheduled=False (Unschedulable): 0/2 nodes are", "describe", "pod", "big")
    said = sched.until("FailedScheduling", "describe", "pod", "big")
    assert "0/2 nodes are available: 2 Insufficient cpu." in " ".join(said.split())
    node = sched.ok("describe", "node", "node-0001")
    assert "Status:        Ready" in node


def test_describe_shows_the_members_of_a_pod_group(sched: Commands) -> None:
    sched.ok("run", "--gang", "2", "train", "--", "image")
    said = sched.until("node-000", "describe", "podgroup", "train")
    assert "Members (2):" in said
    assert [line.split()[0] for line in said.splitlines() if "train-" in line] == [
        "train-0",
        "train-1",
    ]


# ---------------------------------------------------------------------- small changes


def test_labels_are_set_replaced_and_removed(sched: Commands) -> None:
    sched.ok("create", "-f", "-", stdin=pod("web"))
    sched.ok("label", "pod", "web", "tier=front", "a=b")
    refused = sched("label", "pod", "web", "tier=back")
    assert (refused.code, len(refused.errors)) == (1, 1)
    sched.ok("label", "pod", "web", "tier=back", "a-", "--overwrite")
    labels = json.loads(sched.ok("get", "pod", "web", "-o", "json"))["metadata"]["labels"]
    assert labels == {"tier": "back"}
    assert sched("label", "pod", "web", "tier").code == 2
    wrong = sched("label", "pod", "web", "b@d=x")
    assert (wrong.code, len(wrong.errors)) == (1, 1)


def test_taints_are_added_and_removed(sched: Commands) -> None:
    def taints() -> list[dict[str, str]]:
        node = json.loads(sched.ok("get", "node", "node-0001", "-o", "json"))
        found: list[dict[str, str]] = node.get("spec", {}).get("taints", [])
        return found

    sched.ok("taint", "node-0001", "k=v:NoSchedule", "k:PreferNoSchedule")
    assert [(t["key"], t.get("value", ""), t["effect"]) for t in taints()] == [
        ("k", "v", "NoSchedule"),
        ("k", "", "PreferNoSchedule"),
    ]
    sched.ok("taint", "node-0001", "k:NoSchedule-")
    assert [t["effect"] for t in taints()] == ["PreferNoSchedule"]
    sched.ok("taint", "node-0001", "k-")
    assert taints() == []
    again = sched("taint", "node-0001", "k-")
    assert (again.code, again.errors) == (1, ['error: node/node-0001: taint "k" not found'])
    assert sched("taint", "node-0001", "k=v:Never").code == 2


def test_a_cordoned_node_takes_no_pods_until_it_is_uncordoned(to_cordon: Commands) -> None:
    sched = to_cordon
    done = sched("cordon", "node-0000", "nowhere", "node-0001")
    assert (done.code, done.out) == (1, "node/node-0000 cordoned\nnode/node-0001 cordoned\n")
    assert done.errors == ['error: nodes "nowhere" not found']
    assert sched.ok("get", "nodes").count("Ready,SchedulingDisabled") == 2
    sched.ok("create", "-f", "-", stdin=pod("web"))
    sched.until("2 node(s) were unschedulable", "describe", "pod", "web")
    sched.ok("uncordon", "node-0000", "node-0001")
    sched.until("Running", "get", "pod", "web")


def test_objects_are_deleted_by_name_selector_manifest_or_all(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text("---\n".join(pod(name, app=name) for name in "abcdef"))
    sched.ok("create", "-f", str(file))
    assert sched.ok("delete", "pod", "a", "b") == "pod/a deleted\npod/b deleted\n"
    assert sched.ok("delete", "pods", "-l", "app=c") == "1 pods deleted\n"
    one = tmp_path / "one.yaml"
    one.write_text(pod("d"))
    assert sched.ok("delete", "-f", str(one)) == "pod/d deleted\n"
    assert sched.ok("delete", "pods", "--all", "--grace-period", "0") == "2 pods deleted\n"
    assert sched.ok("get", "pods", "-o", "name") == ""
    missing = sched("delete", "pod", "a")
    assert (missing.code, missing.errors) == (1, ['error: pods "a" not found'])
    assert sched.ok("delete", "pod", "a", "--ignore-not-found") == ""


@pytest.mark.parametrize(
    "arguments",
    [["pods"], [], ["pods", "a", "--all"], ["pods", "-f", "x.yaml"], ["pods", "a", "-l", "b=c"]],
)
def test_a_delete_that_does_not_say_what_is_not_understood(
    sched: Commands, arguments: list[str]
) -> None:
    done = sched("delete", *arguments)
    assert (done.code, len(done.errors)) == (2, 1)


# ---------------------------------------------------------------------- status, exit codes


def test_status_says_who_leads(sched: Commands, cluster: LocalCluster) -> None:
    said = sched.ok("status")
    assert said.splitlines()[0].split()[:4] == ["REPLICA", "PID", "STATE", "TERM"]
    state = json.loads(sched.ok("status", "--json"))
    [replica] = state["replicas"]
    assert (replica["state"], replica["pid"]) == ("leading", cluster.schedulers[0].pid)
    assert replica["identity"] == state["leader"]
    assert replica["term"] > 0
    assert state["endpoints"]["api"] == [cluster.server]
    assert state["nodes"] == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["get", "widgets"], 1),
        (["get", "pod", "nothing"], 1),
        (["get", "pods", "-l", "a in ("], 1),
        (["get", "pods", "--field-selector", "spec.colour=red"], 1),
        (["describe", "pod", "nothing"], 1),
        (["apply", "-f", "nowhere.yaml"], 2),
        (["get"], 2),
        (["get", "pods", "-o", "table3"], 2),
        (["get", "pods", "--nonsense"], 2),
        (["get", "pods", "x", "-l", "a=b"], 2),
        (["unknown"], 2),
        (["taint", "node-0000", "=v:NoSchedule"], 2),
    ],
    ids=str,
)
def test_what_goes_wrong_is_one_line_with_an_exit_code(
    sched: Commands, arguments: list[str], code: int
) -> None:
    done = sched(*arguments)
    assert (done.code, done.out) == (code, "")
    [line] = done.errors
    assert line.startswith("error: ")


@pytest.mark.parametrize(
    ("address", "code"), [("127.0.0.1:1,nohost.invalid:7443", 3), ("nonsense", 2), ("a:b", 2)]
)
@pytest.mark.usefixtures("impatient")
def test_a_wrong_address_is_one_line(sched: Commands, address: str, code: int) -> None:
    done = Commands(address)("get", "pods")
    assert (done.code, done.out) == (code, "")
    [line] = done.errors
    assert address in line


def test_a_dry_run_on_the_server_says_what_would_be_and_changes_nothing(sched: Commands) -> None:
    manifest = """
apiVersion: v1
kind: Pod
metadata: {name: dry-0}
spec: {containers: [{name: a, image: i}]}
"""
    dry = "--dry-run=server"
    assert sched.ok("apply", "-f", "-", dry, stdin=manifest) == (
        "pod/dry-0 created (server dry run)\n"
    )
    assert sched("get", "pod", "dry-0").code == 1
    sched.ok("apply", "-f", "-", stdin=manifest)
    sched.until("Running", "get", "pod", "dry-0")
    assert "exists" in sched("create", "-f", "-", dry, stdin=manifest).err
    labeled = manifest.replace("{name: dry-0}", "{name: dry-0, labels: {a: b}}")
    assert sched.ok("apply", "-f", "-", dry, stdin=labeled) == (
        "pod/dry-0 configured (server dry run)\n"
    )
    assert sched.ok("apply", "-f", "-", dry, stdin=manifest) == (
        "pod/dry-0 unchanged (server dry run)\n"
    )
    assert sched.ok("label", "pod", "dry-0", "a=c", dry) == ("pod/dry-0 labeled (server dry run)\n")
    assert sched.ok("delete", "pod", "dry-0", dry) == "pod/dry-0 deleted (server dry run)\n"
    assert "labels" not in sched.ok("get", "pod", "dry-0", "-o", "yaml")
    wrong = sched("apply", "-f", "-", dry, stdin=FIVE_MISTAKES)
    assert wrong.code == 1
    assert len(wrong.errors) == 5
