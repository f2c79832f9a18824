"""``sched replay``: a recording run again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject
from support.commands import Commands
from support.recordings import Script, a_node, a_pod

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples" / "traces"
MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
"""


@pytest.fixture
def recording(tmp_path: Path) -> str:
    script = Script(tmp_path / "a.rec", a_node("node-1"), a_node("node-2"))
    pods = [a_pod(f"web-{number}", "1500m") for number in range(6)]
    for number, pod in enumerate(pods):
        script.added(10.0 * number, pod)
        if number < 4:
            script.bound(10.0 * number + 0.25, pod, f"node-{number % 2 + 1}")
    script.deleted(3000.0, pods[0]).bound(3000.5, pods[4], "node-1").ended(3600.0)
    return str(script.path)


def a_queue(name: str, quota: int) -> list[AnyObject]:
    """A ClusterQueue of the cohort "all" and its LocalQueue."""
    cpu = {"name": "cpu", "nominalQuota": quota}
    flavors = [{"name": "default", "resources": [cpu]}]
    spec = {
        "cohortName": "all",
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
    }
    documents: list[dict[str, Any]] = [
        {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterQueue": name},
        },
    ]
    version = "kueue.x-k8s.io/v1beta2"
    return [from_manifest({"apiVersion": version, **each}).message for each in documents]


@pytest.fixture
def queues(tmp_path: Path) -> str:
    """Two queues of one cohort with 1 CPU each; pods of 1 CPU come, which never end.

    Of the queue a two at a time, then one of b. The queue a is updated in between.
    """
    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "default"}}
    version = "kueue.x-k8s.io/v1beta2"
    objects = [from_manifest({"apiVersion": version, **flavor}).message]
    a, b = a_queue("a", 1), a_queue("b", 1)
    script = Script(tmp_path / "q.rec", a_node("n"), *objects, *a, *b)
    pods = [a_pod(name) for name in ("a-0", "a-1", "b-2")]
    for pod in pods:
        pod.metadata.labels["kueue.x-k8s.io/queue-name"] = pod.metadata.name[0]
    script.added(10.0, *pods[:2]).modified(11.5, a[0]).added(12.0, pods[2]).ended(100.0)
    return str(script.path)


def test_another_quota_is_compared_with_a_replay_as_it_was(sched: Commands, queues: str) -> None:
    found = json.loads(sched.ok("replay", queues, "--quota", "a/cpu=+1", "--json"))
    assert [run["name"] for run in found["runs"]] == ["recorded", "replayed", "a/cpu=+1"]
    assert [run["summary"]["neverBound"] for run in found["runs"]] == [3, 1, 0]
    assert [fate["pod"] for fate in found["differences"]["boundAfterOnly"]] == ["default/b-2"]


def test_another_weight_names_a_queue_of_the_recording(sched: Commands, queues: str) -> None:
    found = json.loads(sched.ok("replay", queues, "--weight", "b=2", "--json"))
    assert found["runs"][-1]["name"] == "b=2"
    done = sched("replay", queues, "--weight", "c=2")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert 'there is no ClusterQueue or Cohort "c" (ClusterQueues: a, b)' in done.err
    assert "is not QUEUE=N" in sched("replay", queues, "--weight", "b=-1").err


def test_the_replay_of_a_recording_is_shown_beside_what_was_recorded(
    sched: Commands, recording: str
) -> None:
    said = sched.ok("replay", recording)
    assert "60.0 min replayed" in said
    assert "RECORDED   REPLAYED" in said
    assert "never bound              1          1" in said
    assert 'Of 6 pods, with "replayed" against "recorded":' in said
    assert "0 are placed elsewhere" in said
    assert max(map(len, said.splitlines())) <= 80


def test_more_nodes_are_compared_with_a_replay_as_it_was(
    sched: Commands, recording: str, tmp_path: Path
) -> None:
    plot = tmp_path / "runs.svg"
    found = json.loads(
        sched.ok("replay", recording, "--nodes", "+1", "--json", "--plot", str(plot))
    )
    assert [run["name"] for run in found["runs"]] == ["recorded", "replayed", "+1 node"]
    assert [run["summary"]["neverBound"] for run in found["runs"]] == [1, 1, 0]
    differences = found["differences"]
    assert (differences["before"], differences["after"]) == ("replayed", "+1 node")
    assert [fate["pod"] for fate in differences["boundAfterOnly"]] == ["default/web-5"]
    assert [fate["pod"] for fate in differences["waitShorter"]] == ["default/web-4"]
    assert plot.read_text().count("<polyline") == 4 * 3


def test_another_configuration_places_pods_elsewhere(
    sched: Commands, recording: str, tmp_path: Path
) -> None:
    config = tmp_path / "packed.yaml"
    config.write_text(MOST_ALLOCATED)
    found = json.loads(sched.ok("replay", recording, "--config", str(config), "--json"))
    assert found["differences"]["after"] == "packed.yaml"
    moved = {fate["pod"] for fate in found["differences"]["placedElsewhere"]}
    assert "default/web-1" in moved


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--nodes", "3"), '--nodes: "3" is neither +N nor -N'),
        (("--nodes", "-3"), "--nodes: it begins with 2 nodes"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    sched: Commands, recording: str, arguments: tuple[str, ...], told: str
) -> None:
    done = sched("replay", recording, *arguments)
    assert (done.code, done.errors) == (2, [f"error: {told}"])


def test_a_file_that_is_no_recording_is_named(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text("kind: Pod\n")
    done = sched("replay", str(file))
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {file}: not a recording")


def test_what_is_missing_of_a_recording_is_told(sched: Commands, tmp_path: Path) -> None:
    script = Script(tmp_path / "a.rec", a_node("node-1")).added(1.0, a_pod("web"))
    script.writer.flush()
    script.writer.abandon()
    for how in ((), ("--verify",)):
        done = sched("replay", str(script.path), *how)
        assert done.code == len(how), "there are no decisions to verify"
        assert "the end is missing; its first 1 s are read" in done.err


@pytest.mark.parametrize(
    ("trace", "pods"), [("google2011", 124), ("azure", 160), ("alibaba2018", 925)]
)
def test_the_made_up_traces_are_replayed(sched: Commands, trace: str, pods: int) -> None:
    directory = str(EXAMPLES / trace)
    found = json.loads(sched.ok("replay", "--trace", trace, directory, "--nodes", "+1", "--json"))
    before, after = (run["summary"] for run in found["runs"][-2:])
    assert before["pods"] == after["pods"] == pods
    assert before["bound"] == pods


def test_a_table_that_is_missing_is_a_usage_error(sched: Commands, tmp_path: Path) -> None:
    done = sched("replay", "--trace", "azure", str(tmp_path))
    assert done.code == 2
    assert "neither vmtable.csv" in done.err


def test_pods_that_waited_before_the_recording_are_said_to_count_from_its_start(
    sched: Commands, tmp_path: Path
) -> None:
    script = Script(tmp_path / "b.rec", a_node("node-1"), a_pod("early"))
    script.bound(5.0, a_pod("early"), "node-1").ended(60.0)
    said = sched.ok("replay", str(script.path))
    assert "1 pod waited already when the recording began: its wait counts from then" in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_log_of_batch_jobs_is_run_in_order_and_with_backfill(
    sched: Commands, tmp_path: Path
) -> None:
    rest = "-1 1 1 1 1 1 1 -1 -1"
    jobs = [(0, 100, 2), (1, 50, 4), (2, 60, 2)]
    log = tmp_path / "log.swf"
    lines = [
        f"{number} {at} 0 {runs} {size} -1 -1 {size} {runs} {rest}\n"
        for number, (at, runs, size) in enumerate(jobs)
    ]
    log.write_text("; MaxProcs: 4\n" + "".join(lines))
    plot = tmp_path / "waits.svg"
    said = sched.ok("replay", "--trace", "swf", str(log), "--plot", str(plot))
    assert "log.swf: 3 jobs, 4 processors" in said
    assert "wait, mean               82 s    33 s    33 s" in said
    assert "broken promises          0       0       0" in said
    assert "Conservative" in plot.read_text()
    told = json.loads(sched.ok("replay", "--trace", "swf", str(log), "--json"))
    assert [run["order"] for run in told] == ["FIFO", "EASY", "Conservative"]


def test_estimates_of_when_batch_jobs_start_are_compared_with_the_run(
    sched: Commands, tmp_path: Path
) -> None:
    # Jobs of one size on a machine of that size: each waits for those before it.
    log = tmp_path / "log.swf"
    lines = [f"{n} {10 * n} 0 60 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1\n" for n in range(60)]
    log.write_text("; MaxProcs: 2\n" + "".join(lines))
    said = sched.ok("replay", "--trace", "swf", str(log), "--eta")
    held = next(line for line in said.splitlines() if line.startswith("estimates that held"))
    shares = [int(share) for share in re.findall(r"(\d+)% of \d+", held)]
    assert len(shares) == 3
    assert min(shares) >= 60


def test_a_log_of_batch_jobs_takes_no_configuration(sched: Commands, tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("")
    done = sched("replay", "--trace", "swf", str(log), "--nodes", "+1")
    assert done.code != 0
    assert "cannot be combined with" in done.err
