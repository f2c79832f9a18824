"""Load, validate and print a KubeSchedulerConfiguration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from podsched.api.manifest import ManifestError, load_documents
from podsched.config.errors import ConfigError, invalid
from podsched.config.extenders import Extender, ignored_resources, redacted
from podsched.config.kube_scheduler import (
    API_VERSION,
    KIND,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    header_errors,
)
from podsched.config.leader_election import LeaderElectionSettings
from podsched.config.legacy.beta import converted
from podsched.config.model import Dumped, Model, decode, is_below
from podsched.config.plugins import PluginSpec
from podsched.config.profiles import Profile, resolve_profiles
from podsched.config.queues import QueuesConfiguration

#: Fields that are accepted and have no effect here, and why.
WITHOUT_EFFECT: Mapping[str, str] = {
    "parallelism": "nodes are evaluated as columns, all at once; --ray-shards shares the work",
    "clientConnection.kubeconfig": "use --kubeconfig or --server",
    "clientConnection.acceptContentTypes": "podsched's API server speaks protobuf alone",
    "clientConnection.contentType": "podsched's API server speaks protobuf alone",
    "clientConnection.qps": "the API server limits its clients, with fairness among them",
    "clientConnection.burst": "the API server limits its clients, with fairness among them",
}
_DEFAULT = KubeSchedulerConfiguration()

#: Max bytes of a file: the max size of a ConfigMap. Parsing YAML of this size takes two seconds.
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """The configuration that a scheduler runs with; times are in seconds."""

    profiles: tuple[Profile, ...]
    leader_election: LeaderElectionSettings
    extenders: tuple[Extender, ...]
    """In the order of the file; ignorable extenders are not last yet."""
    queues: QueuesConfiguration
    effective: KubeSchedulerConfiguration
    """The file with every default filled in."""
    warnings: tuple[str, ...] = ()
    """Warnings about fields that are accepted but have no effect, or look like mistakes."""

    def profile(self, scheduler_name: str) -> Profile | None:
        """Return the profile for a schedulerName, None if its pods belong to another scheduler."""
        named = (one for one in self.profiles if one.scheduler_name == scheduler_name)
        return next(named, None)


def load_config(
    source: str | bytes | Mapping[str, Any],
    *,
    known_plugins: Mapping[str, PluginSpec] | None = None,
) -> SchedulerConfiguration:
    """Load a configuration from YAML or JSON text, or from plain data.

    known_plugins: plugins of users, in addition to the in-tree ones. apiVersion and kind may both
    be missing. Raises ``ConfigError`` with all errors.
    """
    conversion = converted(read_document(source))
    document = conversion.document
    found = [*header_errors(document), *conversion.errors]
    fields = {key: document[key] for key in document if key not in ("apiVersion", "kind")}
    model, bad = decode(KubeSchedulerConfiguration, fields, "", found)
    checks = list(model.errors(""))
    resolution = resolve_profiles(
        model.profiles, model.percentage_of_nodes_to_score, model.extenders, known_plugins
    )
    election = LeaderElectionSettings()
    try:
        election = LeaderElectionSettings(**dict(model.leader_election))
    except ConfigError as error:
        checks += error.errors
    # Unreadable values have been reported and replaced by defaults; do not report them twice.
    checks += resolution.errors
    found += [error for error in checks if not is_below(error.path, bad)]
    if found:
        raise ConfigError(found)
    contention = model.enable_contention_profiling
    return SchedulerConfiguration(
        profiles=tuple(resolution.profiles),
        leader_election=election,
        extenders=model.extenders,
        queues=model.queues,
        effective=model.model_copy(
            update={
                "profiles": tuple(resolution.written),
                "enable_contention_profiling": (
                    model.enable_profiling if contention is None else contention
                ),
            }
        ),
        warnings=(*conversion.warnings, *resolution.warnings, *_without_effect(model)),
    )


def extenders_of(document: Mapping[str, Any]) -> Sequence[Extender]:
    """Return the extenders of a document that may be invalid, as far as they can be read."""
    fields = {"extenders": converted(document).document.get("extenders")}
    return decode(KubeSchedulerConfiguration, fields, "", [])[0].extenders


def default_config() -> SchedulerConfiguration:
    """Return the configuration of a scheduler without a configuration file."""
    return load_config({})


def to_plain(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return the effective configuration as plain data, starting with apiVersion and kind."""
    plain = _dump(config.effective)
    plain["profiles"] = [_profile(profile) for profile in config.effective.profiles]
    return {"apiVersion": API_VERSION, "kind": KIND, **plain}


def to_public(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return ``to_plain`` without secrets, for ``/configz``."""
    plain = to_plain(config)
    for extender in plain.get("extenders", ()):
        if "urlPrefix" in extender:
            extender["urlPrefix"] = redacted(extender["urlPrefix"])
        if "keyData" in extender.get("tlsConfig", {}):
            extender["tlsConfig"]["keyData"] = "xxxxx"
    return plain


def to_yaml(config: SchedulerConfiguration) -> str:
    """Return the effective configuration as YAML that ``load_config`` reads back unchanged."""
    return yaml.safe_dump(to_plain(config), sort_keys=False, allow_unicode=True)


def read_document(source: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one document of YAML or JSON text as plain data.

    Raises ``ConfigError``, also for text of more than ``MAX_BYTES``.
    """
    if isinstance(source, Mapping):
        return source
    size = len(source.encode(errors="surrogatepass") if isinstance(source, str) else source)
    if size > MAX_BYTES:
        raise ConfigError([invalid("", f"{size} bytes", f"must be at most {MAX_BYTES} bytes")])
    try:
        documents = load_documents(source)
    except ManifestError as error:
        raise ConfigError(error.problems) from error
    if len(documents) != 1:
        raise ConfigError([invalid("", len(documents), "the number of documents must be 1")])
    return documents[0]


def _without_effect(model: KubeSchedulerConfiguration) -> Iterator[str]:
    """Yield warnings about fields that have an effect in kube-scheduler, but not here.

    A field with its default value causes no warning.
    """
    for at, extender in enumerate(model.extenders):
        if not extender.verbs() and not ignored_resources([extender]):
            yield f"extenders[{at}]: has no effect: no verb is set"
    for path, reason in WITHOUT_EFFECT.items():
        if _value(model, path) not in (None, _value(_DEFAULT, path)):
            yield f"{path}: has no effect: {reason}"


def _value(model: Model, path: str) -> Any:
    """Return the value at a field path with the names used in files, such as "a.b"."""
    value: Any = model
    for step in path.split("."):
        value = next(
            getattr(value, name)
            for name, of in type(value).model_fields.items()
            if of.alias == step
        )
    return value


def _profile(profile: KubeSchedulerProfile) -> dict[str, Any]:
    plain = _dump(profile)
    if profile.plugin_config:
        plain["pluginConfig"] = [_plugin_config(item) for item in profile.plugin_config]
    return plain


def _plugin_config(item: PluginConfig) -> dict[str, Any]:
    args = item.args
    if isinstance(args, Model):
        # The model is named after the plugin; the item may have a name of the user's own.
        args = {"apiVersion": API_VERSION, "kind": type(args).__name__, **_dump(args)}
    return {"name": item.name, "args": args}


def _dump(model: Model) -> dict[str, Any]:
    """Return a model as plain data with Kubernetes' names, without unset and empty fields."""
    dumped: dict[str, Any] = _without_empty(model.model_dump(by_alias=True, exclude_none=True))
    return dumped


def _without_empty(value: Any) -> Any:
    if isinstance(value, Dumped):
        return value.data
    if isinstance(value, Mapping):
        stripped = {key: _without_empty(item) for key, item in value.items()}
        return {
            key: item
            for key, item in stripped.items()
            if isinstance(value[key], Dumped) or item not in ({}, [], "", None)
        }
    if isinstance(value, list | tuple):
        return [_without_empty(item) for item in value]
    return str(value) if isinstance(value, str) else value
