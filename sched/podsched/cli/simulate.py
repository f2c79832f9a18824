"""``sched simulate``: how a pod would be scheduled, without changing anything."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from podsched.api.defaulting import default_object
from podsched.api.kinds import KINDS
from podsched.api.manifest import ManifestError, to_manifest
from podsched.api.objects import (
    AnyObject,
    LimitRange,
    Pod,
    PodStatus,
    PriorityClass,
    RuntimeClass,
)
from podsched.api.pod_admission import admit_pod
from podsched.api.priorities import PriorityClasses
from podsched.api.quantity import QuantityError
from podsched.api.validation import validate
from podsched.cli.client import Server, with_client
from podsched.cli.config import read_source
from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.kubernetes import access_or_fail, read_cluster
from podsched.cli.manifests import MAX_BYTES, read_known, read_manifests
from podsched.cli.output import say
from podsched.cli.policy import AlgorithmProvider, PolicyConfigMap, PolicyFile, Source
from podsched.cli.printers import aligned, terminal_width, wrapped
from podsched.client.api_client import ApiClient
from podsched.config.errors import ConfigError
from podsched.engine.simulation import (
    DYNAMIC_RESOURCES,
    BadScenario,
    open_scenarios,
    simulate,
    simulate_lines,
)
from podsched.engine.state import WATCHED_KINDS
from podsched.framework.plugin import PluginError
from podsched.telemetry.log_output import configure_logging

#: Kinds that no scheduling decision depends on.
_IRRELEVANT = frozenset({"ConfigMap", "Event", "Lease", "ResourceQuota"})
#: Kinds that are read of a Kubernetes cluster.
_READ = (*(kind for kind in WATCHED_KINDS if kind not in _IRRELEVANT), "PriorityClass")


class Form(StrEnum):
    """Output formats."""

    TABLE = "table"
    JSON = "json"


Filenames = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        help="Manifests of the cluster: nodes, pods and so on; repeatable.",
    ),
]
PodFile = Annotated[
    str, typer.Option("--pod", metavar="FILE|-", help="Manifest of the pod to schedule.")
]
Live = Annotated[
    bool, typer.Option("--live", help="Use the objects of the API server as the cluster.")
]
Scenarios = Annotated[
    Path | None,
    typer.Option(
        "--scenarios", metavar="FILE", help="Scenarios, one JSON object per line, plain or gzipped."
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Use the objects of the Kubernetes cluster of this kubeconfig; it is only read.",
    ),
]
Context = Annotated[
    str,
    typer.Option(metavar="NAME", help="Context of --kubeconfig, in place of the current one."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="KubeSchedulerConfiguration file."),
]
FormOption = Annotated[
    Form,
    typer.Option("--output", "-o", help="Output format; json has the format of --scenarios."),
]


def simulate_command(
    filename: Filenames = None,
    pod: PodFile = "",
    live: Live = False,
    scenarios: Scenarios = None,
    config: ConfigFile = None,
    policy_config_file: PolicyFile = None,
    policy_configmap: PolicyConfigMap = "",
    algorithm_provider: AlgorithmProvider = "",
    output: FormOption = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    server: Server = "",
) -> None:
    """Show how a pod would be scheduled, without changing anything.

    Prints the filter result and scores of every node, the chosen node, and the
    preemption if no node fits. The cluster is given by -f, --live or --kubeconfig,
    to which -f adds. With --scenarios, each line of the file is a scenario, and each
    result a line of JSON.

    Ends with 0 if the pod fits, with 1 if it does not, and with 2 if a plugin failed.
    """
    # A plugin's traceback goes to standard error, as the results go to standard output.
    configure_logging("text", "warning")
    source = Source(config, policy_config_file, policy_configmap, algorithm_provider, server)
    clusters = [bool(filename), live, kubeconfig is not None]
    if scenarios is not None:
        if any(clusters) or pod or source.given:
            fail("--scenarios cannot be combined with a cluster, --pod or a configuration", USAGE)
        _run_scenarios(scenarios)
        return
    if not pod:
        fail("no pod to schedule: use --pod FILE, or --scenarios FILE", USAGE)
    if not any(clusters):
        fail("no cluster: use -f FILE, --live or --kubeconfig FILE", USAGE)
    objects = _running(live, server, kubeconfig, context) + _dumped(filename or ())
    wanted = _only_pod(read_manifests([pod], "default", strict=False))
    # The pod may be in the cluster already; it does not stand in its own way.
    objects = [o for o in objects if not (isinstance(o, Pod) and _key(o) == _key(wanted))]
    scenario = _scenario(objects, wanted, source)
    try:
        result = simulate(scenario)
    except (ManifestError, ConfigError, QuantityError, BadScenario, PluginError) as exc:
        fail(str(exc), FAILED)
    if output is Form.JSON:
        print(json.dumps(result, indent=2, sort_keys=True))
    else:
        _print(wanted, result)
    if code := _exit_code(result):
        raise typer.Exit(code)


def _running(live: bool, server: str, kubeconfig: Path | None, context: str) -> list[AnyObject]:
    """Return the objects of a cluster that runs, none if none is named."""
    if live and kubeconfig is not None:
        fail("--live and --kubeconfig name two clusters: use one of them", USAGE)
    if kubeconfig is not None:
        return read_cluster(access_or_fail(kubeconfig, context=context), _READ)
    return with_client(server, _everything) if live else []


def _exit_code(result: dict[str, Any]) -> int:
    """Return 0 if the pod fits, 1 if it does not, 2 if a plugin failed."""
    if result["outcome"] == "Error" or "scoreError" in result:
        return 2
    return 0 if result["outcome"] == "Schedulable" else FAILED


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def _dumped(filenames: Sequence[str]) -> list[AnyObject]:
    """Return the objects in files; say how many there are of kinds that do not matter."""
    if not filenames:
        return []
    found = read_known(filenames, "default", strict=False)
    if count := len(found.unknown):
        are = "objects" if count > 1 else "object"
        warn(f"skipped {count} {are} of kinds that no scheduling decision depends on")
    return found.objects


def _run_scenarios(path: Path) -> None:
    try:
        with open_scenarios(path) as lines:
            for result in simulate_lines(_bounded(lines, path)):
                print(json.dumps(result, separators=(",", ":"), sort_keys=True))
    except (OSError, EOFError, zlib.error) as exc:
        fail(f"{path}: {getattr(exc, 'strerror', None) or exc}")
    except PluginError as exc:
        fail(str(exc))
    sys.stdout.flush()


def _bounded(lines: IO[bytes], path: Path) -> Iterator[bytes]:
    while line := lines.readline(MAX_BYTES + 1):
        if len(line) > MAX_BYTES:
            fail(f"{path}: a line of more than {MAX_BYTES >> 20} MiB")
        yield line


async def _everything(client: ApiClient) -> list[AnyObject]:
    found: list[AnyObject] = []
    for kind in KINDS.values():
        if kind.name not in _IRRELEVANT:
            found += (await client.list(kind.name)).items
    return found


def _only_pod(objects: Sequence[AnyObject]) -> Pod:
    if len(objects) != 1 or not isinstance(pod := objects[0], Pod):
        fail("--pod: the file must contain exactly one object, a Pod", USAGE)
    return pod


def _scenario(objects: Sequence[AnyObject], pod: Pod, source: Source) -> dict[str, Any]:
    """Return the scenario with the objects as an API server would return them; exit on errors."""
    # One that was read from a server has been admitted there.
    new = not pod.metadata.uid
    problems = _default([*objects, pod], pod)
    if new and (why := _refusal(objects, pod)):
        fail(f'pods "{pod.metadata.name}" is forbidden: {why}')
    problems += validate("Pod", pod)
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        fail(f'Pod "{pod.metadata.name}" is invalid:\n{lines}')
    scenario: dict[str, Any] = {
        "id": f"{pod.metadata.namespace}/{pod.metadata.name}",
        "objects": [to_manifest(obj) for obj in objects],
        "pod": to_manifest(pod),
    }
    if source.given:
        scenario["config"] = read_source(source)[1]
    return scenario


def _refusal(objects: Sequence[AnyObject], pod: Pod) -> str:
    """Apply limit ranges and the RuntimeClass to the pod; return why they forbid it, or ""."""
    runtime_class = pod.spec.runtime_class_name
    ranges = [o for o in objects if isinstance(o, LimitRange)]
    ranges = [o for o in ranges if o.metadata.namespace == pod.metadata.namespace]
    classes = [o for o in objects if isinstance(o, RuntimeClass)]
    named = [o for o in classes if o.metadata.name == runtime_class]
    return admit_pod(
        pod, sorted(ranges, key=lambda o: o.metadata.name), named[0] if named else None
    )


def _default(objects: Sequence[AnyObject], pod: Pod) -> list[Any]:
    """Fill in defaults as an API server does; return what is wrong."""
    classes = PriorityClasses(o for o in objects if isinstance(o, PriorityClass))
    now = time.time()
    problems: list[Any] = []
    for index, obj in enumerate(objects):
        if obj.metadata.uid and obj is not pod:
            continue  # Read from a server, which has defaulted it.
        status = PodStatus()
        if isinstance(obj, Pod):
            status.CopyFrom(obj.status)
        problems += default_object(obj, now=now, uid=f"simulated-{index}", priority_classes=classes)
        if isinstance(obj, Pod):
            # Defaulting resets the status, as for a pod being created; these may be running.
            obj.status.CopyFrom(status)
    return problems


def _print(pod: Pod, result: dict[str, Any]) -> None:
    outcome = "Error" if "scoreError" in result else result["outcome"]
    say(f"Pod {pod.metadata.namespace}/{pod.metadata.name}: {outcome}")
    if result.get("message"):
        say(f"  {result['message']}")
    pre = result.get("prefilter", {})
    if pre.get("code") not in (None, "Success"):
        say(f"  PreFilter, {pre['plugin']}: {'; '.join(pre['reasons'])}")
    if failure := result.get("scoreError"):
        say(f"  {failure}")
    if best := result.get("best"):
        say(f"  Best node{'s' if len(best) > 1 else ''}: {', '.join(best)}")
    if result.get("nominatedNodeUsed"):
        say(f"  Nominated node: {result['nominatedNodeUsed']}")
    say()
    if result.get("filter"):
        say("\n".join(_nodes_table(result)))
    if result.get("preemption"):
        say()
        _print_preemption(result["preemption"])


def _nodes_table(result: dict[str, Any]) -> list[str]:
    """Return the table of nodes, the best first; scores under letters where names do not fit."""
    scores = result.get("score") or {}
    # kube-scheduler's list of scores, which JSON gives, names one that podsched does not run.
    named = {name for node in scores.values() for name in node["plugins"]}
    plugins = sorted(named - {DYNAMIC_RESOURCES})
    nodes = sorted(result["filter"], key=lambda n: (-scores.get(n, {}).get("total", -1), n))
    lines = aligned(_node_rows(result, nodes, plugins, plugins))
    width = terminal_width()
    if width is None or max(map(len, lines)) <= width:
        return lines
    if not plugins:
        return wrapped(_node_rows(result, nodes, [], []))
    letters = [chr(ord("a") + index) for index in range(len(plugins))]
    lines = wrapped(_node_rows(result, nodes, plugins, letters))
    legend = [f"  {letter}  {name}" for letter, name in zip(letters, plugins, strict=True)]
    return [*lines, "", "Scores:", *legend]


def _node_rows(
    result: dict[str, Any], nodes: Sequence[str], plugins: Sequence[str], headings: Sequence[str]
) -> list[list[str]]:
    scores, filtered = result.get("score") or {}, result["filter"]
    rejected = any(status["plugin"] for status in filtered.values())
    rows = [["NODE", "FILTER", *(["TOTAL", *headings] if plugins else [])]]
    rows[0] += ["PLUGIN", "REASONS"] if rejected else []
    for node in nodes:
        status, score = filtered[node], scores.get(node)
        row = [node, status["code"]]
        if plugins:
            row.append(str(score["total"]) if score else "-")
            row += [str(score["plugins"].get(p, 0)) if score else "-" for p in plugins]
        if rejected:
            row += [status["plugin"] or "-", "; ".join(status["reasons"]) or "-"]
        rows.append(row)
    return rows


def _print_preemption(preemption: dict[str, Any]) -> None:
    if not preemption.get("eligible"):
        say(f"Preemption: {preemption.get('reason', 'not eligible')}")
        return
    selected = preemption.get("selected")
    if not selected:
        say("Preemption: no candidate node")
        return
    say(f"Preemption: on {selected}, evicting {', '.join(preemption['victims'])}")
    for node, candidate in sorted(preemption.get("candidates", {}).items()):
        if node != selected:
            violations = candidate.get("pdbViolations", 0)
            extra = f" ({violations} PDB violations)" if violations else ""
            say(f"  alternative: {node}, evicting {', '.join(candidate['victims'])}{extra}")


__all__ = ["simulate_command"]
