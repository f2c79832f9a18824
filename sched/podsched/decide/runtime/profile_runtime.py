"""The plugins of a profile, created once and listed by extension point in the order of their calls.

``config.profiles.Profile`` lists the enabled plugins. Plugins of kube-scheduler whose feature
podsched does not have are accepted there and left out here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from podsched.config.plugins import IN_TREE_PLUGINS, ExtensionPoint
from podsched.config.profiles import Profile
from podsched.decide.runtime.plugin_metrics import PluginRuns, ProfileMeters
from podsched.decide.runtime.unsupported_fields import UnsupportedFields
from podsched.framework.lookahead import LookaheadPlugin
from podsched.framework.nodes import ClusterView, JournaledColumns
from podsched.framework.plugin import (
    BindPlugin,
    ComparesRequests,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    GroupScorePlugin,
    GroupScores,
    Handle,
    InputsPlugin,
    LeavesDevices,
    PermitPlugin,
    Plugin,
    PluginError,
    PluginFactory,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreparesPlugin,
    PreScorePlugin,
    ProjectingPlugin,
    ProvidesDevices,
    QueueSortPlugin,
    ReservePlugin,
    ReservesSomePods,
    ScoreExtensions,
    ScorePlugin,
    Traits,
    WholeFilterPlugin,
    WholeScorePlugin,
    traits_of,
)
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import (
    DividedDryRun,
    DryRunPlugin,
    EvictionListener,
    PreemptionPlugin,
)
from podsched.framework.status import Status
from podsched.framework.verdicts import Scores

P = TypeVar("P")

#: The methods that make a plugin one of an extension point.
METHODS: Mapping[ExtensionPoint, str] = {
    ExtensionPoint.PRE_ENQUEUE: "pre_enqueue",
    ExtensionPoint.QUEUE_SORT: "sort_key",
    ExtensionPoint.PRE_FILTER: "pre_filter",
    ExtensionPoint.FILTER: "filter",
    ExtensionPoint.POST_FILTER: "post_filter",
    ExtensionPoint.PRE_SCORE: "pre_score",
    ExtensionPoint.SCORE: "score",
    ExtensionPoint.RESERVE: "reserve",
    ExtensionPoint.PERMIT: "permit",
    ExtensionPoint.PRE_BIND: "pre_bind",
    ExtensionPoint.BIND: "bind",
    ExtensionPoint.POST_BIND: "post_bind",
    ExtensionPoint.PLACEMENT_GENERATE: "generate_placements",
    ExtensionPoint.PLACEMENT_SCORE: "score_placements",
}


_ALLOCATING: Final = (ExtensionPoint.FILTER, ExtensionPoint.RESERVE, ExtensionPoint.PRE_BIND)
_WEIGHTED: Final = (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)


class UnknownPlugin(PluginError):
    """A profile enables a plugin that no package provides; the configuration is at fault."""


class NotAnExtension(PluginError):
    """A profile enables a plugin at an extension point that it does not implement."""


class PluginNotMade(PluginError):
    """A plugin's factory failed, usually because of its arguments."""


@dataclass(frozen=True, slots=True)
class Named(Generic[P]):
    """A plugin at an extension point, with its traits and optional methods, read only once.

    ``weight`` is 1 or more at Score, else 0. ``normalize`` is None if scores are final.
    """

    name: str
    plugin: P
    weight: int = 0
    runs: PluginRuns = field(default_factory=PluginRuns, compare=False)
    traits: Traits = field(default_factory=Traits, compare=False)
    normalize: Callable[[CycleState, Scores], Scores] | None = field(default=None, compare=False)
    #: ``filter_all`` or ``score_all``, if the plugin has it.
    whole: Callable[[CycleState, PodInfo, JournaledColumns], Any] | None = field(
        default=None, compare=False
    )
    groups: Callable[[CycleState, PodInfo], GroupScores | None] | None = field(
        default=None, compare=False
    )


@dataclass(frozen=True, slots=True)
class Projecting:
    """A plugin's projection, and the traits that say what the projection depends on."""

    ask: Callable[[PodInfo, ClusterView], Hashable]
    traits: Traits


class ProfileRuntime:
    """The plugins of one profile by extension point. Immutable after construction."""

    def __init__(
        self,
        profile: Profile,
        factories: Mapping[str, PluginFactory],
        handle: Handle,
        meter: ProfileMeters | None = None,
    ) -> None:
        self.profile = profile
        self.scheduler_name = profile.scheduler_name
        self.meter = (meter or ProfileMeters.unread()).of(profile.scheduler_name)
        self._factories = factories
        #: The plugins that keep pods on the nodes of a placement or of a flavor.
        self.restricting = _restricting(factories)
        made = _make(profile, factories, handle, self.restricting)
        unsupported = UnsupportedFields(allocates_devices=_leave_devices(profile, made))
        self.plugins: dict[str, Plugin] = {unsupported.name: unsupported, **made}
        self.pre_enqueue: Sequence[Named[PreEnqueuePlugin]] = self._at(ExtensionPoint.PRE_ENQUEUE)
        self.queue_sort: Sequence[Named[QueueSortPlugin]] = self._at(ExtensionPoint.QUEUE_SORT)
        #: These list and compare placements of pod groups (``framework.pod_groups``).
        self.placement_generate: Sequence[Named[Any]] = self._at(ExtensionPoint.PLACEMENT_GENERATE)
        self.placement_score: Sequence[Named[Any]] = self._at(ExtensionPoint.PLACEMENT_SCORE)
        self.filter: Sequence[Named[FilterPlugin]] = self._at(ExtensionPoint.FILTER)
        #: The names of the filters in order.
        self.filter_names = tuple(named.name for named in self.filter)
        self.pre_filter: Sequence[Named[PreFilterPlugin]] = self._pre_filter()
        self.post_filter: Sequence[Named[PostFilterPlugin]] = self._at(ExtensionPoint.POST_FILTER)
        #: Plugins that can predict their verdicts, by name.
        self.lookahead: Mapping[str, LookaheadPlugin] = {
            name: one for name, one in self.plugins.items() if isinstance(one, LookaheadPlugin)
        }
        self.score: Sequence[Named[ScorePlugin]] = self._at(ExtensionPoint.SCORE)
        #: The PreScore of every plugin that scores and has one, by name.
        self.pre_score: Mapping[str, Named[PreScorePlugin]] = {
            one.name: self._unweighted(ExtensionPoint.PRE_SCORE, one.name)
            for one in self.score
            if hasattr(one.plugin, "pre_score")
        }
        self.reserve: Sequence[Named[ReservePlugin]] = self._at(ExtensionPoint.RESERVE)
        deciding = _deciding(self)
        #: The plugins that feasibility and scores depend on.
        self.deciding: Set[str] = deciding.keys()
        #: Plugins that declare inputs but have no PreFilter, by name.
        self.inputs_without_pre_filter: Mapping[str, InputsPlugin] = _other_inputs(self, deciding)
        #: The projections of the plugins, by name; plugins without a projection are left out.
        self.projecting: Mapping[str, Projecting] = _projecting(deciding)
        #: Whether some plugin has no projection, so that it may read the whole pod.
        self.reads_whole_pods = len(self.projecting) < len(self.deciding)
        #: Plugins that are fast over all rows, so that pods may differ in what they read.
        self.varying: Set[str] = {name for name in self.projecting if _is_varying(self, name)}
        #: Whether a Reserve plugin has something to do for a pod, by name.
        self.reserves: Mapping[str, Callable[[CycleState, PodInfo], bool]] = {
            named.name: _reserves_of(named.plugin) for named in self.reserve
        }
        self.permit: Sequence[Named[PermitPlugin]] = self._at(ExtensionPoint.PERMIT)
        self.pre_bind: Sequence[Named[PreBindPlugin]] = self._at(ExtensionPoint.PRE_BIND)
        self.bind: Sequence[Named[BindPlugin]] = self._at(ExtensionPoint.BIND)
        self.post_bind: Sequence[Named[PostBindPlugin]] = self._at(ExtensionPoint.POST_BIND)

    @cached_property
    def preparing(self) -> Sequence[PreparesPlugin]:
        """The plugins that can compute in steps what a decision will need."""
        return [plugin for plugin in self.plugins.values() if isinstance(plugin, PreparesPlugin)]

    @cached_property
    def eviction_listeners(self) -> Mapping[str, EvictionListener]:
        """The EvictionListeners by name; cached, because the check takes 10 us per plugin."""
        plugins = self.plugins.items()
        return {name: plugin for name, plugin in plugins if isinstance(plugin, EvictionListener)}

    @cached_property
    def divided_dry_run(self) -> DividedDryRun | None:
        """The first PostFilter plugin that dry-runs preemption on some nodes at a time."""
        plugins = (named.plugin for named in self.post_filter)
        return next((plugin for plugin in plugins if isinstance(plugin, DividedDryRun)), None)

    @cached_property
    def dry_run(self) -> DryRunPlugin | None:
        """The first PostFilter plugin whose dry runs other processes may make."""
        plugins = (named.plugin for named in self.post_filter)
        return next((plugin for plugin in plugins if isinstance(plugin, DryRunPlugin)), None)

    @cached_property
    def comparing_requests(self) -> Mapping[str, ComparesRequests]:
        """The filters that compare requests with what nodes have free, by name."""
        plugins = {named.name: named.plugin for named in self.filter}
        return {name: one for name, one in plugins.items() if isinstance(one, ComparesRequests)}

    def gate(self, pod: PodInfo) -> tuple[str, Status] | None:
        """Return the first PreEnqueue plugin that rejects a pod, with its status, or None."""
        for named in self.pre_enqueue:
            status = named.plugin.pre_enqueue(pod)
            if not status.ok:
                return named.name, status
        return None

    def unmeasured(self) -> ProfileRuntime:
        """Return the same plugins; calls of them are not counted."""
        other = copy.copy(self)
        runs = PluginRuns()
        other.pre_filter = [replace(named, runs=runs) for named in self.pre_filter]
        other.filter = [replace(named, runs=runs) for named in self.filter]
        other.score = [replace(named, runs=runs) for named in self.score]
        other.pre_score = {n: replace(named, runs=runs) for n, named in self.pre_score.items()}
        return other

    def remade(self, handle: Handle) -> ProfileRuntime:
        """Return the profile with new plugins for another cluster; its metrics are not exported.

        Raises PluginError as the constructor does.
        """
        return ProfileRuntime(self.profile, self._factories, handle)

    def _at(self, point: ExtensionPoint) -> tuple[Named[Any], ...]:
        found = []
        for enabled in self.profile.plugins.get(point, ()):
            plugin = self.plugins.get(enabled.name)
            if plugin is None:
                continue
            if not hasattr(plugin, METHODS[point]):
                # The configuration also lists a plugin at PreScore if it only has Score.
                preparing = point in (ExtensionPoint.PRE_SCORE, ExtensionPoint.PRE_FILTER)
                spec = IN_TREE_PLUGINS.get(enabled.name)
                if preparing or (spec is not None and point in spec.idle):
                    continue
                raise NotAnExtension(f"plugin {enabled.name} does not implement {point.label}")
            # As in kube-scheduler, a weight of 0 means that none is set.
            weight = (enabled.weight or 1) if point in _WEIGHTED else 0
            traits = _traits(plugin)
            runs = self.meter.runs(
                point,
                enabled.name,
                binds_volumes=traits.binds_volumes,
                preempts=isinstance(plugin, PreemptionPlugin),
            )
            normalize = plugin.normalize if isinstance(plugin, ScoreExtensions) else None
            whole = _whole(point, plugin)
            groups = plugin.score_groups if isinstance(plugin, GroupScorePlugin) else None
            found.append(
                Named(enabled.name, plugin, weight, runs, traits, normalize, whole, groups)
            )
        return tuple(found)

    def _pre_filter(self) -> tuple[Named[PreFilterPlugin], ...]:
        """Return all PreFilter plugins, also those that are configured only at other points.

        UnsupportedFields, the first, cannot be disabled, because it rejects pods that the others
        would misplace. Nor can the restricting ones.
        """
        configured = self._at(ExtensionPoint.PRE_FILTER)
        names = {named.name for named in configured}
        elsewhere: list[Named[Any]] = [*self.placement_generate[:1], *self.filter]
        others = (named.name for named in elsewhere if hasattr(named.plugin, "pre_filter"))
        implied = [
            self._unweighted(ExtensionPoint.PRE_FILTER, name)
            for name in dict.fromkeys((UnsupportedFields.name, *others, *self.restricting))
            if name not in names
        ]
        # UnsupportedFields is never configured, so it is the first of the implied ones.
        return (implied[0], *configured, *implied[1:])

    def _unweighted(self, point: ExtensionPoint, name: str) -> Named[Any]:
        """Return a plugin at a point without weights, whether it is configured there or not."""
        return Named(name, self.plugins[name], runs=self.meter.runs(point, name))

    def reserving(self, state: CycleState, pod: PodInfo) -> Set[str]:
        """Return the plugins that reserve something for such pods, which the next pod must see."""
        # Called several times for each decision, nearly always without a plugin that reserves: a
        # set comprehension takes three times as long then.
        found: frozenset[str] = frozenset()
        for name, asks in self.reserves.items():
            if name not in state.skip_filter and asks(state, pod):
                found |= {name}
        return found

    def enqueue_extensions(self) -> dict[str, EnqueueExtensions | None]:
        """Return each plugin's EnqueueExtensions; None if any event may end its rejections."""
        return {
            name: plugin if isinstance(plugin, EnqueueExtensions) else None
            for name, plugin in self.plugins.items()
        }


def _deciding(runtime: ProfileRuntime) -> dict[str, Plugin]:
    """Return the plugins that feasibility and scores depend on, by name."""
    points = (runtime.pre_filter, runtime.filter, runtime.score)
    return {named.name: runtime.plugins[named.name] for point in points for named in point}


def _other_inputs(
    runtime: ProfileRuntime, deciding: Mapping[str, Plugin]
) -> dict[str, InputsPlugin]:
    pre_filter = {named.name for named in runtime.pre_filter}
    return {
        name: plugin
        for name, plugin in deciding.items()
        if name not in pre_filter and isinstance(plugin, InputsPlugin)
    }


def _projecting(deciding: Mapping[str, Plugin]) -> dict[str, Projecting]:
    return {
        name: Projecting(plugin.projection, traits_of(plugin))
        for name, plugin in deciding.items()
        if isinstance(plugin, ProjectingPlugin)
    }


def _is_varying(runtime: ProfileRuntime, name: str) -> bool:
    """Whether a plugin runs on whole columns and reads only a pod's class (``variants``)."""
    filters = [named for named in runtime.filter if named.name == name]
    scores = [named for named in runtime.score if named.name == name]
    return (
        runtime.projecting[name].traits.projects_class
        and bool(filters or scores)
        and all(named.whole is not None for named in filters)
        and all(named.whole is not None and named.normalize is None for named in scores)
        and not any(named.traits.depends_on_feasible for named in scores)
    )


def _whole(
    point: ExtensionPoint, plugin: Plugin
) -> Callable[[CycleState, PodInfo, JournaledColumns], Any] | None:
    """Return the plugin's method over whole columns at a point, if it has one."""
    if point is ExtensionPoint.FILTER and isinstance(plugin, WholeFilterPlugin):
        return plugin.filter_all
    if point is ExtensionPoint.SCORE and isinstance(plugin, WholeScorePlugin):
        return plugin.score_all
    return None


def _reserves_of(plugin: ReservePlugin) -> Callable[[CycleState, PodInfo], bool]:
    if isinstance(plugin, ReservesSomePods):
        return plugin.reserves
    return lambda state, pod: True


def _traits(plugin: Plugin) -> Traits:
    """Return the plugin's traits; without a PreScore it does not depend on the feasible rows."""
    traits = traits_of(plugin)
    if hasattr(plugin, METHODS[ExtensionPoint.PRE_SCORE]):
        return traits
    return replace(traits, depends_on_feasible=False)


def _make(
    profile: Profile, factories: Mapping[str, PluginFactory], handle: Handle, implied: Sequence[str]
) -> dict[str, Plugin]:
    made: dict[str, Plugin] = {}
    names = [enabled.name for at in profile.plugins.values() for enabled in at]
    for name in (*names, *implied):
        if name in made:
            continue
        factory = factories.get(profile.own_names.get(name, name))
        if factory is not None:
            made[name] = _call(name, factory, profile, handle)
        elif name not in IN_TREE_PLUGINS:
            raise UnknownPlugin(f"profile {profile.scheduler_name}: no plugin is called {name}")
    return made


def _restricting(factories: Mapping[str, PluginFactory]) -> tuple[str, ...]:
    # Read before the plugins are made; a factory that is not the plugin's class has no traits.
    traits = {name: getattr(factory, "traits", None) for name, factory in factories.items()}
    return tuple(
        name for name, of in traits.items() if isinstance(of, Traits) and of.keeps_to_placement
    )


def _leave_devices(profile: Profile, plugins: Mapping[str, Plugin]) -> bool:
    """Return whether a plugin allocates devices; tell the others, for extended resources."""
    enabled = set.intersection(*(set(profile.names(at)) for at in _ALLOCATING))
    allocating = (plugin for name, plugin in plugins.items() if name in enabled)
    devices = [plugin for plugin in allocating if isinstance(plugin, ProvidesDevices)]
    for plugin in plugins.values() if devices else ():
        if isinstance(plugin, LeavesDevices):
            plugin.leave_to(devices[0].provided_devices)
    return bool(devices)


def _call(name: str, factory: PluginFactory, profile: Profile, handle: Handle) -> Plugin:
    try:
        return factory(profile.args.get(name), handle)
    except Exception as error:
        if name in IN_TREE_PLUGINS:
            raise
        raise PluginNotMade(
            f"profile {profile.scheduler_name}: plugin {name} cannot be made: "
            f"{type(error).__name__}: {error}"
        ) from error
