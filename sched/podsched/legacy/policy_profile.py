"""Convert a Policy to a KubeSchedulerConfiguration: plugins for its predicates and priorities.

Sources: ``predicates.Ordering``, ``algorithmprovider/defaults`` and ``factory.CreateFromConfig`` of
kube-scheduler v1.16. Predicates run in the order of ``PREDICATES``, whatever the order of the file.
The points of priorities are worth ten scores each, and so are those of extenders, so weights stay
as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podsched.config.errors import ConfigError, ErrorType, FieldError, invalid, not_supported
from podsched.config.extenders import Extender, extender_errors
from podsched.config.kube_scheduler import API_VERSION, KIND
from podsched.config.model import Model, decode, join
from podsched.config.plugins import IN_TREE_PLUGINS, LEGACY_PLUGINS, ExtensionPoint
from podsched.legacy.policy import (
    Policy,
    PredicateArgument,
    PredicatePolicy,
    PriorityArgument,
    PriorityPolicy,
    read_policy,
)

DEFAULT_PROVIDER: Final = "DefaultProvider"
CLUSTER_AUTOSCALER_PROVIDER: Final = "ClusterAutoscalerProvider"
ALGORITHM_PROVIDERS: Final = (DEFAULT_PROVIDER, CLUSTER_AUTOSCALER_PROVIDER)
#: The environment variable that limits volumes per node where a node declares no limit.
MAX_PD_VOLUMES_VARIABLE: Final = "KUBE_MAX_PD_VOLS"
#: Max digits of its number; ``int`` raises an error for more than 4,300.
_MOST_DIGITS: Final = 10

#: Predicate -> plugin, in the order of evaluation. Predicates of the file's own have the place of
#: the plugin that runs for them.
PREDICATES: Final[Mapping[str, str]] = {
    "CheckNodeCondition": "CheckNodeCondition",
    "CheckNodeUnschedulable": "NodeUnschedulable",
    "GeneralPredicates": "GeneralPredicates",
    "HostName": "NodeName",
    "PodFitsHostPorts": "NodePorts",
    "MatchNodeSelector": "NodeAffinity",
    "PodFitsResources": "NodeResourcesFit",
    "NoDiskConflict": "NoDiskConflict",
    "PodToleratesNodeTaints": "TaintToleration",
    "PodToleratesNodeNoExecuteTaints": "PodToleratesNodeNoExecuteTaints",
    "CheckNodeLabelPresence": "CheckNodeLabelPresence",
    "CheckServiceAffinity": "CheckServiceAffinity",
    "MaxEBSVolumeCount": "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount": "MaxGCEPDVolumeCount",
    "MaxCSIVolumeCountPred": "NodeVolumeLimits",
    "MaxAzureDiskVolumeCount": "MaxAzureDiskVolumeCount",
    "MaxCinderVolumeCount": "MaxCinderVolumeCount",
    "CheckVolumeBinding": "VolumeBinding",
    "NoVolumeZoneConflict": "VolumeZone",
    "CheckNodeMemoryPressure": "CheckNodeMemoryPressure",
    "CheckNodePIDPressure": "CheckNodePIDPressure",
    "CheckNodeDiskPressure": "CheckNodeDiskPressure",
    "EvenPodsSpread": "PodTopologySpread",
    "MatchInterPodAffinity": "InterPodAffinity",
}
#: Other names of predicates.
ALIASES: Final[Mapping[str, str]] = {"PodFitsPorts": "PodFitsHostPorts"}
#: They run whatever the file says.
MANDATORY: Final = ("CheckNodeUnschedulable", "PodToleratesNodeTaints")
#: They need an argument, which gives them their labels.
WITH_ARGUMENT: Final = frozenset(
    {"CheckNodeLabelPresence", "CheckServiceAffinity", "ServiceAntiAffinity", "NodeLabelPriority"}
)
DEFAULT_PREDICATES: Final = (
    "CheckNodeUnschedulable",
    "GeneralPredicates",
    "NoDiskConflict",
    "PodToleratesNodeTaints",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxCSIVolumeCountPred",
    "MaxAzureDiskVolumeCount",
    "CheckVolumeBinding",
    "NoVolumeZoneConflict",
    "EvenPodsSpread",
    "MatchInterPodAffinity",
)

#: Priorities that need no argument, each a plugin of its name.
PRIORITIES: Final = tuple(
    spec.name
    for spec in LEGACY_PLUGINS
    if ExtensionPoint.SCORE in spec.points and spec.name not in WITH_ARGUMENT
)
DEFAULT_PRIORITIES: Final[Mapping[str, int]] = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodePreferAvoidPodsPriority": 10000,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 1,
}
#: Argument of a predicate or priority -> the plugin that it configures.
ARGUMENTS: Final[Mapping[str, str]] = {
    "labels_presence": "CheckNodeLabelPresence",
    "service_affinity": "CheckServiceAffinity",
    "service_anti_affinity": "ServiceAntiAffinity",
    "label_preference": "NodeLabelPriority",
    "requested_to_capacity_ratio_arguments": "RequestedToCapacityRatioPriority",
}

_ALWAYS: Final = ("SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder")
_CHECK_ALL: Final = "AlwaysCheckAllPredicates"
_VOLUME_COUNTS: Final = frozenset(
    {"MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxAzureDiskVolumeCount", "MaxCinderVolumeCount"}
)
_PLACES: Final = {plugin: place for place, plugin in enumerate(PREDICATES.values())}


@dataclass(frozen=True, slots=True)
class _Enabled:
    """A plugin to run: what it is, under which name, with which arguments and weight."""

    plugin: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    weight: int = 0

    def config(self) -> dict[str, Any]:
        """Return its pluginConfig."""
        kind = {"kind": f"{self.plugin}Args", "apiVersion": API_VERSION}
        return {"name": self.name, "args": {**kind, **self.args}}


def policy_configuration(
    document: Mapping[str, Any], *, limit: int = 0, source: str = ""
) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration that is equivalent to a Policy.

    ``limit``: volumes per node that declares no limit, 0 for the clouds' defaults.
    Raises ConfigError with all errors; ``source`` is the file in their texts.
    """
    policy, found = read_policy(document)
    hard = policy.hard_pod_affinity_symmetric_weight or 1
    predicates = _predicates(policy, limit, found)
    names = {enabled.name for enabled in predicates}
    priorities = _priorities(policy, hard, names, found)
    extenders = [extender.document() for extender in policy.extenders]
    found += _extender_errors(extenders)
    if found:
        raise ConfigError(found, source)
    return _configuration(
        predicates, priorities, extenders, check_all=policy.always_check_all_predicates
    )


def provider_configuration(provider: str, *, limit: int = 0) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration that is equivalent to an algorithm provider.

    Raises ConfigError for an unknown provider.
    """
    if provider not in ALGORITHM_PROVIDERS:
        raise ConfigError([not_supported("algorithmProvider", provider, ALGORITHM_PROVIDERS)])
    weights = dict(DEFAULT_PRIORITIES)
    if provider == CLUSTER_AUTOSCALER_PROVIDER:
        weights = {
            "MostRequestedPriority" if name == "LeastRequestedPriority" else name: weight
            for name, weight in weights.items()
        }
    named = tuple(PriorityPolicy(name=name, weight=weight) for name, weight in weights.items())
    policy = Policy(priorities=named)
    predicates = _predicates(policy, limit, [])
    return _configuration(predicates, _priorities(policy, 1, set(), []), [], check_all=False)


def max_pd_volumes(text: str) -> int:
    """Return the number in ``KUBE_MAX_PD_VOLS``, 0 for "". Raises ConfigError."""
    if not text:
        return 0
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not is_number or not 0 < int(text) < 2**31:
        raise ConfigError([invalid(MAX_PD_VOLUMES_VARIABLE, text, "must be a positive integer")])
    return int(text)


def _predicates(policy: Policy, limit: int, found: list[FieldError]) -> list[_Enabled]:
    if policy.predicates is None:
        named = [PredicatePolicy(name=name) for name in DEFAULT_PREDICATES]
    else:
        named = [*policy.predicates, *(PredicatePolicy(name=name) for name in MANDATORY)]
    by_name: dict[str, _Enabled] = {}
    for at, predicate in enumerate(named):
        path = join("predicates", at)
        enabled = _of_argument(predicate, path, found)
        if enabled is None and predicate.argument is None:
            enabled = _plain_predicate(predicate.name, path, limit, found)
        if enabled is not None:
            # Of several with one name the last counts, as in kube-scheduler.
            by_name[enabled.name] = enabled
    return sorted(by_name.values(), key=lambda enabled: _PLACES[enabled.plugin])


def _plain_predicate(name: str, path: str, limit: int, found: list[FieldError]) -> _Enabled | None:
    plugin = PREDICATES.get(ALIASES.get(name, name))
    if plugin is None or name in WITH_ARGUMENT:
        if name:
            reason = "needs an argument" if plugin else "predicate type not found"
            found.append(FieldError(join(path, "name"), name, reason, ErrorType.NOT_FOUND))
        return None
    args: dict[str, Any] = {}
    if plugin in _VOLUME_COUNTS and limit:
        args = {"maxVolumes": limit}
    elif plugin == "PodTopologySpread":
        # There were no default constraints then.
        args = {"defaultingType": "List"}
    return _Enabled(plugin, plugin, args)


def _priorities(
    policy: Policy, hard: int, taken: set[str], found: list[FieldError]
) -> list[_Enabled]:
    named: Iterable[PriorityPolicy] = policy.priorities or ()
    if policy.priorities is None:
        named = [PriorityPolicy(name=name, weight=w) for name, w in DEFAULT_PRIORITIES.items()]
    by_name: dict[str, _Enabled] = {}
    for at, priority in enumerate(named):
        path = join("priorities", at)
        enabled = _of_argument(priority, path, found, taken)
        if enabled is None and priority.argument is None and priority.name:
            name = priority.name
            if name not in PRIORITIES:
                here, reason = join(path, "name"), "priority type not found"
                found.append(FieldError(here, name, reason, ErrorType.NOT_FOUND))
                continue
            args = {"hardPodAffinityWeight": hard} if name == "InterPodAffinityPriority" else {}
            enabled = _Enabled(name, name, args, priority.weight)
        if enabled is not None:
            by_name[enabled.name] = enabled
    return list(by_name.values())


def _of_argument(
    item: PredicatePolicy | PriorityPolicy,
    path: str,
    found: list[FieldError],
    taken: Iterable[str] = (),
) -> _Enabled | None:
    """Return the plugin of an item with an argument, under the item's name.

    A priority may have the name of a predicate; its plugin then has another, since a profile's
    plugins are known by their names.
    """
    argument: PredicateArgument | PriorityArgument | None = item.argument
    given = [] if argument is None else [(k, v) for k, v in argument if v is not None]
    if len(given) != 1:
        return None
    (key, args), name = given[0], item.name
    plugin = ARGUMENTS[key]
    if name in IN_TREE_PLUGINS and name != plugin:
        reason = "has no equivalent: it is the name of another plugin; choose another name"
        found.append(invalid(join(path, "name"), name, reason))
        return None
    if name in taken:
        name += "-priority"
    weight = item.weight if isinstance(item, PriorityPolicy) else 0
    return _Enabled(plugin, name, _plain(args), weight)


def _plain(args: Model) -> dict[str, Any]:
    plain: dict[str, Any] = args.model_dump(by_alias=True, mode="json")
    return {key: value for key, value in plain.items() if value != []}


def _extender_errors(extenders: list[dict[str, Any]]) -> list[FieldError]:
    found: list[FieldError] = []
    read = [
        decode(Extender, extender, join("extenders", at), found)[0]
        for at, extender in enumerate(extenders)
    ]
    return [*found, *extender_errors(read, "extenders")]


def _configuration(
    predicates: list[_Enabled],
    priorities: list[_Enabled],
    extenders: list[dict[str, Any]],
    *,
    check_all: bool,
) -> dict[str, Any]:
    binds = any(p.plugin == "VolumeBinding" for p in predicates)
    if check_all:
        checked = [{"name": p.plugin, "args": p.args} for p in predicates]
        predicates = [_Enabled(_CHECK_ALL, _CHECK_ALL, {"predicates": checked})]
    binding = [p for p in predicates if binds and p.plugin in ("VolumeBinding", _CHECK_ALL)]
    always = [{"name": name} for name in _ALWAYS]
    plugins: dict[str, dict[str, list[Any]]] = {
        "multiPoint": {"enabled": always, "disabled": [{"name": "*"}]},
        "filter": {"enabled": [{"name": p.name} for p in predicates]},
        "score": {"enabled": [{"name": p.name, "weight": p.weight} for p in priorities]},
        "reserve": {"enabled": [{"name": p.name} for p in binding]},
        "preBind": {"enabled": [{"name": p.name} for p in binding]},
    }
    configured = [e.config() for e in (*predicates, *priorities) if e.args or e.name != e.plugin]
    profile = {"plugins": {point: of for point, of in plugins.items() if of["enabled"]}}
    if configured:
        profile["pluginConfig"] = configured  # type: ignore[assignment]
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    return {**document, "extenders": extenders} if extenders else document
