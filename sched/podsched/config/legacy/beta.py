"""Convert a KubeSchedulerConfiguration of v1beta2 or v1beta3 to v1.

Differences between the versions (pkg/scheduler/apis/config of Kubernetes 1.22 to 1.28):

* v1beta2 has no multiPoint. Its default weights of NodeAffinity, InterPodAffinity and
  TaintToleration are 1; those of v1beta3 equal v1's.
* In neither can a profile have its own percentageOfNodesToScore.
* v1beta2 has healthzBindAddress and metricsBindAddress, which can only turn off these servers.
* Both have plugins that count the volumes of one cloud provider. NodeVolumeLimits replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podsched.config.errors import FieldError, unknown_field
from podsched.config.model import join
from podsched.config.plugins import REMOVED_PLUGINS, ExtensionPoint

_GROUP: Final = "kubescheduler.config.k8s.io"
_V1, _V1BETA2, _V1BETA3 = (f"{_GROUP}/{version}" for version in ("v1", "v1beta2", "v1beta3"))
_ALL = "*"
#: The weights of the default scoring plugins for which v1beta2 and v1 differ.
_V1BETA2_WEIGHTS: Final = {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}
_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")


@dataclass(frozen=True, slots=True)
class Converted:
    """A document of v1, and the warnings and errors of its conversion."""

    document: Mapping[str, Any]
    warnings: list[str] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)


def converted(document: Mapping[str, Any]) -> Converted:
    """Convert a document of v1beta2 or v1beta3 to v1; return others unchanged.

    Values of wrong types are left unchanged, because the reader of v1 reports them.
    """
    version = document.get("apiVersion")
    if version not in (_V1BETA2, _V1BETA3):
        return Converted(document)
    fields = {**document, "apiVersion": _V1}
    out = Converted(fields)
    short = str(version).rpartition("/")[2]
    out.warnings.append(f"apiVersion: {short} is read as v1; sched config convert prints that")
    if version == _V1BETA2:
        for name in _ADDRESSES:
            if (address := fields.pop(name, None)) not in (None, "") and not _is_off(address):
                out.warnings.append(f"{name}: has no effect: use --bind-address and --secure-port")
    profiles = fields.get("profiles")
    if version == _V1BETA2 and not profiles:
        profiles = [{}]
    if isinstance(profiles, list):
        fields["profiles"] = [
            _profile(profile, join("profiles", at), version == _V1BETA2, out)
            if isinstance(profile, Mapping)
            else profile
            for at, profile in enumerate(profiles)
        ]
    return out


def _is_off(address: object) -> bool:
    return isinstance(address, str) and address.rpartition(":")[2] == "0"


def _profile(profile: Mapping[str, Any], path: str, beta2: bool, out: Converted) -> dict[str, Any]:
    """Convert a profile; warnings and errors are appended to ``out``."""
    result = dict(profile)
    if "percentageOfNodesToScore" in result:
        out.errors.append(unknown_field(join(path, "percentageOfNodesToScore")))
        del result["percentageOfNodesToScore"]
    given = result.get("plugins")
    if given is None or isinstance(given, Mapping):
        plugins = dict(given or {})
        if beta2 and "multiPoint" in plugins:
            out.errors.append(unknown_field(join(path, "plugins", "multiPoint")))
            del plugins["multiPoint"]
        for point, refs in plugins.items():
            if isinstance(refs, Mapping):
                plugins[point] = _without_removed(refs, join(path, "plugins", point), out)
        if beta2:
            _weigh(plugins)
        if plugins:
            result["plugins"] = plugins
    configs = result.get("pluginConfig")
    if isinstance(configs, list):
        result["pluginConfig"] = [_config(config) for config in configs]
    return result


def _without_removed(refs: Mapping[str, Any], path: str, out: Converted) -> dict[str, Any]:
    """Return a plugin set without the plugins that NodeVolumeLimits replaces."""
    result = dict(refs)
    for kind in ("enabled", "disabled"):
        listed = refs.get(kind)
        if not isinstance(listed, list):
            continue
        names = {name for ref in listed if (name := _name(ref)) in REMOVED_PLUGINS}
        result[kind] = [ref for ref in listed if _name(ref) not in REMOVED_PLUGINS]
        for name in sorted(filter(None, names)):
            out.warnings.append(f"{path}.{kind}: {name} is left out: NodeVolumeLimits counts all")
    return result


def _weigh(plugins: dict[str, Any]) -> None:
    """Set v1beta2's weights of default plugins that the profile does not name, in place."""
    point = ExtensionPoint.SCORE.value
    score = plugins.get(point, {})
    if not isinstance(score, Mapping):
        return
    enabled, disabled = score.get("enabled") or [], score.get("disabled") or []
    if not isinstance(enabled, list) or not isinstance(disabled, list):
        return
    named = {_name(ref) for ref in (*enabled, *disabled)}
    if _ALL in {_name(ref) for ref in disabled}:
        return
    own = [
        {"name": name, "weight": weight}
        for name, weight in _V1BETA2_WEIGHTS.items()
        if name not in named
    ]
    if own:
        plugins[point] = {**score, "enabled": [*own, *enabled]}


def _config(config: Any) -> Any:
    args = config.get("args") if isinstance(config, Mapping) else None
    if isinstance(args, Mapping) and args.get("apiVersion") in (_V1BETA2, _V1BETA3):
        return {**config, "args": {**args, "apiVersion": _V1}}
    return config


def _name(ref: object) -> str | None:
    name = ref.get("name") if isinstance(ref, Mapping) else None
    return name if isinstance(name, str) else None
