"""``sched agent``: run hollow nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import typer

from podsched.api.objects import Node
from podsched.app.process import ProcessOptions
from podsched.cli.client import Server, client_options, endpoints
from podsched.cli.errors import USAGE, fail, fail_on
from podsched.cli.flags import takes_flags
from podsched.cli.manifests import read_known
from podsched.cli.process_options import (
    ListenFlags,
    check_client_listener,
    instance_of,
    run_or_fail,
    serving_files,
    telemetry_settings,
)
from podsched.config.flags import flag
from podsched.config.settings import AgentSettings, TelemetrySettings
from podsched.serve.agent.nodes import AgentError, BadNode, nodes_of_manifests
from podsched.serve.client.channels import ClientOptions


@dataclass(frozen=True, slots=True)
class _Flags(ListenFlags):
    manifests: list[str] | None = flag(None, "FILE|DIR", "Nodes")
    """Manifests of nodes to register. The annotation podsched.io/count sets the number of copies of
    a node."""
    no_volume_controller: bool = flag(False)
    """Do not bind claims to volumes or provision volumes."""


@takes_flags
def agent(
    ctx: typer.Context,
    settings: AgentSettings,
    given: _Flags,
    client: ClientOptions,
    telemetry: TelemetrySettings,
    server: Server = "",
) -> None:
    """Run hollow nodes, which report pods as Running but run nothing."""
    from podsched.app.hollow import run_hollow_nodes

    client, health = client_options(client), given.health_listen
    tls = serving_files(client)
    check_client_listener("--health-listen", health, tls, insecure=given.insecure_listen)
    nodes = _nodes(given.manifests or [])
    settings = replace(
        settings,
        api_endpoints=tuple(endpoints(server)),
        volume_controller=not given.no_volume_controller,
    )
    telemetry = telemetry_settings(telemetry, health)
    options = ProcessOptions("agent", instance_of(settings.node_name_prefix), telemetry, tls)
    with fail_on(AgentError):
        run_or_fail(
            ctx,
            options,
            lambda process: run_hollow_nodes(process, settings, nodes, client),
            {"--health-listen": health},
        )


def _nodes(manifests: list[str]) -> list[Node]:
    """Return the nodes in manifests; exit if they contain other kinds."""
    if not manifests:
        return []
    read = read_known(manifests, "", strict=False)
    if read.unknown:
        fail("\nerror: ".join(read.unknown))
    if others := [obj for obj in read.objects if not isinstance(obj, Node)]:
        fail(f"--manifests: {others[0].metadata.name} is not a Node", USAGE)
    with fail_on(BadNode, about="--manifests", code=USAGE):
        return nodes_of_manifests(cast(list[Node], read.objects))
