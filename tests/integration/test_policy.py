"""A whole Policy file, from a ConfigMap to bound pods, on real processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podsched.api.objects import ConfigMap, Pod, Service
from podsched.lab.bench.shapes import copies, pod_template
from support.eventually import eventually
from support.extender_world import ScriptedExtender, names_in, passing, serving
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration

WEB = {"app": "web"}
#: Rack a has two nodes, b and c one each; node 4 is retiring, node 5 is not for the extender.
LABELS = ({"rack": "a"}, {"rack": "a"}, {"rack": "b"}, {"rack": "c"},
          {"rack": "d", "retiring": ""}, {"rack": "e"})  # fmt: skip


def policy(extender: str) -> dict[str, Any]:
    return {
        "kind": "Policy",
        "apiVersion": "v1",
        "predicates": [
            {"name": "GeneralPredicates"},
            {
                "name": "NotRetiring",
                "argument": {"labelsPresence": {"labels": ["retiring"], "presence": False}},
            },
        ],
        "priorities": [
            {
                "name": "RackSpread",
                "weight": 5,
                "argument": {"serviceAntiAffinity": {"label": "rack"}},
            },
            {"name": "LeastRequestedPriority", "weight": 1},
        ],
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "enableHttps": False,
                "httpTimeout": 5_000_000_000,
                "nodeCacheCapable": True,
            }
        ],
        "alwaysCheckAllPredicates": True,
    }


async def create_policy(real: RealCluster, content: dict[str, Any]) -> None:
    item = ConfigMap(data={"policy.cfg": json.dumps(content)})
    item.metadata.name, item.metadata.namespace = "policy", "kube-system"
    await real.client.create(item)


async def message_of(real: RealCluster, name: str) -> str:
    pod = await real.client.get("Pod", name, "default")
    assert isinstance(pod, Pod)
    return next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")


async def test_a_policy_from_a_configmap_decides_where_pods_go(tmp_path: Path) -> None:
    scripted = ScriptedExtender()
    async with serving(scripted) as url:
        arguments = ("--policy-configmap", "kube-system/policy")
        async with real_cluster(tmp_path, replicas=0, nodes=len(LABELS)) as real:
            nodes = sorted(n.metadata.name for n in (await real.client.list("Node")).items)
            for name, labels in zip(nodes, LABELS, strict=True):
                await real.client.patch("Node", name, {"metadata": {"labels": labels}})
            scripted.answers["filter"] = lambda args: passing(args, lambda n: n != nodes[5])
            service = Service()
            service.metadata.name, service.metadata.namespace = "web", "default"
            service.spec.selector.update(WEB)
            service.spec.ports.add(port=80)
            await real.client.create(service)
            await create_policy(real, policy(url))
            cluster = real.cluster
            cluster.specs.options = replace(cluster.specs.options, scheduler_arguments=arguments)
            await (await cluster.add_replica(0)).wait_ready()

            for pod in copies(pod_template(labels=WEB), "web", 6):
                await real.client.create(pod)
            await eventually("all are bound", lambda: real.bound("web") == 6)
            used = [next(iter(real.observer.nodes_of[f"default/web-{i}"])) for i in range(6)]
            racks = sorted(LABELS[nodes.index(name)]["rack"] for name in used)
            assert racks == ["a", "a", "b", "b", "c", "c"], "spread over racks, not over nodes"
            assert {names_in(args)[0] for _, args in scripted.calls}, "the extender was asked"
            assert nodes[4] not in scripted.nodes_sent("filter")[0], "filtered out before"

            [big] = copies(pod_template(cpu="64", labels=WEB), "big", 1)
            big.spec.node_selector["disk"] = "ssd"
            await real.client.create(big)
            expected = (
                "0/6 nodes are available: 1 node(s) didn't have the requested labels, "
                "6 Insufficient cpu, 6 node(s) didn't match Pod's node affinity/selector."
            )

            async def told() -> bool:
                return (await message_of(real, "big-0")).startswith(expected)

            await eventually("all reasons of all nodes", told)
