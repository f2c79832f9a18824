"""``sched up`` and ``sched demo``: run a whole cluster on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.demo import DemoOptions, run_demo
from podsched.app.demo_observer import DemoFailed
from podsched.app.demo_report import print_report
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.app.supervisor import ProcessFailed
from podsched.cli.client import DEFAULT_SERVER
from podsched.cli.config import read_config
from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.flags import shared, takes_flags, validated
from podsched.cli.kube_options import gates_or_fail
from podsched.cli.process_options import check_listener, listen_or_fail
from podsched.config.flags import flag
from podsched.config.settings import AgentSettings, ControllerSettings
from podsched.lib.certificate_error import CertificateError
from podsched.lib.counted import counted
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tasks import in_background, run_and_tidy_up
from podsched.serve.client.errors import ClientError
from podsched.serve.store.errors import StoreError

#: The port of kube-apiserver.
DEFAULT_KUBE = "127.0.0.1:6443"
DEFAULT_WEB = "127.0.0.1:7480"


@dataclass(frozen=True, slots=True)
class _Flags(LocalClusterOptions):
    data_dir: Path = Path()
    nodes: int = flag(3, "N", min=0)
    """Number of hollow nodes: nothing runs on them."""
    directory: Path | None = flag(None, "DIR", names="--data-dir")
    """Directory for etcd's data and all logs. Default: a temporary directory, removed at the end.
    """
    api_address: str = flag(DEFAULT_SERVER, "HOST:PORT", names="--api")
    """Listen address of the first API server."""
    kube_address: str = flag(DEFAULT_KUBE, "HOST:PORT", names="--kube")
    """Listen address of the first API server for Kubernetes' REST API, for kubectl. If the port is
    in use, another one is taken."""
    web_address: str = flag(DEFAULT_WEB, "HOST:PORT", names="--web")
    """Listen address of the first API server's page for browsers. If the port is in use, another
    one is taken."""
    tls: bool = flag(False)
    """Use TLS everywhere, with certificates made for this cluster."""
    tls_dir: Path | None = flag(None, "DIR")
    """Directory of the certificates for --tls, as sched certs init makes them; missing ones are
    made. Turns on --tls. Default: certs in the data directory."""
    tls_host: list[str] | None = flag(None, "NAME|IP")
    """Name or address by which others reach the API server, for certificates that are made; may be
    given several times."""
    feature_gates: list[str] | None = flag(None, "NAME=BOOL,...")
    """Feature gates of the scheduler replicas, such as WorkloadWithJob=true."""
    controllers: tuple[str, ...] = flag(("*",), "NAME,-NAME,*")
    """Controllers that the leader runs; see sched scheduler."""
    pod_group_claims: bool = flag(False)
    """Let PodGroups have claims; see sched apiserver."""


@takes_flags
def up(given: _Flags) -> None:
    """Run etcd, Ray, API servers, scheduler replicas and hollow nodes until Ctrl-C."""
    secured, insecure = given.tls or given.tls_dir is not None, given.insecure_listen
    listeners = {
        "--api": given.api_address,
        "--kube": given.kube_address,
        "--web": given.web_address,
    }
    for option, address in listeners.items():
        check_listener(option, address, tls=secured, insecure=insecure, remedy="--tls")
    read_config(given.scheduler_config)
    gates_or_fail(given.feature_gates)
    for settings in (AgentSettings, ControllerSettings):
        validated(settings, shared(given, settings))
    listen_or_fail({"--api": given.api_address})
    with data_directory(given.directory) as directory:
        options = replace(
            given,
            data_dir=directory,
            keeps_data=given.directory is not None,
            api_arguments=("--pod-group-claims",) if given.pod_group_claims else (),
            scheduler_arguments=(
                f"--controllers={','.join(given.controllers)}",
                *(f"--feature-gates={gates}" for gates in given.feature_gates or ()),
            ),
            scheduler_config=given.scheduler_config and given.scheduler_config.resolve(),
            tls_dir=(given.tls_dir or directory / "certs").resolve() if secured else None,
            tls_hosts=tuple(given.tls_host or ()),
        )
        try:
            cluster = LocalCluster(options, warn, lambda what: print(f"  {what}", flush=True))
            asyncio.run(_up(cluster))
        except OSError as exc:
            fail(f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc), FAILED)
        except (CertificateError, ProcessFailed, StoreError) as exc:
            fail(str(exc), FAILED)


def _make_directory(wanted: Path) -> None:
    """Make the directory of ``--data-dir`` if it is missing; exit if it cannot be written."""
    try:
        wanted.mkdir(parents=True, exist_ok=True, mode=0o700)
        why = "" if os.access(wanted, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    except OSError as exc:
        # A file with the name of the directory is EEXIST; one above it is ENOTDIR.
        why = os.strerror(errno.ENOTDIR) if isinstance(exc, FileExistsError) else f"{exc.strerror}"
    if why:
        fail(f"--data-dir {wanted}: {why}: give a directory that you may write to", USAGE)


@contextlib.contextmanager
def data_directory(wanted: Path | None) -> Iterator[Path]:
    """Yield the given directory, or one for this run only.

    In both cases there is a directory for this run, by which other commands find the cluster. Exits
    if the given directory cannot be written.
    """
    if wanted is not None:
        _make_directory(wanted)
    try:
        made = RunDirectory("up")
    except OSError as exc:
        fail(str(exc), FAILED)
    try:
        if wanted is None:
            yield made.path
        else:
            for name in ("etcd-endpoint", "kubeconfig"):
                (made.path / name).symlink_to(wanted.resolve() / name)
            yield wanted.resolve()
    finally:
        made.remove()


async def _up(cluster: LocalCluster) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    print(starting_text(cluster.specs.options), flush=True)
    starting = asyncio.create_task(cluster.start(), name="start")
    waiting = asyncio.create_task(stopping.wait(), name="wait for a signal")
    await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    starting.result()
    try:
        print(ready_text(cluster), flush=True)
        async with in_background(cluster.wait(), "wait for a failure") as failing:
            await asyncio.wait({waiting, failing}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                failing.result()
        print("stopping", flush=True)
    finally:
        await cluster.stop()


def starting_text(options: LocalClusterOptions) -> str:
    """Return the first text of ``sched up``."""
    text = "starting podsched on this machine; Ctrl-C stops it"
    if options.nodes:
        text += "\nits nodes are hollow: pods are placed and shown as Running, but nothing runs"
    return text


def ready_text(cluster: LocalCluster) -> str:
    """Return the text of ``sched up`` once everything runs."""
    options, server = cluster.specs.options, cluster.server
    replicas = counted(options.replicas, "scheduler replica")
    nodes = counted(options.nodes, "hollow node")
    lines = [
        "podsched is ready",
        f"  API      {server}",
        f"  running  {replicas}, {nodes}",
        f"  logs     {cluster.log_dir}",
    ]
    if cluster.specs.page:
        lines.append(f"  page     {cluster.specs.page}")
    if cluster.specs.kubeconfig is not None:
        lines.append(f"  kubectl  export KUBECONFIG={cluster.specs.kubeconfig}")
    if (certificates := options.tls_dir) is not None:
        lines += [
            "  TLS      show the administrator's certificate:",
            *(
                f"           export {variable}={certificates / name}"
                for variable, name in (
                    ("SCHED_TLS_CA", "ca.crt"),
                    ("SCHED_TLS_CERT", "admin.crt"),
                    ("SCHED_TLS_KEY", "admin.key"),
                )
            ),
        ]
    lines.append("In another terminal:")
    if server != DEFAULT_SERVER:
        lines.append(f"  export SCHED_SERVER={server}")
    sched = how_to_call_sched()
    tries = [
        (f"{sched} status", "the leader and the standbys"),
        (f"{sched} apply -f FILE", "your pods, as Kubernetes manifests"),
        (f"{sched} get pods -o wide -w", "where they are placed, as it happens"),
    ]
    width = max(len(command) for command, _ in tries)
    return "\n".join([*lines, *(f"  {command:{width}}    # {what}" for command, what in tries)])


def how_to_call_sched() -> str:
    """Return the command to type for ``sched``: its path if it is not in PATH."""
    called, found = sys.argv[0], shutil.which("sched")
    if Path(called).name != "sched" or (found and os.path.samefile(found, called)):
        return "sched"
    return called


def what_next() -> str:
    """Return the demo's last lines: commands to continue with."""
    sched = how_to_call_sched()
    text = f"Next, a cluster that stays: {sched} up --nodes 5"
    activate = Path(sched).with_name("activate")
    if sched != "sched" and activate.is_file():
        text += f"\n{'or':>26}: source {activate}; sched up --nodes 5"
    return text


@takes_flags
def demo(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    options: DemoOptions,
) -> None:
    """Schedule a workload on a fresh cluster, kill the leader, and print a report."""

    def say(text: str) -> None:
        if not as_json:
            print(text, file=sys.stderr, flush=True)

    try:
        report = run_and_tidy_up(run_demo(options, say))
    except (DemoFailed, ClientError, ProcessFailed, StoreError, OSError) as exc:
        fail(str(exc), FAILED)
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        print_report(report)
        print(f"\n{what_next()}")
    if not report.good:
        fail("some pods were lost, bound twice or not bound: see the report", FAILED)
