"""``sched explain``: explain why a pod is pending, or why it is on its node."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from google.protobuf.json_format import MessageToJson

from podsched.api.kinds import KINDS, Kind, UnknownKindError, find_kind
from podsched.api.objects import Node
from podsched.api.quantity import QuantityError
from podsched.ask.offline_explanation import explain_offline
from podsched.cli.bundle import write_bundle
from podsched.cli.client import Namespace, ServerFlags, with_client
from podsched.cli.cluster_source import ClusterSource, admit
from podsched.cli.config import read_config, read_source
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, unknown_kind_text, warn
from podsched.cli.explanation import explanation_lines
from podsched.cli.flags import takes_flags
from podsched.cli.output import say
from podsched.cli.policy import ConfigSource
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.framework.plugin import PluginError
from podsched.lab.replay.decision_capture import unpacked
from podsched.registry import factories
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError
from podsched.telemetry.log_output import configure_logging
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation

#: Max nodes in --node: the API server's limit.
_MOST_NODES = 100
#: Seconds for the whole call, in which other API servers are tried, too.
_TIMEOUT = 15.0
_EXPLAINED = ("Pod", "PodGroup")
#: Seconds after which the search for changes that help a pod group ends.
_GROUP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    node: list[str] | None = flag(None, "NODE")
    """Also show the result for this node; repeatable."""
    changes: bool = flag(True, names="--changes/--no-changes")
    """Look for the smallest changes that would make a waiting pod fit."""
    replica: str = flag("", "NAME")
    """Replica to ask; by default the leader."""
    filename: list[str] | None = flag(None, "FILE|DIR|-", names="--filename -f")
    """Manifests of the cluster, such as kubectl get -o yaml prints; repeatable."""
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration file or Policy, with -f or --kubeconfig."""
    kubeconfig: Path | None = flag(None, "FILE")
    """Use the objects of the Kubernetes cluster of this kubeconfig; it is only read."""
    context: str = flag("", "NAME")
    """Context of --kubeconfig, in place of the current one."""
    bundle: Path | None = flag(None, "FILE")
    """Write everything that the decision reads to FILE, to repeat it with sched simulate --bundle
    FILE."""
    anonymize: bool = flag(False)
    """With --bundle: replace all names by others."""
    output: Literal["text", "json"] = flag("text", names="--output -o")
    """Output format."""


@takes_flags
def explain(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="pod NAME | podgroup NAME", help="What to explain: a pod or a pod group."
        ),
    ],
    given: _Flags,
    namespace: Namespace = "default",
) -> None:
    """Explain why a pod or a pod group is pending, or why a pod is on its node.

    Shows the pod's place in the queue, the number of nodes that each plugin rejects and what these
    lack, the events that can wake the pod, and what preemption could do.

    For a pod group it shows how many members exist, how many fit in each topology domain, and what
    would let the group start.

    The leader is asked, through the API server. With -f or --kubeconfig the answer is computed
    here, from the cluster's objects alone. Nothing is changed.

    With --bundle, nothing is explained. Instead, the objects that the decision reads and the
    configuration (--config, else the leader's, else the default) are written to a file, without
    environments and arguments of containers.
    """
    kind, name = _what(what)
    nodes = list(dict.fromkeys(given.node or ()))
    if len(nodes) > _MOST_NODES:
        fail(f"--node: at most {_MOST_NODES} nodes, not {len(nodes)}", USAGE)
    if nodes and kind.name != "Pod":
        fail("--node is for the explanation of a pod, not of a pod group", USAGE)
    request = ExplainRequest(
        namespace=namespace,
        name=name,
        replica=given.replica,
        nodes=nodes,
        changes=given.changes,
        kind=kind.name,
    )
    source = ClusterSource(
        given.server, kubeconfig=given.kubeconfig, context=given.context, files=given.filename or ()
    )
    if given.anonymize and given.bundle is None:
        fail("--anonymize needs --bundle FILE", USAGE)
    if given.bundle is not None:
        _pack(given.bundle, source, given.config, request, given.anonymize)
        return
    if not source.given:
        if given.config is not None:
            fail("--config needs -f or --kubeconfig: replicas use their own configuration", USAGE)
        answer = _ask(given.server, request)
    elif given.replica:
        fail("--replica cannot be combined with -f and --kubeconfig", USAGE)
    else:
        answer = _offline(source, given.config, request)
    if given.output == "json":
        print(MessageToJson(answer))
    else:
        say(*explanation_lines(answer, time.time()))


def _what(arguments: Sequence[str]) -> tuple[Kind, str]:
    """Return the kind and name in the arguments; exit if it cannot be explained."""
    word, _, name = arguments[0].partition("/")
    names = [name, *arguments[1:]] if name else arguments[1:]
    try:
        kind = find_kind("podgroup" if word == "group" else word)
    except UnknownKindError as error:
        if not names:
            fail(f"name the kind, too: sched explain pod {word}", USAGE)
        fail(unknown_kind_text(error), USAGE)
    if kind.name not in _EXPLAINED:
        hint = "; a Job in a queue is a pod group of that name" if kind.name == "Job" else ""
        fail(f"pods and pod groups can be explained, not {kind.plural}{hint}", USAGE)
    if len(names) != 1 or "/" in names[0]:
        fail(f"give one {word} at a time: sched explain {word} NAME, or {word}/NAME", USAGE)
    return kind, names[0]


def _ask(server: str, request: ExplainRequest) -> Explanation:
    return with_client(server, lambda c: c.explain(request, timeout=_TIMEOUT), of_replicas=True)


def _offline(source: ClusterSource, config: Path | None, request: ExplainRequest) -> Explanation:
    configure_logging("text", "warning")
    objects = source.objects()
    admit(objects, [])
    known = {obj.metadata.name for obj in objects if isinstance(obj, Node)}
    if unknown := [name for name in request.nodes if name not in known]:
        fail(f'nodes "{unknown[0]}" not found', FAILED)
    with fail_on(QuantityError, ConfigError, PluginError):
        end = time.monotonic() + _GROUP_SECONDS
        answer = explain_offline(
            objects, read_config(config), factories(), request, lambda: time.monotonic() > end
        )
    if answer is None:
        plural = KINDS[request.kind].plural
        fail(f'{plural} "{request.name}" not found in namespace "{request.namespace}"', FAILED)
    return answer


def _pack(
    path: Path, source: ClusterSource, config: Path | None, request: ExplainRequest, anonymize: bool
) -> None:
    """Write a bundle; without --config, with the leader's configuration if it can be asked."""
    configure_logging("text", "warning")
    if request.kind != "Pod":
        fail("--bundle packs the decision about a pod, not about a pod group", USAGE)
    live = source.or_live()
    objects = live.objects()
    admit(objects, [])
    written: Mapping[str, Any] | None = None
    if config is not None:
        with fail_on(ConfigError):
            written = read_source(ConfigSource(config))[1]
    elif live.live:
        written = with_client(source.server, _running_config)
    write_bundle(path, objects, (request.namespace, request.name), written, anonymize=anonymize)


async def _running_config(client: ApiClient) -> Mapping[str, Any] | None:
    """Return the leader's configuration; None, with a warning, if it is unknown."""
    try:
        found: Mapping[str, Any] = unpacked(await client.checkpoint())["configuration"]
    except (ClientError, KeyError) as error:
        warn(f"the bundle has the default configuration; the leader's is unknown: {error}")
        return None
    return found
