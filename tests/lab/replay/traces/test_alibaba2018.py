"""Alibaba's trace of 2018."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.api.objects import Node, Pod
from podsched.api.resources import readable_allocatable
from podsched.lab.replay.traces import alibaba2018
from podsched.lab.replay.traces.builder import GIB, BadTrace

MACHINES = "m_1,0,7,2,96,50,USING\nm_1,60,7,2,96,50,USING\nm_2,0,8,2,64,100,USING\n"
CONTAINERS = """\
c_1,m_1,0,app_1,started,400,800,6.25
c_1,m_1,100,app_1,started,400,800,6.25
c_2,m_2,30,app_1,started,800,800,3.125
"""
TASKS = "M1,2,j_1,1,Terminated,10,40,50,0.5\nR2_1,1,j_1,1,Running,50,0,100,1\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "machine_meta.csv").write_text(MACHINES)
    (tmp_path / "container_meta.csv").write_text(CONTAINERS)
    (tmp_path / "batch_task.csv").write_text(TASKS)
    return tmp_path


def test_containers_and_the_instances_of_tasks_are_pods(trace: Path) -> None:
    found = alibaba2018.read(trace)
    there = {i.metadata.name: i for i in found.objects if isinstance(i, Pod)}
    assert {name: pod.spec.node_name for name, pod in there.items()} == {"c-1": "m_1"}
    arrivals = [(change.at, change.key) for change in found.changes]
    assert arrivals == [
        (10.0, "trace/j-1-m1-0"),
        (10.0, "trace/j-1-m1-1"),
        (30.0, "trace/c-2"),
        (50.0, "trace/j-1-r2-1-0"),
    ]
    assert found.run_times == {"uid-j-1-m1-0": 30.0, "uid-j-1-m1-1": 30.0}
    requests = there["c-1"].spec.containers[0].resources.requests
    assert dict(requests) == {"cpu": "4000m", "memory": str(32 * GIB)}


def test_machines_are_nodes_in_their_failure_domains(trace: Path) -> None:
    nodes = [item for item in alibaba2018.read(trace).objects if isinstance(item, Node)]
    assert [node.metadata.name for node in nodes] == ["m_1", "m_2"]
    assert nodes[0].metadata.labels["topology.kubernetes.io/zone"] == "domain-7"
    offered = readable_allocatable(nodes[0])
    assert (offered["cpu"], offered["memory"]) == (96_000, 256 * GIB)


def test_one_table_of_work_is_enough(trace: Path) -> None:
    (trace / "container_meta.csv").unlink()
    assert len(alibaba2018.read(trace).changes) == 3
    (trace / "batch_task.csv").unlink()
    with pytest.raises(BadTrace, match="neither container_meta nor batch_task"):
        alibaba2018.read(trace)
