"""``sched bench compare`` on a cluster that podsched serves, with podsched in both places."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.lab.bench import compare
from podsched.lab.bench.compare import CompareOptions, run_compare
from podsched.lab.bench.control_plane import NotComparableError
from podsched.lab.bench.shapes import node
from podsched.serve.client.api_client import ApiClient

pytestmark = pytest.mark.integration

#: Stands in for kube-scheduler, which a clone does not have.
STAND_IN = """#!/bin/sh
[ "$1" = --version ] && echo Kubernetes v1.36.0 && exit
exec {python} -m podsched scheduler "$1" --kubeconfig {kubeconfig} --health-listen 127.0.0.1:0
"""


async def test_both_schedulers_have_their_turns_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How much a scheduler does once it is idle is no matter here, and one workload is enough.
    monkeypatch.setattr(compare, "_IDLE_WITHIN", 1)
    monkeypatch.setattr(compare, "WORKLOADS", ("TemplatesMixed",))
    cluster = LocalCluster(
        LocalClusterOptions(
            tmp_path,
            replicas=1,  # its controllers empty namespaces
            kube_address="127.0.0.1:0",
            evaluator="local",
            fsync=False,
        )
    )
    await cluster.start()
    try:
        kubeconfig, binary = cluster.specs.kubeconfig, tmp_path / "kube-scheduler"
        assert kubeconfig is not None
        binary.write_text(STAND_IN.format(python=sys.executable, kubeconfig=kubeconfig))
        binary.chmod(0o755)
        options = CompareOptions(tmp_path, kubeconfig, nodes=3, pods=10, rounds=1)
        result = await run_compare(options, lambda *_: None)
        assert result.problems == []
        assert [turn.scheduler for turn in result.turns] == ["kube-scheduler", "podsched"]
        assert all(turn.bound == 10 and turn.pods_per_second > 0 for turn in result.turns)
        json.dumps(result.as_dict())
        async with ApiClient(cluster.server) as client:
            for kind in ("Node", "Pod", "Event"):
                left = (await client.list(kind)).items
                # Each scheduler tells once that it leads; such Events expire by themselves.
                left = [it for it in left if getattr(it, "reason", "") != "LeaderElection"]
                assert left == [], kind
            names = {found.metadata.name for found in (await client.list("Namespace")).items}
            assert not [name for name in names if name.startswith("sched-bench-")]
            await client.create(node("mine"))
            with pytest.raises(NotComparableError, match="the cluster has 1 nodes"):
                await run_compare(options, lambda *_: None)
    finally:
        await cluster.stop()
