"""``sched simulate``: what the scheduler would decide, without touching a cluster."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from podsched.api.defaulting import default_object
from podsched.api.kinds import KINDS
from podsched.api.manifest import ManifestError, to_manifest
from podsched.api.objects import AnyObject, Pod, PodStatus, PriorityClass
from podsched.api.priorities import PriorityClasses
from podsched.api.quantity import QuantityError
from podsched.api.validation import validate
from podsched.cli.client import FAILED, USAGE, Server, fail, with_client
from podsched.cli.manifests import read_manifests
from podsched.cli.printers import aligned
from podsched.cli.process_options import read_config
from podsched.client.api_client import ApiClient
from podsched.config.errors import ConfigError
from podsched.engine.simulation import BadScenario, open_scenarios, simulate, simulate_lines
from podsched.framework.plugin import PluginError

#: Kinds that no decision depends on.
_IRRELEVANT = frozenset({"Event", "Lease"})


class Form(StrEnum):
    """Forms of the output."""

    TABLE = "table"
    JSON = "json"


def simulate_command(
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="The cluster: manifests of nodes, pods, ...",
        ),
    ] = None,
    pod: Annotated[
        str, typer.Option("--pod", metavar="FILE|-", help="Manifest of the pod to place.")
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="The cluster as the API server has it.")
    ] = False,
    scenarios: Annotated[
        Path | None,
        typer.Option(
            "--scenarios", metavar="FILE", help="Scenarios, one JSON object a line, plain or .gz."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A KubeSchedulerConfiguration file."),
    ] = None,
    output: Annotated[
        Form, typer.Option("--output", "-o", help="json is the form of --scenarios' results.")
    ] = Form.TABLE,
    server: Server = "",
) -> None:
    """Show what would be decided for a pod: verdicts, scores, the node, preemption.

    The cluster is that of -f, of the server with --live, or both together. With --scenarios each
    line of the file is a scenario of its own, and each result one line of JSON.
    """
    if scenarios is not None:
        if filename or pod or live or config:
            fail("--scenarios stands alone: each brings its cluster, pod and config", USAGE)
        _run_scenarios(scenarios)
        return
    if not pod:
        fail("name the pod to place: --pod FILE (or scenarios: --scenarios FILE)", USAGE)
    if not filename and not live:
        fail("name the cluster: -f FILE, --live, or both", USAGE)
    objects = read_manifests(filename, "default", strict=False) if filename else []
    if live:
        objects = with_client(server, _everything) + objects
    [wanted] = _only_pod(read_manifests([pod], "default", strict=False))
    scenario = _scenario(objects, wanted, config)
    try:
        result = simulate(scenario)
    except (ManifestError, ConfigError, QuantityError, BadScenario, PluginError) as exc:
        fail(str(exc), FAILED)
    if output is Form.JSON:
        print(json.dumps(result, indent=2, sort_keys=True))
    else:
        _print(wanted, result)


def _run_scenarios(path: Path) -> None:
    try:
        with open_scenarios(path) as lines:
            for result in simulate_lines(lines):
                print(json.dumps(result, separators=(",", ":"), sort_keys=True))
    except (OSError, EOFError, zlib.error) as exc:
        fail(f"{path}: {getattr(exc, 'strerror', None) or exc}")
    except PluginError as exc:
        fail(str(exc))
    sys.stdout.flush()


async def _everything(client: ApiClient) -> list[AnyObject]:
    found: list[AnyObject] = []
    for kind in KINDS.values():
        if kind.name not in _IRRELEVANT:
            found += (await client.list(kind.name)).items
    return found


def _only_pod(objects: Sequence[AnyObject]) -> list[Pod]:
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    if len(pods) != 1 or len(objects) != 1:
        fail("--pod: the file must hold exactly one Pod", USAGE)
    return pods


def _scenario(objects: Iterable[AnyObject], pod: Pod, config: Path | None) -> dict[str, Any]:
    """Return the scenario as an API server would hand it over: defaults filled in."""
    given = list(objects)
    classes = PriorityClasses(o for o in given if isinstance(o, PriorityClass))
    now = time.time()
    problems = []
    for index, obj in enumerate([*given, pod]):
        if obj.metadata.uid and obj is not pod:
            continue  # It comes from a server, which has done this.
        status = PodStatus()
        if isinstance(obj, Pod):
            status.CopyFrom(obj.status)
        problems += default_object(obj, now=now, uid=f"simulated-{index}", priority_classes=classes)
        if isinstance(obj, Pod):
            # Defaulting makes a new pod of it; what runs already has a status.
            obj.status.CopyFrom(status)
    problems += validate("Pod", pod)
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        fail(f'Pod "{pod.metadata.name}" is invalid:\n{lines}')
    scenario: dict[str, Any] = {
        "id": f"{pod.metadata.namespace}/{pod.metadata.name}",
        "objects": [to_manifest(obj) for obj in given],
        "pod": to_manifest(pod),
    }
    if config is not None:
        read_config(config)
        scenario["config"] = yaml.safe_load(config.read_text())
    return scenario


def _print(pod: Pod, result: dict[str, Any]) -> None:
    outcome = result["outcome"]
    print(f"Pod {pod.metadata.namespace}/{pod.metadata.name}: {outcome}")
    if result.get("message"):
        print(f"  {result['message']}")
    pre = result.get("prefilter", {})
    if pre.get("code") not in (None, "Success"):
        print(f"  PreFilter, {pre['plugin']}: {'; '.join(pre['reasons'])}")
    if result.get("best"):
        print(f"  Best: {', '.join(result['best'])}")
    if result.get("nominatedNodeUsed"):
        print(f"  Nominated node: {result['nominatedNodeUsed']}")
    print()
    if result.get("filter"):
        print("\n".join(_nodes_table(result)))
    if result.get("preemption"):
        print()
        _print_preemption(result["preemption"])


def _nodes_table(result: dict[str, Any]) -> list[str]:
    scores = result.get("score") or {}
    plugins = sorted({name for node in scores.values() for name in node["plugins"]})
    shown = [p for p in plugins if any(n["plugins"].get(p) for n in scores.values())]
    rows = [["NODE", "VERDICT", "PLUGIN", "REASONS", *(["TOTAL", *shown] if shown else [])]]
    for node in sorted(result["filter"], key=lambda n: (-scores.get(n, {}).get("total", -1), n)):
        status = result["filter"][node]
        row = [node, status["code"], status["plugin"] or "-", "; ".join(status["reasons"]) or "-"]
        if shown:
            score = scores.get(node)
            row.append(str(score["total"]) if score else "-")
            row += [str(score["plugins"].get(p, 0)) if score else "-" for p in shown]
        rows.append(row)
    return aligned(rows)


def _print_preemption(preemption: dict[str, Any]) -> None:
    if not preemption.get("eligible"):
        print(f"Preemption: {preemption.get('reason', 'not eligible')}")
        return
    selected = preemption.get("selected")
    if not selected:
        print("Preemption: no node would be freed by it")
        return
    print(f"Preemption: {selected}, evicting {', '.join(preemption['victims'])}")
    for node, candidate in sorted(preemption.get("candidates", {}).items()):
        if node != selected:
            violations = candidate.get("pdbViolations", 0)
            extra = f" ({violations} budget violations)" if violations else ""
            print(f"  or {node}, evicting {', '.join(candidate['victims'])}{extra}")
