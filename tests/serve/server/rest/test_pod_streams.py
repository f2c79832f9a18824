"""Which container and which ports of a pod are meant."""

from __future__ import annotations

from typing import cast

import pytest

from podsched.serve.server.kubelets.client import KubeletClient
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "a container name must be specified for pod web, choose one of: [setup c other]"),
        ("?container=third", "container third is not valid for pod web"),
    ],
)
async def test_a_container_must_be_chosen_of_all_that_a_pod_has(
    world: World, query: str, why: str
) -> None:
    web = pod("web")
    web.spec.containers[0].name = "c"
    web.spec.containers.add(name="other", image="i")
    web.spec.init_containers.add(name="setup", image="i")
    await world.core.creator.create(web)
    kube = KubeClient(world.core, kubelets=cast(KubeletClient, object()))
    answer = await kube.get(f"/api/v1/namespaces/default/pods/web/log{query}")
    assert (answer.status, answer.json["message"]) == (400, why)


@pytest.mark.parametrize("ports", ["", "0", "65536", "80,x", "-1", "9" * 5000])
async def test_a_port_that_cannot_be_is_not_forwarded(world: World, ports: str) -> None:
    kube = KubeClient(world.core, kubelets=cast(KubeletClient, object()))
    path = f"/api/v1/namespaces/default/pods/web/portforward?ports={ports}"
    answer = await kube.request("POST", path)
    assert answer.status == 400
    assert "is not a port from 1 to 65535" in answer.json["message"]
