"""What a recording says of the cluster apart from what its scheduler did."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.api.objects import PodCondition, timestamp
from podsched.lab.replay.recording import Recording
from podsched.lab.replay.workload import Workload, resized, workload_of
from podsched.serve.client.informer import EventType
from podsched.v1 import objects_pb2 as v1
from support.device_objects import devices
from support.recordings import BEGAN, Script, a_node, a_pod


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "a.rec", a_node("n1"), a_node("n2"), a_pod("old", on="n1"))


def extracted(recording: Recording) -> Workload:
    return workload_of(recording, {"default-scheduler"})


def told(workload: Workload) -> list[tuple[float, str, str]]:
    return [(change.at, change.type.name, change.key) for change in workload.changes]


def test_a_pod_runs_as_long_as_from_its_binding_to_its_end(script: Script) -> None:
    pod = a_pod("web")
    script.added(1.0, pod).bound(3.0, pod, "n1")
    pod.status.phase = "Succeeded"
    script.modified(10.0, pod).deleted(20.0, pod).deleted(30.0, a_pod("old"))
    found = extracted(script.ended(40.0))
    assert found.run_times == {"uid-web": 7.0, "uid-old": 30.0}
    assert told(found) == [(1.0, "ADDED", "default/web")], "its ends follow from its run times"
    assert found.recorded is not None
    history = found.recorded.pods["uid-web"]
    assert (history.created, history.bound, history.node, history.ended) == (1.0, 3.0, "n1", 10.0)
    assert history.decided
    assert not found.recorded.pods["uid-old"].decided


def test_how_long_a_preempted_pod_would_have_run_is_not_known(script: Script) -> None:
    pod = a_pod("web")
    script.added(1.0, pod).bound(2.0, pod, "n1")
    pod.metadata.deletion_timestamp.CopyFrom(timestamp(BEGAN + 5))
    pod.status.conditions.append(
        PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    )
    found = extracted(script.modified(5.0, pod).deleted(7.5, pod).ended(9.0))
    assert "uid-web" not in found.run_times
    assert found.termination == 2.5
    assert found.recorded is not None and found.recorded.pods["uid-web"].preempted


def test_how_long_a_pod_would_have_run_that_lost_its_node_is_not_known(script: Script) -> None:
    pod = a_pod("web")
    script.added(1.0, pod).bound(2.0, pod, "n1").deleted(5.0, a_node("n1")).deleted(6.0, pod)
    assert extracted(script.ended(9.0)).run_times == {}


def test_the_annotation_of_hollow_nodes_says_how_long_a_pod_runs_that_was_never_bound(
    script: Script,
) -> None:
    pod = a_pod("web")
    pod.metadata.annotations["podsched.io/run-seconds"] = "12"
    assert extracted(script.added(1.0, pod).ended(9.0)).run_times == {"uid-web": 12.0}


def test_what_others_do_to_a_pending_pod_is_kept_and_what_the_scheduler_does_is_not(
    script: Script,
) -> None:
    pod = a_pod("web")
    script.added(1.0, pod)
    pod.status.nominated_node_name = "n1"
    script.modified(2.0, pod)
    pod.metadata.labels["tier"] = "front"
    script.modified(3.0, pod).deleted(4.0, pod)
    assert told(extracted(script.ended(5.0))) == [
        (1.0, "ADDED", "default/web"),
        (3.0, "MODIFIED", "default/web"),
        (4.0, "DELETED", "default/web"),
    ]


def test_pods_of_other_schedulers_are_bound_as_they_were(script: Script) -> None:
    pod = a_pod("web", schedulerName="another")
    found = extracted(script.added(1.0, pod).bound(2.0, pod, "n2").ended(5.0))
    assert found.foreign == {"uid-web"}
    assert told(found)[-1] == (2.0, "MODIFIED", "default/web")


def test_a_pod_that_is_made_anew_is_another_pod(script: Script) -> None:
    pod = a_pod("web")
    script.added(1.0, pod).bound(2.0, pod, "n1")
    anew = a_pod("web")
    anew.metadata.uid = "uid-anew"
    found = extracted(script.modified(6.0, anew).ended(9.0))
    assert found.run_times == {"uid-web": 4.0}
    assert found.changes[-1].type is EventType.ADDED


def test_nodes_are_added_like_those_there_are_and_removed_with_what_is_on_them(
    script: Script,
) -> None:
    found = extracted(script.deleted(4.0, a_node("n2")).ended(5.0))
    more = resized(found, 3)
    names = [item.metadata.name for item in more.objects]
    assert names == ["added-0000", "added-0001", "added-0002", "n1", "n2", "old"]
    found.objects.append(devices("n1", 2))
    slices = [item for item in resized(found, 3).objects if isinstance(item, v1.ResourceSlice)]
    assert [piece.spec.node_name for piece in slices] == ["added-0000", "added-0002", "n1"]
    found.objects.pop()
    fewer = resized(found, -1)
    assert [item.metadata.name for item in fewer.objects] == ["n1", "old"]
    assert fewer.changes == []
    with pytest.raises(ValueError, match="2 nodes"):
        resized(found, -3)


def test_added_nodes_come_with_the_pods_of_daemon_sets_that_ran_at_the_start(
    tmp_path: Path,
) -> None:
    pod = a_pod("logs", on="n1")
    pod.metadata.owner_references.add(kind="DaemonSet", name="logs", uid="d", controller=True)
    found = extracted(Script(tmp_path / "a.rec", a_node("n1"), pod).ended(5.0))
    pods = [item for item in resized(found, 1).objects if isinstance(item, v1.Pod)]
    assert [one.spec.node_name for one in pods] == ["added-0000", "n1"]


def test_pods_that_ran_on_nodes_that_are_left_out_do_not_come_with_later_changes(
    tmp_path: Path,
) -> None:
    pod = a_pod("old", on="n2")
    script = Script(tmp_path / "a.rec", a_node("n1"), a_node("n2"), pod)
    pod.metadata.labels["app"] = "web"
    found = extracted(script.modified(2.0, pod).ended(5.0))
    assert told(found) == [(2.0, "MODIFIED", "default/old")]
    assert told(resized(found, -1)) == []
