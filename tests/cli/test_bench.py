"""``sched bench`` with workloads of one's own, on real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podsched.app.local_specs import write_kubeconfig
from support.commands import Commands

pytestmark = pytest.mark.integration

WORKLOAD = """
name: Mine
workloadTemplate:
- {opcode: createNodes, count: 2}
- {opcode: createPods, count: 4}
- opcode: createPods
  count: 6
  collectMetrics: true
  podTemplate:
    metadata: {labels: {app: "app-{{index}}"}}
    spec: {containers: [{name: c, image: c}], nodeName: "{{NODE}}"}
- opcode: churn
  mode: recreate
  template: {apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}}
- {opcode: deletePods, labelSelector: app=app-1}
- {opcode: sleep, duration: 0.1}
- {opcode: barrier}
"""


def test_a_workload_of_ones_own_is_measured_and_its_result_checked(
    sched: Commands, tmp_path: Path
) -> None:
    file, chart = tmp_path / "mine.yaml", tmp_path / "mine.svg"
    file.write_text(WORKLOAD.replace("{{NODE}}", ""))
    done = sched("bench", str(file), "--json", "--plot", str(chart))
    assert done.code == 0, done.errors
    figures = json.loads(done.out)
    assert (figures["workload"], figures["pods"], figures["bound"]) == ("Mine", 6, 6)
    assert chart.read_text().startswith("<svg")


def test_a_wrong_result_fails_however_fast_it_was(sched: Commands, tmp_path: Path) -> None:
    # Planted: pods that are on a node which does not exist, past the scheduler.
    file = tmp_path / "wrong.yaml"
    file.write_text(WORKLOAD.replace("{{NODE}}", "nowhere"))
    done = sched("bench", str(file), "--json")
    assert done.code == 1
    assert "is bound to node nowhere, which does not exist" in done.errors[-1]


def test_client_and_scheduler_come_by_kubernetes_api_if_asked(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(WORKLOAD.replace("{{NODE}}", ""))
    done = sched("bench", str(file), "--json", "--backend", "kubernetes")
    assert done.code == 0, done.errors
    run = json.loads(done.out)
    assert (run["backend"], run["create_mode"], run["bound"]) == ("kubernetes", "single", 6)
    assert {"apiserver-0", "scheduler-0", "bench"} <= run["cpu_us_per_pod"].keys()


def test_only_the_client_comes_by_kubernetes_api_if_asked(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(WORKLOAD.replace("{{NODE}}", ""))
    done = sched("bench", str(file), "--create-mode", "rest")
    assert done.code == 0, done.errors
    assert "6 pods created one by one through Kubernetes' REST API" in done.out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["Failover"], "Failover is measured with podsched's own API"),
        (["SchedulingBasic", "--create-mode", "batch"], "Kubernetes' API creates single pods"),
    ],
)
def test_what_kubernetes_api_has_not_is_not_measured_on_it(
    sched: Commands, arguments: list[str], error: str
) -> None:
    done = sched("bench", "--backend", "kubernetes", *arguments)
    assert done.code == 2
    assert error in done.errors[-1]


def test_a_comparison_needs_kube_scheduler(sched: Commands, tmp_path: Path) -> None:
    done = sched("bench", "compare")
    assert done.code == 2
    assert "--control-plane must name a directory with kube-scheduler" in done.errors[-1]
    done = sched("bench", "compare", "--control-plane", str(tmp_path))
    assert done.code == 2
    assert f"{tmp_path}/kube-scheduler: no such file" in done.errors[-1]


@pytest.mark.parametrize(
    ("version", "error"),
    [("v1.36.2", "cannot connect to 127.0.0.1:1"), ("no", "prints no version of Kubernetes")],
)
def test_a_comparison_tells_what_it_cannot_use(
    sched: Commands, tmp_path: Path, version: str, error: str
) -> None:
    binary, kubeconfig = tmp_path / "kube-scheduler", tmp_path / "kubeconfig"
    binary.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
    binary.chmod(0o755)
    write_kubeconfig(kubeconfig, "127.0.0.1:1", None)
    given = f"--control-plane={tmp_path}", f"--kubeconfig={kubeconfig}"
    done = sched("bench", "compare", *given)
    assert done.code != 0
    assert error in done.errors[-1]
