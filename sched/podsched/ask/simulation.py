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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from google.protobuf.json_format import MessageToDict

from podsched.api.manifest import from_manifest
from podsched.ask.case_lines import results_of
from podsched.ask.explain.changes.question import Question
from podsched.ask.explain.changes.search import find_changes
from podsched.ask.explain.fitting import Choosing, Fitting, fit
from podsched.ask.whatif.claims import make_claims
from podsched.cache.cache import Cache
from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.config.profiles import ALL
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.decide.runtime.user_plugins import user_plugin_specs
from podsched.framework.plugin import PluginFactory
from podsched.framework.pod_groups import labels_name_groups
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import ExplainsPreemption, PreemptionReport
from podsched.framework.status import Code, Status
from podsched.lib.files import open_file
from podsched.v1 import objects_pb2 as v1

#: The outcome of a pod that a PreEnqueue plugin keeps out of the queue.
GATED = "Gated"
_DYNAMIC_RESOURCES = "DynamicResources"


class BadScenario(ValueError):
    """The scenario lacks a part, or a part has the wrong type."""


def simulate(
    scenario: Mapping[str, Any], plugins: Mapping[str, PluginFactory], *, changes: bool = False
) -> dict[str, Any]:
    """Return the decision for a scenario ``{"id", "config"?, "objects", "pod"}``.

    It has the form of ``expected`` in the conformance cases; a gated pod has its "gate" and no
    verdicts. ``plugins``: all plugins that may be used. With ``changes``, a pod that does not fit
    gets the smallest changes with which it would fit. Raises ManifestError, ConfigError,
    QuantityError or BadScenario for a broken scenario, PluginError for a broken plugin.
    """
    config = _config(scenario, plugins)
    cache = Cache()
    cluster = cache.cluster
    runtimes = [ProfileRuntime(one, plugins, SimulatedHandle(cluster)) for one in config.profiles]
    cache.classes.label_groups = any(labels_name_groups(one.plugins.values()) for one in runtimes)
    pod = _read(scenario, cache)
    profile = config.profile(pod.cls.scheduler_name) or config.profiles[0]
    number = config.profiles.index(profile)
    runtime = runtimes[number]
    gate = runtime.gate(pod)
    decided = simulate_pod(runtime, cluster, pod) if gate is None else _gated(*gate)
    result = {"id": scenario.get("id", "")} | decided
    unasked = dict.fromkeys(_unasked_plugins(config, number), 0)
    for node in result.get("score", {}).values():
        node["plugins"] = unasked | node["plugins"]
    if changes and result["outcome"] in ("Unschedulable", GATED):
        result["changes"] = list(map(MessageToDict, find_changes(Question(runtime, cache, pod))))
    return result


def simulate_lines(
    lines: Iterable[str | bytes], plugins: Mapping[str, PluginFactory]
) -> Iterator[dict[str, Any]]:
    """Return one result per line of scenarios; ``{"id", "error"}`` for a broken one.

    A line may be a scenario or an object that holds one under "scenario".
    """
    return results_of(
        lines, lambda scenario: simulate(scenario, plugins), key="id", read=_read_scenario
    )


def _read_scenario(line: str | bytes) -> Any:
    document = json.loads(line)
    return document.get("scenario", document)


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
        raise BadScenario(f"config: {reprlib.repr(written)} is not an object")
    return load_config(written, known_plugins=user_plugin_specs(plugins))


def _unasked_plugins(config: SchedulerConfiguration, profile: int) -> list[str]:
    """Return the enabled Score plugins that podsched does not call for this kind of pod.

    That is DynamicResources: for a pod that it does not score, kube-scheduler lists a score of 0.
    """
    plugins = config.effective.profiles[profile].plugins
    sets = (plugins.score, plugins.multi_point)
    disabled = {ref.name for plugin_set in sets for ref in plugin_set.disabled}
    return [] if disabled & {ALL, _DYNAMIC_RESOURCES} else [_DYNAMIC_RESOURCES]


def _read(scenario: Mapping[str, Any], cache: Cache) -> PodInfo:
    """Put a scenario's objects into the cache, and return its pod."""
    if not isinstance(scenario.get("objects"), list) or not isinstance(scenario.get("pod"), dict):
        raise BadScenario('a scenario has "objects" (a list) and "pod" (a manifest)')
    pods: list[v1.Pod] = []
    for number, manifest in enumerate(scenario["objects"]):
        if not isinstance(manifest, dict):
            raise BadScenario(f"objects[{number}]: {reprlib.repr(manifest)} is not a manifest")
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
    pending.status.ClearField("phase")  # It is decided on even if it has ended.
    for claim in make_claims(pending, cache.cluster):
        cache.apply("ResourceClaim", None, claim)
    info = make_pod_info(pending, cache.classes)
    if info.group and not info.node_name and info.key not in cache.cluster.pods:
        cache.apply("Pod", None, pending)  # A group counts its members.
        info = cache.cluster.pods[info.key]
    elif not info.node_name:
        cache.cluster.nominator.update(None, info)
    return info


def _gated(plugin: str, status: Status) -> dict[str, Any]:
    """Return the result for a gated pod, which is not tried."""
    gate = {"plugin": plugin, "reasons": sorted(status.reasons)}
    return {"outcome": GATED, "message": f"{plugin}: {status.message}", "gate": gate}


def simulate_pod(runtime: ProfileRuntime, cluster: ClusterState, pod: PodInfo) -> dict[str, Any]:
    """Return the decision for a pending pod as plain data, by node name; changes nothing."""
    try:
        fitting = fit(runtime, cluster, pod)
    except PluginFailure as failure:
        return {"outcome": "Error", "prefilter": _status(failure.status)}
    pre, outcome = fitting.pre, fitting.outcome
    result: dict[str, Any] = {"prefilter": _status(pre.status)}
    if pre.node_names is not None:
        result["prefilter"]["nodeNames"] = sorted(pre.node_names)
    if not pre.status.ok:
        return _unschedulable(fitting, result)
    names = [cluster.columns.names[row] for row in outcome.rows.tolist()]
    statuses = dict(sorted((name, outcome.status(at)) for at, name in enumerate(names)))
    result["filter"] = {name: _status(status) for name, status in statuses.items()}
    feasible = [name for name, status in statuses.items() if status.ok]
    if feasible:
        result["feasible"] = feasible
    if any(status.code is Code.ERROR for status in statuses.values()):
        return {"outcome": "Error", **result}
    if not feasible:
        return _unschedulable(fitting, result)
    return {"outcome": "Schedulable", **result, **_choose(fitting, feasible)}


def _status(status: Status) -> dict[str, Any]:
    plugin = "" if status.ok else status.plugin
    return {"code": status.code.text, "plugin": plugin, "reasons": sorted(status.reasons)}


def _choose(fitting: Fitting, names: Sequence[str]) -> dict[str, Any]:
    """Return the scores of the feasible nodes by name, and the best of them."""
    result: dict[str, Any] = {}
    if fitting.pod.nominated_node_name in names:
        result["nominatedNodeUsed"] = fitting.pod.nominated_node_name
    try:
        scores = {node.node: node for node in Choosing(fitting).all()}
    except PluginFailure as failure:
        return result | {"scoreError": str(failure)}
    result["score"] = {
        name: {
            "plugins": {one.plugin: one.score for one in scores[name].plugins},
            "total": scores[name].total,
        }
        for name in names
    }
    best = max(score.total for score in scores.values())
    result["best"] = [name for name in names if scores[name].total == best]
    return result


def _unschedulable(fitting: Fitting, result: dict[str, Any]) -> dict[str, Any]:
    result = {"outcome": "Unschedulable", **result, "message": fitting.diagnosis.fit_error()}
    for named in fitting.runtime.post_filter:
        if isinstance(named.plugin, ExplainsPreemption):
            report = named.plugin.explain_preemption(
                fitting.state, fitting.pod, fitting.cluster, fitting.filters
            )
            result["preemption"] = _preemption(report)
    return result


def _preemption(report: PreemptionReport) -> dict[str, Any]:
    """Return a report in the form of the recorded results; among equal nodes the first by name."""
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
