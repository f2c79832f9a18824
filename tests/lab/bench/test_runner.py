"""Carrying out the operations of a workload."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podsched.api.objects import Pod
from podsched.lab.bench.cluster import Bench, BenchOptions, PodWatch
from podsched.lab.bench.ops import CreatePods
from podsched.lab.bench.runner import Runner
from podsched.lab.bench.templates import Template
from podsched.serve.client.errors import Unavailable

pytestmark = pytest.mark.looptime

POD = Template({"apiVersion": "v1", "kind": "Pod", "metadata": {}})


async def refuse(_: Pod) -> None:
    raise Unavailable("gone")


async def test_nothing_waits_any_more_for_pods_that_could_not_be_created() -> None:
    cluster: Any = SimpleNamespace(ray=None, processes=[], etcd=None)
    run = Bench(cluster, cast(Any, None), PodWatch())
    runner = Runner(run, refuse, BenchOptions(create_mode="single"), lambda *_: None)
    with pytest.raises(Unavailable):
        await runner.carry_out([CreatePods(1, (POD,), "web", measured=True)])
    assert asyncio.all_tasks() == {asyncio.current_task()}
