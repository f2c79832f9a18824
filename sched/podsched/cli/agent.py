"""``sched agent``."""

from __future__ import annotations

from typing import Annotated

import typer

from podsched.api.objects import Node
from podsched.app.process import ProcessOptions
from podsched.cli.client import Server, client_options, endpoints
from podsched.cli.errors import USAGE, fail, invalid_settings_fail
from podsched.cli.manifests import read_manifests
from podsched.cli.option_groups import GroupedCommand
from podsched.cli.process_options import (
    LOOPBACK,
    HealthListen,
    InsecureListen,
    check_client_listener,
    instance_of,
    run_or_fail,
    serving_files,
    telemetry_settings,
    with_health,
)
from podsched.config.settings import AgentSettings
from podsched.serve.agent.agent import AgentError
from podsched.serve.agent.nodes import BadNode, nodes_of_manifests

_NODES = "Nodes"

Nodes = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", rich_help_panel=_NODES, help="Number of hollow nodes to register."
    ),
]
NodeCpu = Annotated[
    str, typer.Option(metavar="QUANTITY", rich_help_panel=_NODES, help="CPU of each node.")
]
NodeMemory = Annotated[
    str, typer.Option(metavar="QUANTITY", rich_help_panel=_NODES, help="Memory of each node.")
]
NodePods = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", rich_help_panel=_NODES, help="Maximum number of pods per node."
    ),
]
NodePrefix = Annotated[
    str, typer.Option(metavar="PREFIX", rich_help_panel=_NODES, help="Node name prefix.")
]
Zones = Annotated[
    str,
    typer.Option(
        metavar="ZONE[,...]", rich_help_panel=_NODES, help="Zones of the nodes, assigned in turn."
    ),
]
Manifests = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE|DIR",
        rich_help_panel=_NODES,
        help="Node manifests to register. The annotation podsched.io/count sets the number of "
        "copies of a node.",
    ),
]
Adopt = Annotated[
    bool,
    typer.Option("--adopt", rich_help_panel=_NODES, help="Also play nodes registered by others."),
]
Heartbeat = Annotated[
    float, typer.Option(metavar="SECONDS", help="Interval between a node's heartbeats.")
]
RunDelay = Annotated[
    float, typer.Option(metavar="SECONDS", help="Time from a pod's binding until it is Running.")
]
NoVolumeController = Annotated[
    bool,
    typer.Option(
        "--no-volume-controller", help="Do not bind claims to volumes or provision volumes."
    ),
]
app = typer.Typer(rich_markup_mode=None, add_completion=False)


class _AgentCommand(GroupedCommand):
    groups = (client_options, telemetry_settings)


@app.command(cls=_AgentCommand)
def agent(
    ctx: typer.Context,
    server: Server = "",
    nodes: Nodes = 0,
    node_cpu: NodeCpu = "4",
    node_memory: NodeMemory = "32Gi",
    node_pods: NodePods = 110,
    node_prefix: NodePrefix = "node-",
    zones: Zones = "",
    manifests: Manifests = None,
    adopt: Adopt = False,
    heartbeat: Heartbeat = 10.0,
    run_delay: RunDelay = 0.0,
    no_volume_controller: NoVolumeController = False,
    health_listen: HealthListen = LOOPBACK,
    insecure_listen: InsecureListen = False,
) -> None:
    """Play hollow nodes: heartbeats, and pods that start and end; nothing is run."""
    from podsched.app.hollow import run_hollow_nodes

    client, telemetry = ctx.obj
    tls = serving_files(client)
    check_client_listener("--health-listen", health_listen, tls, insecure=insecure_listen)
    given = _nodes(manifests or [])
    with invalid_settings_fail():
        settings = AgentSettings(
            api_endpoints=tuple(endpoints(server)),
            nodes=nodes,
            node_name_prefix=node_prefix,
            node_cpu=node_cpu,
            node_memory=node_memory,
            node_pods=node_pods,
            heartbeat_period=heartbeat,
            run_delay=run_delay,
            zones=tuple(z for z in zones.split(",") if z),
            adopt=adopt,
            volume_controller=not no_volume_controller,
        )
    telemetry = with_health(telemetry, health_listen)
    options = ProcessOptions("agent", instance_of(node_prefix), telemetry, tls)
    try:
        run_or_fail(
            ctx, options, lambda process: run_hollow_nodes(process, settings, given, client)
        )
    except AgentError as exc:
        fail(str(exc))


def _nodes(manifests: list[str]) -> list[Node]:
    """Return the nodes that manifests ask for; exit if there is anything else in them."""
    found = []
    for obj in read_manifests(manifests, "", strict=False) if manifests else []:
        if not isinstance(obj, Node):
            fail(f"--manifests: {obj.metadata.name} is not a Node", USAGE)
        found.append(obj)
    try:
        return nodes_of_manifests(found)
    except BadNode as exc:
        fail(f"--manifests: {exc}", USAGE)
