"""Resolve a profile as written to the plugins that run, with their order, weights and args.

There are two merges, as in kube-scheduler v1.36 (mergePlugins of pkg/scheduler/apis/config/v1 and
expandMultiPointPlugins of pkg/scheduler/framework/runtime):

1. The profile's multiPoint is merged over the default set. Disabled plugins ("*" for all) are
   removed. A default plugin that is enabled again keeps its position and takes the new weight.
   Other enabled plugins follow at the end.
2. The plugins of an extension point are, in this order: those of multiPoint that the point enables
   too, in the point's order; those of multiPoint that the point does not disable ("*" for all); the
   others that the point enables. A weight at the point overrides that of multiPoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from podsched.config.errors import ErrorType, FieldError, duplicate, invalid, required
from podsched.config.extenders import Extender, ignored_resources
from podsched.config.kube_scheduler import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    PluginSet,
    percentage_errors,
)
from podsched.config.model import Model, decode_checked, join
from podsched.config.plugins import (
    DEFAULT_PLUGINS,
    IN_TREE_PLUGINS,
    REMOVED_PLUGINS,
    ExtensionPoint,
    PluginSpec,
)

ALL = "*"

#: The plugins that check resources, except those that extenders manage.
CHECKING_RESOURCES = frozenset(
    {"NodeResourcesFit", "GeneralPredicates", "AlwaysCheckAllPredicates"}
)


class EnabledPlugin(NamedTuple):
    """A plugin at an extension point; ``weight`` is 0 at points that do not score."""

    name: str
    weight: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A resolved profile."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    """The profile's value, else the file's. None: all nodes. 0: kube-scheduler's adaptive value."""
    plugins: Mapping[ExtensionPoint, tuple[EnabledPlugin, ...]]
    """The plugins of every extension point in the order in which they run."""
    args: Mapping[str, Any]
    """The args of every plugin that takes any: an args model, or a plain object without one."""
    own_names: Mapping[str, str] = field(default_factory=dict)
    """The plugins that run under names that the user chose, by these names."""
    compares_nodes: bool = True
    """Whether a Score plugin, or an extender that filters or scores, compares feasible nodes."""

    def names(self, point: ExtensionPoint) -> tuple[str, ...]:
        return tuple(plugin.name for plugin in self.plugins[point])


@dataclass(slots=True)
class Resolution:
    """The result of resolving the profiles of a file."""

    profiles: list[Profile] = field(default_factory=list)
    written: list[KubeSchedulerProfile] = field(default_factory=list)
    """The profiles as written, with the default set and default args filled in, for printing."""
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def resolve_profiles(
    profiles: Sequence[KubeSchedulerProfile],
    percentage_of_nodes_to_score: int | None,
    extenders: Sequence[Extender],
    known_plugins: Mapping[str, PluginSpec] | None,
) -> Resolution:
    """Resolve the profiles of a file; the errors' paths start with "profiles"."""
    out = Resolution()
    known = {**(known_plugins or {}), **IN_TREE_PLUGINS}
    profiles = profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (profiles[0].model_copy(update={"scheduler_name": DEFAULT_SCHEDULER_NAME}),)
    out.errors += _scheduler_name_errors(profiles)
    for at, written in enumerate(profiles):
        resolver = _Resolver(written, join("profiles", at), known, out)
        resolver.resolve(percentage_of_nodes_to_score, extenders)
    out.errors += _queue_sort_errors(out.profiles)
    return out


def merge_default_plugins(custom: PluginSet) -> PluginSet:
    """Return the default set with a profile's multiPoint merged over it (rule 1 above)."""
    disabled = {ref.name for ref in custom.disabled}
    enabled_again = {ref.name: ref for ref in custom.enabled}
    merged = []
    if ALL not in disabled:
        for spec in DEFAULT_PLUGINS:
            if spec.name not in disabled:
                default = PluginRef(name=spec.name, weight=spec.weight or None)
                merged.append(enabled_again.pop(spec.name, default))
    replaced = {id(ref) for ref in merged}
    merged += [ref for ref in custom.enabled if id(ref) not in replaced]
    return PluginSet(enabled=tuple(merged), disabled=custom.disabled)


def expand(
    point: ExtensionPoint, own: PluginSet, multi: PluginSet, known: Mapping[str, PluginSpec]
) -> list[str]:
    """Return the names of the plugins at one extension point, in their order (rule 2 above)."""
    enabled = list(dict.fromkeys(ref.name for ref in own.enabled))
    disabled = {ref.name for ref in own.disabled}
    if ALL in disabled:
        return enabled
    offered = [
        ref.name
        for ref in multi.enabled
        if ref.name in known and point in known[ref.name].points and ref.name not in disabled
    ]
    overriding = [name for name in enabled if name in offered]
    inherited = list(dict.fromkeys(name for name in offered if name not in overriding))
    return overriding + inherited + [name for name in enabled if name not in overriding]


class _Resolver:
    """Resolves one profile and adds the result to ``out``."""

    def __init__(
        self,
        written: KubeSchedulerProfile,
        path: str,
        known: Mapping[str, PluginSpec],
        out: Resolution,
    ) -> None:
        self._written = written
        self._path = path
        self._known = {**_named_by_user(written, known), **known}
        self._out = out
        self._multi = merge_default_plugins(written.plugins.multi_point)

    def resolve(self, percentage: int | None, extenders: Sequence[Extender]) -> None:
        """Resolve the profile; percentage: the file's percentageOfNodesToScore."""
        found = self._out.errors
        own = self._written.percentage_of_nodes_to_score
        found += percentage_errors(self._path, own)
        found += self._set_errors()
        args = self._args()
        plugins = {point: tuple(self._enabled(point)) for point in ExtensionPoint}
        found += self._count_errors(plugins)
        running = {plugin.name for at in plugins.values() for plugin in at}
        for name in sorted(running):
            spec = self._known.get(name)
            if name not in args and spec is not None and spec.args is not None:
                args[name] = spec.args()
        self._written_out(args)
        if ignored := ignored_resources(extenders):
            for name in CHECKING_RESOURCES & args.keys():
                own_args = args[name]
                names = tuple(dict.fromkeys((*own_args.ignored_resources, *ignored)))
                args[name] = own_args.model_copy(update={"ignored_resources": names})
        self._out.profiles.append(
            Profile(
                self._written.scheduler_name or "",
                own if own is not None else percentage,
                plugins,
                {name: args[name] for name in sorted(args) if name in running},
                {
                    name: self._known[name].plugin
                    for name in sorted(running)
                    if name in self._known and self._known[name].plugin
                },
                bool(plugins[ExtensionPoint.SCORE])
                or any(extender.filter_verb or extender.prioritize_verb for extender in extenders),
            )
        )

    def _enabled(self, point: ExtensionPoint) -> Iterator[EnabledPlugin]:
        """Yield the plugins at an extension point in order, with weights if the point scores."""
        own = self._written.plugins.at(point)
        scores = point in (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)
        weights: dict[str, int] = {}
        for ref in (*own.enabled, *self._multi.enabled):
            weights.setdefault(ref.name, ref.weight or 1)
        for name in expand(point, own, self._multi, self._known):
            if name in self._known:
                yield EnabledPlugin(name, weights[name] if scores else 0)

    def _set_errors(self) -> Iterator[FieldError]:
        path = join(self._path, "plugins")
        plugins = self._written.plugins
        yield from self._refs_errors(plugins.multi_point, join(path, "multiPoint"), None)
        for point in ExtensionPoint:
            yield from self._refs_errors(plugins.at(point), join(path, point), point)

    def _refs_errors(
        self, plugins: PluginSet, path: str, point: ExtensionPoint | None
    ) -> Iterator[FieldError]:
        seen = set()
        for at, ref in enumerate(plugins.enabled):
            here = join(path, "enabled", at)
            if ref.name in seen:
                yield duplicate(join(here, "name"), ref.name)
                continue
            seen.add(ref.name)
            if ref.weight is not None and ref.weight < 0:
                yield invalid(join(here, "weight"), ref.weight, "must not be negative")
            yield from self._name_errors(ref.name, join(here, "name"), point)
        for at, ref in enumerate(plugins.disabled):
            here = join(path, "disabled", at, "name")
            if not ref.name:
                yield required(here)
            elif ref.name not in self._known and ref.name not in (ALL, *REMOVED_PLUGINS):
                self._out.warnings.append(f"{here}: no plugin is named {ref.name}")

    def _name_errors(
        self, name: str, path: str, point: ExtensionPoint | None
    ) -> Iterator[FieldError]:
        spec = self._known.get(name)
        if not name:
            yield required(path)
        elif name in REMOVED_PLUGINS:
            yield invalid(path, name, f'was invalid in version "{API_VERSION}"')
        elif spec is None:
            yield FieldError(path, name, "no such plugin is registered", ErrorType.NOT_FOUND)
        elif point is not None and point not in spec.points:
            yield invalid(path, name, f"the plugin does not extend {point.label}")

    def _args(self) -> dict[str, Any]:
        """Return the decoded args by plugin name; errors are recorded."""
        result: dict[str, Any] = {}
        seen: set[str] = set()
        for at, config in enumerate(self._written.plugin_config):
            path = join(self._path, "pluginConfig", at)
            if config.name in seen:
                self._out.errors.append(duplicate(path, config.name))
                continue
            seen.add(config.name)
            self._out.errors += self._name_errors(config.name, join(path, "name"), None)
            spec = self._known.get(config.name)
            if spec is not None:
                result[config.name] = self._decode_args(spec, config, join(path, "args"))
        return result

    def _decode_args(self, spec: PluginSpec, config: PluginConfig, path: str) -> Any:
        data = config.args
        if spec.args is None or isinstance(data, Model):
            return data if data is not None else {}
        if isinstance(data, Mapping):
            self._out.errors += _type_errors(spec.plugin or spec.name, data, path)
            data = {key: data[key] for key in data if key not in ("apiVersion", "kind")}
        found: list[FieldError] = []
        args = decode_checked(spec.args, data, path, found)
        self._out.errors += found
        return args

    def _count_errors(
        self, plugins: Mapping[ExtensionPoint, tuple[EnabledPlugin, ...]]
    ) -> Iterator[FieldError]:
        path = join(self._path, "plugins")
        sorting = [plugin.name for plugin in plugins[ExtensionPoint.QUEUE_SORT]]
        # Names of plugins that do not exist are errors already.
        if len(sorting) != 1 and not self._misnamed(ExtensionPoint.QUEUE_SORT):
            yield invalid(join(path, "queueSort"), sorting, "must be exactly one queue sort plugin")
        if not plugins[ExtensionPoint.BIND] and not self._misnamed(ExtensionPoint.BIND):
            yield required(join(path, "bind"), "at least one bind plugin must be enabled")

    def _misnamed(self, point: ExtensionPoint) -> bool:
        """Return whether an unknown or unsuitable plugin is enabled at the point."""
        specs = (self._known.get(ref.name) for ref in self._written.plugins.at(point).enabled)
        return any(spec is None or point not in spec.points for spec in specs)

    def _written_out(self, args: Mapping[str, Any]) -> None:
        self._out.written.append(
            self._written.model_copy(
                update={
                    "plugins": self._written.plugins.model_copy(
                        update={"multi_point": self._multi}
                    ),
                    "plugin_config": tuple(
                        PluginConfig(name=name, args=args[name]) for name in sorted(args)
                    ),
                }
            )
        )


def _named_by_user(
    written: KubeSchedulerProfile, known: Mapping[str, PluginSpec]
) -> dict[str, PluginSpec]:
    """Return the plugins that a profile enables under names of its own choice, by these names.

    The kind of their args shows which plugin is meant.
    """
    kinds = {f"{spec.name}Args": spec for spec in known.values() if spec.nameable}
    found = {}
    for config in written.plugin_config:
        kind = config.args.get("kind") if isinstance(config.args, Mapping) else None
        spec = kinds.get(kind) if isinstance(kind, str) else None
        if spec is not None and config.name:
            found[config.name] = replace(spec, name=config.name, plugin=spec.name)
    return found


def _scheduler_name_errors(profiles: Sequence[KubeSchedulerProfile]) -> Iterator[FieldError]:
    seen = set()
    for at, profile in enumerate(profiles):
        path = join("profiles", at, "schedulerName")
        if not profile.scheduler_name:
            yield required(path)
        elif profile.scheduler_name in seen:
            yield duplicate(path, profile.scheduler_name)
        seen.add(profile.scheduler_name)


def _type_errors(plugin: str, args: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    kind, version = args.get("kind"), args.get("apiVersion")
    if kind is not None and kind != f"{plugin}Args":
        yield invalid(join(path, "kind"), kind, f"must be {plugin}Args")
    if version is not None and version != API_VERSION:
        yield invalid(join(path, "apiVersion"), version, f"must be {API_VERSION}")


def _queue_sort_errors(profiles: Sequence[Profile]) -> Iterator[FieldError]:
    """Yield errors unless all profiles have the same QueueSort plugin: they share one queue."""
    first = profiles[0]
    names = first.names(ExtensionPoint.QUEUE_SORT)
    args = [first.args.get(name) for name in names]
    for at, profile in enumerate(profiles[1:], start=1):
        path = join("profiles", at)
        theirs = profile.names(ExtensionPoint.QUEUE_SORT)
        if not names or not theirs:
            continue  # reported as an error already
        if theirs != names:
            here = join(path, "plugins", "queueSort")
            yield invalid(here, list(theirs), "must be the same for all profiles")
        elif [profile.args.get(name) for name in names] != args:
            here = join(path, "pluginConfig", "args")
            yield invalid(here, list(theirs), "queueSort must be the same for all profiles")
