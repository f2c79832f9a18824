"""Queues are on only where their kinds are installed, and Kueue is not."""

from __future__ import annotations

import asyncio

import pytest

from podsched.config.errors import ConfigError
from podsched.serve.kube.discovery import check_queue_kinds
from support.kube_server import Answer, KubeStore, MemoryHttp, refusal

pytestmark = pytest.mark.looptime

VERSION = "kueue.x-k8s.io/v1beta2"


async def test_a_cluster_with_the_kinds_is_accepted() -> None:
    await check_queue_kinds(MemoryHttp(KubeStore()))


async def test_a_cluster_without_the_kinds_is_refused_with_the_command_that_installs_them() -> None:
    store = KubeStore()
    store.absent.add(VERSION)
    with pytest.raises(ConfigError, match=r"no clusterqueues.*kubectl apply -k"):
        await check_queue_kinds(MemoryHttp(store))


async def test_a_cluster_with_kueue_is_refused() -> None:
    store = KubeStore()
    names = ("workloads", "clusterqueues", "localqueues")
    answer = Answer(200, {"resources": [{"name": name} for name in names]})
    store.fail(answer, path=f"/apis/{VERSION}")
    with pytest.raises(ConfigError, match="Kueue is installed in this cluster"):
        await check_queue_kinds(MemoryHttp(store))


async def test_it_waits_for_an_api_server_that_does_not_answer() -> None:
    store = KubeStore()
    store.down = True
    waiting = asyncio.ensure_future(check_queue_kinds(MemoryHttp(store)))
    await asyncio.sleep(30)
    assert not waiting.done()
    store.down = False
    await waiting


async def test_it_waits_for_an_api_server_that_has_not_loaded_its_rights_yet() -> None:
    store = KubeStore()
    store.fail(refusal(403, "Forbidden", "cannot get path"), path=f"/apis/{VERSION}", times=3)
    await check_queue_kinds(MemoryHttp(store))
