"""The decision for a pod on a cluster given as manifests: the core of ``sched simulate``.

A scenario is a cluster (manifests), a pending pod and optionally a KubeSchedulerConfiguration. The
result has the form of ``expected`` in the conformance cases: for each node the filter's verdict and
the weighted scores, the best nodes, the message, and what preemption would do.

Non-goals: defaulting and admission of the objects, extenders.
"""

from __future__ import annotations

import gzip
import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from google.protobuf.json_format import MessageToDict

from podsched.api.manifest import from_manifest
from podsched.ask.explain.changes.question import Question
from podsched.ask.explain.changes.search import find_changes
from podsched.cache.cache import Cache
from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.config.profiles import ALL
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.evaluation.filtering import ProfileFilters, rejected_everywhere
from podsched.decide.evaluation.pre_filtering import run_pre_filter
from podsched.decide.evaluation.scoring import run_pre_score, run_score
from podsched.decide.reference import filter_nodes
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.decide.runtime.user_plugins import user_plugin_specs
from podsched.framework.filter_outcome import FilterOutcome
from podsched.framework.plugin import CycleState, PluginFactory
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import ExplainsPreemption, PreemptionReport
from podsched.framework.status import Code, Status
from podsched.framework.verdicts import Rows
from podsched.lib.files import open_file
from podsched.v1 import objects_pb2 as v1

#: The outcome of a pod that a PreEnqueue plugin keeps out of the queue.
GATED = "Gated"
DYNAMIC_RESOURCES = "DynamicResources"


class BadScenario(ValueError):
    """The scenario lacks a part, or a part is of the wrong kind: its author is at fault."""


def simulate(
    scenario: Mapping[str, Any],
    plugins: Mapping[str, PluginFactory],
    *,
    changes: bool = False,
) -> dict[str, Any]:
    """Return the decision for a scenario ``{"id", "config"?, "objects", "pod"}``.

    It has the form of ``expected`` in the conformance cases; a gated pod has its "gate" and no
    verdicts. ``plugins``: those that may be used. With ``changes``, a pod that does not fit gets
    the smallest ones with which it would, as "changes". Raises ManifestError, ConfigError,
    QuantityError or BadScenario for a broken scenario, PluginError for a broken plugin.
    """
    cache, pod = _read(scenario)
    cluster = cache.cluster
    config = _config(scenario, plugins)
    profile = config.profile(pod.cls.scheduler_name) or config.profiles[0]
    runtime = ProfileRuntime(profile, plugins, SimulatedHandle(cluster))
    gate = runtime.gate(pod)
    decided = simulate_pod(runtime, cluster, pod) if gate is None else _gated(*gate)
    result = {"id": scenario.get("id", "")} | decided
    silent = dict.fromkeys(_silent_plugins(config, config.profiles.index(profile)), 0)
    for node in result.get("score", {}).values():
        node["plugins"] |= silent
    if changes and result["outcome"] in ("Unschedulable", GATED):
        found = find_changes(Question(runtime, cache, pod))
        result["changes"] = [MessageToDict(change.to_message(pod.pod)) for change in found]
    return result


def simulate_lines(
    lines: Iterable[str | bytes], plugins: Mapping[str, PluginFactory]
) -> Iterator[dict[str, Any]]:
    """Yield one result per line of scenarios; ``{"id", "error"}`` for a broken one.

    A line may be a scenario or an object that holds one under "scenario".
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        identity = f"line {number}"
        try:
            document = json.loads(line)
            scenario = document.get("scenario", document)
            identity = scenario.get("id", identity)
            yield simulate(scenario, plugins)
        # Whatever a scenario holds may be wrong in some way; none may end the run.
        except Exception as error:
            yield {"id": identity, "error": f"{type(error).__name__}: {error}"}


@contextmanager
def open_scenarios(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of scenarios, one a line; it is decompressed when its name ends in ``.gz``."""
    with open_file(path) as file:
        if path.suffix == ".gz":
            with gzip.open(file, "rb") as lines:
                yield lines  # type: ignore[misc]
        else:
            yield file


def _config(
    scenario: Mapping[str, Any], plugins: Mapping[str, PluginFactory]
) -> SchedulerConfiguration:
    written = scenario.get("config")
    if not written:
        return default_config()
    if not isinstance(written, dict):
        raise BadScenario(f"config: {reprlib.repr(written)} is no object")
    return load_config(written, known_plugins=user_plugin_specs(plugins))


def _silent_plugins(config: SchedulerConfiguration, profile: int) -> list[str]:
    """Return DynamicResources where it is enabled, else nothing.

    podsched does not run it, but kube-scheduler lists its score: 0 for a pod without resource
    claims, which are the only pods there are here.
    """
    plugins = config.effective.profiles[profile].plugins
    sets = (plugins.score, plugins.multi_point)
    disabled = {ref.name for plugin_set in sets for ref in plugin_set.disabled}
    return [] if disabled & {ALL, DYNAMIC_RESOURCES} else [DYNAMIC_RESOURCES]


def _read(scenario: Mapping[str, Any]) -> tuple[Cache, PodInfo]:
    if not isinstance(scenario.get("objects"), list) or not isinstance(scenario.get("pod"), dict):
        raise BadScenario('a scenario has "objects" (a list) and "pod" (a manifest)')
    cache = Cache()
    pods: list[v1.Pod] = []
    for number, manifest in enumerate(scenario["objects"]):
        if not isinstance(manifest, dict):
            raise BadScenario(f"objects[{number}]: {reprlib.repr(manifest)} is no manifest")
        message: Any = from_manifest(manifest).message
        if isinstance(message, v1.Pod):
            message.metadata.uid = message.metadata.uid or f"uid-{number}"
            pods.append(message)
        else:
            cache.apply(manifest["kind"], None, message)
    for running in pods:
        cache.apply("Pod", None, running)
    pending: Any = from_manifest({"kind": "Pod", "apiVersion": "v1", **scenario["pod"]}).message
    if not isinstance(pending, v1.Pod):
        raise BadScenario('"pod" is not a Pod')
    pending.metadata.uid = pending.metadata.uid or "uid-pending"
    return cache, make_pod_info(pending, cache.classes)


@dataclass(slots=True)
class _Cycle:
    """One pod's cycle: what its steps share."""

    runtime: ProfileRuntime
    cluster: ClusterState
    pod: PodInfo
    state: CycleState = field(default_factory=CycleState)

    @property
    def rows(self) -> Rows:
        """All nodes, in name order."""
        names = self.cluster.columns.names
        rows = self.cluster.columns.live_rows.tolist()
        return np.array(sorted(rows, key=lambda row: names[row]), dtype=np.intp)


def _gated(plugin: str, status: Status) -> dict[str, Any]:
    """Return what becomes of a pod that is not even tried."""
    gate = {"plugin": plugin, "reasons": sorted(status.reasons)}
    return {"outcome": GATED, "message": f"{plugin}: {status.message}", "gate": gate}


def simulate_pod(runtime: ProfileRuntime, cluster: ClusterState, pod: PodInfo) -> dict[str, Any]:
    """Return the decision for a pending pod, as plain data; nothing is changed."""
    cycle = _Cycle(runtime, cluster, pod)
    try:
        pre = run_pre_filter(runtime, cycle.state, pod, cluster)
    except PluginFailure as failure:
        return {"outcome": "Error", "prefilter": _status(failure.status)}
    result: dict[str, Any] = {"prefilter": _status(pre.status)}
    if pre.node_names is not None:
        result["prefilter"]["nodeNames"] = sorted(pre.node_names)
    if not pre.status.ok:
        diagnosis = Diagnosis(len(cycle.rows), pre)
        outcome = rejected_everywhere(cycle.rows, pre.status)
        return _unschedulable(cycle, result, diagnosis, outcome)
    outcome = filter_nodes(runtime, cycle.state, pod, pre, cycle.rows, cluster)
    statuses = [outcome.status(index) for index in range(len(outcome.rows))]
    names = [cluster.columns.names[row] for row in outcome.rows.tolist()]
    result["filter"] = {n: _status(s) for n, s in zip(names, statuses, strict=True)}
    feasible = outcome.rows[[status.ok for status in statuses]]
    if len(feasible):
        result["feasible"] = [cluster.columns.names[row] for row in feasible.tolist()]
    if any(status.code is Code.ERROR for status in statuses):
        return {"outcome": "Error", **result}
    if not len(feasible):
        diagnosis = Diagnosis(len(outcome.rows), pre, outcome)
        return _unschedulable(cycle, result, diagnosis, outcome)
    return {"outcome": "Schedulable", **result, **_choose(cycle, feasible)}


def _status(status: Status) -> dict[str, Any]:
    plugin = "" if status.ok else status.plugin
    return {"code": status.code.text, "plugin": plugin, "reasons": sorted(status.reasons)}


def _choose(cycle: _Cycle, feasible: Rows) -> dict[str, Any]:
    names = [cycle.cluster.columns.names[row] for row in feasible.tolist()]
    result: dict[str, Any] = {}
    if cycle.pod.nominated_node_name in names:
        result["nominatedNodeUsed"] = cycle.pod.nominated_node_name
    nodes = cycle.cluster.columns
    try:
        run_pre_score(cycle.runtime, cycle.state, cycle.pod, cycle.cluster, feasible)
        scores = run_score(cycle.runtime, cycle.state, cycle.pod, nodes, feasible)
    except PluginFailure as failure:
        return result | {"scoreError": str(failure)}
    result["score"] = {
        name: {
            "plugins": {plugin: int(of[index]) for plugin, of in scores.plugins.items()},
            "total": int(scores.total[index]),
        }
        for index, name in enumerate(names)
    }
    best = scores.total.max()
    result["best"] = [n for n, t in zip(names, scores.total.tolist(), strict=True) if t == best]
    return result


def _unschedulable(
    cycle: _Cycle, result: dict[str, Any], diagnosis: Diagnosis, outcome: FilterOutcome
) -> dict[str, Any]:
    result = {"outcome": "Unschedulable", **result, "message": diagnosis.fit_error()}
    for named in cycle.runtime.post_filter:
        if isinstance(named.plugin, ExplainsPreemption):
            runner = ProfileFilters(cycle.runtime, cycle.cluster, outcome)
            report = named.plugin.explain_preemption(cycle.state, cycle.pod, cycle.cluster, runner)
            result["preemption"] = _preemption(report)
    return result


def _preemption(report: PreemptionReport) -> dict[str, Any]:
    """Write a report in the form of the recorded results: of equal nodes the first by name."""
    selected = report.best[0] if report.best else ""
    victims = report.candidates[selected].pods if selected else ()
    result: dict[str, Any] = {
        "eligible": report.eligible.ok,
        "reason": report.eligible.message,
        "candidates": {
            name: {
                "victims": [pod.key for pod in found.pods],
                "pdbViolations": found.num_pdb_violations,
            }
            for name, found in report.candidates.items()
        },
        "rejected": {name: _status(status) for name, status in report.rejected.items()},
        "selected": selected,
        "victims": [pod.key for pod in victims],
    }
    if len(report.best) > 1:
        result["tied"] = list(report.best)
    return result
