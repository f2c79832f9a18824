"""``sched up`` and ``sched demo``: all of podsched on this machine."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.demo import DemoFailed, DemoOptions, run_demo
from podsched.app.demo_report import print_report
from podsched.app.local_cluster import LocalCluster, LocalClusterOptions
from podsched.app.supervisor import ProcessFailed
from podsched.cli.client import FAILED, fail
from podsched.cli.enums import Evaluator
from podsched.cli.process_options import read_config, split_address
from podsched.client.errors import ClientError
from podsched.lib.network import can_listen
from podsched.store.errors import StoreError


def up(
    replicas: Annotated[int, typer.Option(min=1, help="Scheduler replicas.")] = 3,
    nodes: Annotated[int, typer.Option(min=0, help="Hollow nodes.")] = 3,
    node_cpu: Annotated[str, typer.Option(help="CPU of each node.")] = "4",
    node_memory: Annotated[str, typer.Option(help="Memory of each node.")] = "32Gi",
    node_pods: Annotated[int, typer.Option(min=1, help="Pods that each takes.")] = 110,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where etcd's data and all logs stay; by default they are removed in the end.",
        ),
    ] = None,
    api: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the first API server.")
    ] = ("127.0.0.1:7443"),
    api_servers: Annotated[int, typer.Option(min=1, help="API servers.")] = 1,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A KubeSchedulerConfiguration for the replicas."),
    ] = None,
    evaluator: Annotated[
        Evaluator, typer.Option(help="Where nodes are evaluated; local starts no Ray.")
    ] = Evaluator.AUTO,
    etcd_endpoints: Annotated[
        str,
        typer.Option(metavar="HOST:PORT[,...]", help="An etcd to use; without it one is started."),
    ] = "",
) -> None:
    """Run etcd, Ray, API servers, scheduler replicas and hollow nodes; Ctrl-C stops it all."""
    if not can_listen(*split_address("--api", api)):
        fail(f"--api: {api} cannot be listened on: is another sched up running there?", FAILED)
    read_config(config)
    members = tuple(part.strip() for part in etcd_endpoints.split(",") if part.strip())
    with tempfile.TemporaryDirectory(prefix="podsched-") as scratch:
        options = LocalClusterOptions(
            data_dir=(data_dir or Path(scratch)).resolve(),
            replicas=replicas,
            api_servers=api_servers,
            api_address=api,
            etcd_endpoints=members,
            nodes=nodes,
            node_cpu=node_cpu,
            node_memory=node_memory,
            node_pods=node_pods,
            evaluator=evaluator.value,
            scheduler_config=config.resolve() if config else None,
        )
        try:
            asyncio.run(_up(LocalCluster(options)))
        except (ProcessFailed, StoreError, OSError) as exc:
            fail(str(exc), FAILED)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


async def _up(cluster: LocalCluster) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    starting = asyncio.create_task(cluster.start(), name="start")
    waiting = asyncio.create_task(stopping.wait(), name="wait for the stop")
    await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    starting.result()
    try:
        if cluster.ray_problem:
            print(f"warning: {cluster.ray_problem}; nodes are evaluated locally", flush=True)
        print(
            f"podsched is ready: API {cluster.server}, "
            f"{_count(len(cluster.schedulers), 'scheduler replica')}, "
            f"{_count(cluster.options.nodes, 'hollow node')}, logs in {cluster.log_dir}",
            flush=True,
        )
        await waiting
        print("stopping", flush=True)
    finally:
        await cluster.stop()


def demo(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as one line of JSON.")
    ] = False,
    evaluator: Annotated[
        Evaluator, typer.Option(help="Where nodes are evaluated; local starts no Ray.")
    ] = Evaluator.RAY,
    kills: Annotated[int, typer.Option(min=0, max=2, help="How often the leader is killed.")] = 1,
) -> None:
    """Schedule a workload on a fresh cluster, kill the leader on the way, report what happened."""

    def say(text: str) -> None:
        if not as_json:
            print(text, file=sys.stderr, flush=True)

    try:
        report = asyncio.run(run_demo(DemoOptions(evaluator=evaluator.value, kills=kills), say))
    except (DemoFailed, ClientError, ProcessFailed, StoreError, OSError) as exc:
        fail(str(exc), FAILED)
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        print_report(report)
    if not report.good:
        fail("the demo did not end as it should: see the report", FAILED)
