"""``sched simulate``: show how pods would be scheduled, without changing anything."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, Any

import typer

from podsched.api.kinds import kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, PersistentVolumeClaim, Pod, StorageClass, key_of
from podsched.ask.case_lines import Broken, described, results_of
from podsched.ask.queue_cases.running import run_lines as run_queue_cases
from podsched.ask.selector_cases import selector_results
from podsched.ask.simulation import open_scenarios, simulate_lines
from podsched.ask.whatif.claims import make_volume_claims
from podsched.cache.objects import ClusterState
from podsched.cli.bundle import decided, repeated
from podsched.cli.cluster_source import ClusterSource, admit, without_pods
from podsched.cli.config import read_source
from podsched.cli.errors import FAILED, USAGE, fail, fail_on
from podsched.cli.flags import takes_flags
from podsched.cli.manifests import MAX_BYTES
from podsched.cli.options import Form
from podsched.cli.output import say
from podsched.cli.policy import ConfigSource
from podsched.cli.printers import aligned, terminal_width, wrapped
from podsched.cli.quota_changes import quota_changes
from podsched.cli.what_if import Changes, counts_quota, what_if
from podsched.cli.workloads import MAX_PODS, Workload, read_workloads
from podsched.config.flags import flag
from podsched.framework.plugin import PluginError
from podsched.lib.counted import counted
from podsched.registry import factories, run_allocation_case
from podsched.telemetry.log_output import configure_logging

#: Seconds after which the search for devices is aborted: the default of filterTimeout.
SECONDS_PER_CASE = 10.0
Results = Callable[[Iterator[bytes]], Iterator[dict[str, Any]]]


class Fault(StrEnum):
    """The faults of Kubernetes v1.36.2 that allocations can reproduce: all, or one of them."""

    ALL = "1.36.2"
    LEAK = "leak"
    DISTINCT = "distinct"
    POOL_NAME = "pool-name"


@dataclass(frozen=True, slots=True)
class _Flags:
    filename: list[str] | None = flag(None, "FILE|DIR|-", names="--filename -f")
    """Manifests of the cluster: nodes, pods and so on; repeatable."""
    pod: list[str] | None = flag(None, "FILE|-")
    """Manifest of pods to schedule, or of workloads that create pods (Deployment, ReplicaSet,
    StatefulSet, Job); repeatable."""
    replicas: int | None = flag(None, "N", min=1, max=MAX_PODS)
    """Schedule N copies of each pod."""
    add_node: list[str] | None = flag(None, "FILE|NODE[:COUNT]")
    """Add nodes from a manifest, or like an existing one; repeatable."""
    remove_node: list[str] | None = flag(None, "NODE")
    """Remove a node with its pods; repeatable."""
    drain: list[str] | None = flag(None, "NODE")
    """Drain a node as budgets permit; pods with a controller are replaced elsewhere; repeatable."""
    pending: bool = flag(False)
    """Also schedule the cluster's pending pods, before those of --pod."""
    quota: list[str] | None = flag(None, "QUEUE/RESOURCE=+N")
    """Change the quota of a ClusterQueue or Cohort by +N or -N, or to =N, and show which waiting
    units are admitted then; QUEUE/FLAVOR/RESOURCE where several flavors have it; repeatable."""
    scenarios: Path | None = flag(None, "FILE")
    """Scenarios, one JSON object per line, plain or gzipped."""
    allocations: Path | None = flag(None, "FILE")
    """Cases of claims and devices, one JSON object per line, plain or gzipped."""
    faults: list[Fault] | None = flag(None)
    """With --allocations: reproduce the faults of Kubernetes 1.36.2, or one of them; repeatable."""
    cel: Path | None = flag(None, "FILE")
    """CEL selectors of devices to evaluate, one JSON object per line, plain or gzipped."""
    queue_cases: Path | None = flag(None, "FILE")
    """Cases of job queues with quota, one JSON object per line, plain or gzipped."""
    bundle: Path | None = flag(None, "FILE")
    """Repeat the decision in a file of sched explain --bundle."""
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration file."""
    output: Form = flag("table", names="--output -o")
    """Output format; json has the format of --scenarios for one pod in no queue and no group."""

    def files(self) -> dict[str, Path]:
        """Return the files that contain complete questions, by their flags."""
        files = {
            "--bundle": self.bundle,
            "--scenarios": self.scenarios,
            "--allocations": self.allocations,
            "--cel": self.cel,
            "--queue-cases": self.queue_cases,
        }
        return {name: file for name, file in files.items() if file is not None}


@takes_flags
def simulate(source: ConfigSource, given: _Flags, cluster: ClusterSource) -> None:
    """Show how pods would be scheduled, without changing anything.

    For one pod, prints the filter result and scores of every node, the chosen node, and the
    preemption if no node fits. Several pods are placed one after another; prints their nodes, the
    victims, and why the rest does not fit. If one of them is in a queue, or one that has to move,
    all are placed as the leader would do it: as quota permits, after what waits already.

    --add-node, --remove-node and --drain change the cluster first. Without --pod, the pending pods
    are scheduled on added nodes. --quota shows which units that wait in queues are admitted with
    another quota, which are preempted, and why the rest waits. The cluster is given by -f, --live
    or --kubeconfig, to which -f adds.

    With --scenarios, each line of the file is a scenario; each result is a line of JSON. With
    --allocations, each line is a node with devices and claims; each result has the devices that the
    claims get. With --cel, each line is a selector and a device; each result says whether they
    match. With --queue-cases, each line is a decision about job queues; each result says whether it
    is as expected. With --bundle, the decision in the file is repeated.

    Ends with 0 if all pods fit and none is lost or blocked, with 1 otherwise, and with 2 if a
    plugin failed. For a file of lines, ends with 0 if each could be read and run, with 1 otherwise.
    """
    # A plugin's traceback goes to standard error, as the results go to standard output.
    configure_logging("text", "warning")
    source = replace(source, config=given.config, server=cluster.server)
    cluster = replace(cluster, files=given.filename or ())
    changes = Changes(
        given.add_node or (), given.remove_node or (), given.drain or (), given.pending
    )
    if given.faults and given.allocations is None:
        fail("--faults is for --allocations", USAGE)
    if files := given.files():
        if len(files) > 1:
            fail(f"use only one of {' and '.join(files)}", USAGE)
        ((name, file),) = files.items()
        others = given.pod or given.replicas or given.quota
        if cluster.given or source.given or changes.given or others:
            fail(f"{name} cannot be combined with a cluster, pods or a configuration", USAGE)
        raise typer.Exit(_from_file(name, file, given))
    _check_question(given, changes, cluster)
    objects = cluster.objects()
    workload = read_workloads(given.pod, given.replicas) if given.pod else Workload([], [])
    as_json = given.output == "json"
    if given.quota:
        code = quota_changes(objects, workload, given.quota, source, as_json=as_json)
    elif (
        len(workload.pods) != 1
        or workload.others
        or given.replicas
        or changes.given
        or workload.pods[0].spec.HasField("scheduling_group")
        or counts_quota(objects, workload.pods)
    ):
        code = what_if(objects, workload, changes, source, as_json=as_json)
    else:
        code = _one_pod(objects, workload.pods[0], source, given.output)
    if code:
        raise typer.Exit(code)


def _check_question(given: _Flags, changes: Changes, cluster: ClusterSource) -> None:
    """Exit if the flags name no pods and no changes, contradict each other, or name no cluster."""
    if given.quota and changes.given:
        fail("--quota cannot be combined with --add-node, --remove-node, --drain, --pending", USAGE)
    if not given.pod and not changes.given and not given.quota:
        fail("no pod to schedule: use --pod FILE, or --scenarios FILE", USAGE)
    if not cluster.given:
        fail("no cluster: use -f FILE, --live or --kubeconfig FILE", USAGE)


def _one_pod(objects: list[AnyObject], wanted: Pod, source: ConfigSource, output: Form) -> int:
    """Show a single pod's decision in detail; return the exit code."""
    objects = without_pods(objects, [wanted])
    result = decided(_scenario(objects, wanted, source))
    if output == "json":
        print(json.dumps(result, indent=2, sort_keys=True))
    else:
        _print(wanted, result)
    return _exit_code(result)


def _from_file(name: str, file: Path, given: _Flags) -> int:
    """Answer the questions in the file of a flag; return the exit code."""
    if name == "--bundle":
        return _repeat(file, given.output)
    results: dict[str, Results] = {
        "--scenarios": lambda lines: simulate_lines(lines, factories()),
        "--allocations": partial(allocation_results, faults=given.faults or ()),
        "--cel": selector_results,
        "--queue-cases": run_queue_cases,
    }
    print_results(file, results[name])
    return 0


def _repeat(bundle: Path, output: Form) -> int:
    """Repeat a bundle's decision, and print whether it is the same; return the exit code."""
    pod, result, comparison = repeated(bundle)
    if output == "json":
        print(json.dumps(result, indent=2, sort_keys=True))
        say(comparison, error=True)
    else:
        _print(pod, result)
        say()
        say(comparison)
    return _exit_code(result)


def _exit_code(result: dict[str, Any]) -> int:
    """Return 0 if the pod fits, 1 if it does not, 2 if a plugin failed."""
    if result["outcome"] == "Error" or "scoreError" in result:
        return 2
    return 0 if result["outcome"] == "Schedulable" else FAILED


def _scenario(objects: Sequence[AnyObject], pod: Pod, source: ConfigSource) -> dict[str, Any]:
    """Return the scenario with the objects as an API server would return them; exit on errors."""
    admit(objects, [pod])
    scenario: dict[str, Any] = {
        "id": key_of(pod),
        "objects": [to_manifest(obj) for obj in (*objects, *_volume_claims(objects, pod))],
        "pod": to_manifest(pod),
    }
    if source.given:
        scenario["config"] = read_source(source)[1]
    return scenario


def _volume_claims(objects: Sequence[AnyObject], pod: Pod) -> Sequence[PersistentVolumeClaim]:
    """Return the missing claims of a pod's ephemeral volumes."""
    cluster = ClusterState()
    for item in objects:
        if isinstance(item, PersistentVolumeClaim | StorageClass):
            cluster.put(kind_of(item).name, item)
    return make_volume_claims(pod, cluster)


def _print(pod: Pod, result: dict[str, Any]) -> None:
    outcome = "Error" if "scoreError" in result else result["outcome"]
    say(f"Pod {key_of(pod)}: {outcome}")
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
    if result.get("filter"):
        say("", *_nodes_table(result))
    if result.get("preemption"):
        say()
        _print_preemption(result["preemption"])
    if "changes" in result:
        say()
        say(*_changes(result["changes"]))


def _changes(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the changes that would make the pod fit, one a line."""
    if not changes:
        return ["No single change that was tried would make the pod fit."]
    rows = [["FITS ON", "IF YOU"]]
    for change in changes:
        doubt = " (perhaps less is enough)" if change.get("smallerPossible") else ""
        rows.append([counted(change["nodes"], "node"), change["description"] + doubt])
    return ["What would make it fit, the least of each kind:", *wrapped(rows)]


def _nodes_table(result: dict[str, Any]) -> list[str]:
    """Return the table of nodes, the best first; with letters if plugin names do not fit."""
    scores = result.get("score") or {}
    # JSON names DynamicResources as kube-scheduler does, though it scores few pods.
    named = {
        name
        for node in scores.values()
        for name, score in node["plugins"].items()
        if score or name != "DynamicResources"
    }
    plugins = sorted(named)
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
            extra = f" ({counted(violations, 'PDB violation')})" if violations else ""
            say(f"  alternative: {node}, evicting {', '.join(candidate['victims'])}{extra}")


def allocation_results(lines: Iterator[bytes], faults: Sequence[Fault]) -> Iterator[dict[str, Any]]:
    """Yield the devices that the claims of each case get."""
    every, *single = Fault
    kept = single if every in faults else faults

    def run(case: Mapping[str, Any]) -> dict[str, Any]:
        end = time.monotonic() + SECONDS_PER_CASE
        return run_allocation_case(case, kept, lambda: time.monotonic() > end)

    def broken(error: Exception) -> dict[str, Any]:
        return {"outcome": "error", "allocations": None} | described(error)

    return results_of(lines, run, key="name", broken=broken)


def print_results(path: Path, results: Results) -> None:
    """Print the results of a file's cases.

    Exits if the file cannot be read, or has no case, and at its end if a case was broken.
    """
    cases = broken = 0
    with fail_on(PluginError), ExitStack() as stack:
        with _reading(path):
            lines = stack.enter_context(open_scenarios(path))
        for result in results(_bounded(lines, path)):
            cases += 1
            broken += isinstance(result, Broken)
            print(json.dumps(result, separators=(",", ":"), sort_keys=True))
    sys.stdout.flush()
    if not cases:
        fail(f"{path}: no case in it; each line is one JSON document")
    if broken:
        fail(f"{path}: {broken} of {counted(cases, 'case')} cannot be read or run")


def _bounded(lines: IO[bytes], path: Path) -> Iterator[bytes]:
    while True:
        with _reading(path):
            line = lines.readline(MAX_BYTES + 1)
        if not line:
            return
        if len(line) > MAX_BYTES:
            fail(f"{path}: a line of more than {MAX_BYTES >> 20} MiB")
        yield line


def _reading(path: Path) -> AbstractContextManager[None]:
    """Exit if the block cannot read the file; what is printed in between may fail, too."""
    return fail_on(OSError, EOFError, zlib.error, about=path, code=USAGE)
