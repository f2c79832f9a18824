"""Permit with Wait and the waiting-pods API, and the auditor, with plugins in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.api.objects import Pod
from podsched.lab.bench.shapes import copies, pod_template
from support.eventually import eventually
from support.real_cluster import RealCluster, metric, real_cluster

pytestmark = pytest.mark.integration

PLUGINS = Path(__file__).parent.parent / "support" / "promise_plugins"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    filter: {enabled: [{name: Deaf}]}
    permit: {enabled: [{name: Usher}]}
"""


async def create(real: RealCluster, name: str, **labels: str) -> None:
    [pod] = copies(pod_template(labels=labels), name, 1)
    await real.client.create(pod)


async def scheduled_condition(real: RealCluster, name: str) -> tuple[str, str]:
    pod = await real.client.get("Pod", f"{name}-0", "default")
    assert isinstance(pod, Pod)
    found = [c for c in pod.status.conditions if c.type == "PodScheduled"]
    return (found[0].status, found[0].message) if found else ("", "")


async def test_pods_wait_at_permit_until_allowed_and_deaf_plugins_are_made_up_for(
    tmp_path: Path,
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIG)
    environment = {"PYTHONPATH": str(PLUGINS)}
    options = {"scheduler_config": config, "environment": environment, "replicas": 1}
    async with real_cluster(tmp_path, nodes=2, **options) as real:
        # Waits until another pod's plugin lets it go.
        await create(real, "waiting", usher="wait")
        await create(real, "other")
        await eventually("others do not wait", lambda: real.bound("other") == 1)
        assert real.bound("waiting") == 0
        await create(real, "opener", usher="go")
        await eventually("the waiting pod", lambda: real.bound("waiting") == 1)

        # No plugin lets it go: turned down when its second is over, with kube-scheduler's words.
        await create(real, "short", usher="short")

        async def timed_out() -> bool:
            _, message = await scheduled_condition(real, "short")
            return "rejected due to timeout after waiting 1s at plugin Usher" in message

        await eventually("the timeout", timed_out)
        assert real.bound("short") == 0

        # No event wakes it, since its plugin registers none; the auditor does.
        await create(real, "deaf", deaf="yes")

        async def rejected() -> bool:
            _, message = await scheduled_condition(real, "deaf")
            return "2 node(s) are not open" in message

        await eventually("the rejection", rejected)
        labels = {"metadata": {"labels": {"open": "yes"}}}
        await real.client.patch("Node", "node-0001", labels)
        await eventually("the deaf pod", lambda: real.bound("deaf") == 1)
        assert real.observer.nodes_of["default/deaf-0"] == {"node-0001"}
        assert metric(real.leader(), "podsched_missed_wakeups_total") == 1
