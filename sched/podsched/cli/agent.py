"""``sched agent``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from podsched.api.objects import Node
from podsched.app.process import ProcessOptions
from podsched.cli.client import Server, client_options, endpoints
from podsched.cli.errors import USAGE, fail
from podsched.cli.flags import takes_flags
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

Manifests = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE|DIR",
        rich_help_panel="Nodes",
        help="Node manifests to register. The annotation podsched.io/count sets the number of "
        "copies of a node.",
    ),
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
@takes_flags
def agent(
    ctx: typer.Context,
    settings: AgentSettings,
    server: Server = "",
    manifests: Manifests = None,
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
    settings = replace(
        settings,
        api_endpoints=tuple(endpoints(server)),
        volume_controller=not no_volume_controller,
    )
    telemetry = with_health(telemetry, health_listen)
    options = ProcessOptions("agent", instance_of(settings.node_name_prefix), telemetry, tls)
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
