"""``sched plan`` and ``sched apply --plan`` against real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podsched.app.local_cluster import LocalCluster
from support.commands import Commands

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
    made = json.loads(running.ok("plan", "-f", str(tmp_path / "app.yaml"), "-o", "json"))
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
    assert "Pod/default/planned-0 exists by now" in again.err
