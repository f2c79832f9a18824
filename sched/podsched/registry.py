"""The one list of plugins: the built-in ones in default order, and users' own.

A factory, which is the plugin's class in most cases, gets the plugin's arguments and the handle.
The arguments of an in-tree plugin are its model of ``podsched.config.plugin_args``; a user's plugin
gets the plain object of its ``pluginConfig``. None stands for no arguments. Users' packages name
their factories under the entry point group ``podsched.plugins``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from podsched.config.plugin_args import DynamicResourcesArgs
from podsched.framework.plugin import Handle, PluginError, PluginFactory
from podsched.legacy.registry import LEGACY
from podsched.plugins.default_binder import DefaultBinder
from podsched.plugins.default_preemption.plugin import DefaultPreemption
from podsched.plugins.dynamic_resources.cases import run_case
from podsched.plugins.dynamic_resources.model import Fault, Features
from podsched.plugins.dynamic_resources.plugin import DynamicResources
from podsched.plugins.dynamic_resources.selectors import selector_compiler
from podsched.plugins.gang_scheduling import GangScheduling
from podsched.plugins.image_locality import ImageLocality
from podsched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from podsched.plugins.node_affinity import NodeAffinity
from podsched.plugins.node_declared_features import NodeDeclaredFeatures
from podsched.plugins.node_name import NodeName
from podsched.plugins.node_ports import NodePorts
from podsched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from podsched.plugins.node_resources.fit import NodeResourcesFit
from podsched.plugins.node_resources.loops import compile_loops
from podsched.plugins.node_unschedulable import NodeUnschedulable
from podsched.plugins.node_volume_limits.plugin import NodeVolumeLimits
from podsched.plugins.pod_group_pods_count import PodGroupPodsCount
from podsched.plugins.pod_topology_spread.plugin import PodTopologySpread
from podsched.plugins.priority_sort import PrioritySort
from podsched.plugins.scheduling_gates import SchedulingGates
from podsched.plugins.taint_toleration import TaintToleration
from podsched.plugins.topology_placement_generator import TopologyPlacementGenerator
from podsched.plugins.volume_binding.plugin import VolumeBinding
from podsched.plugins.volume_restrictions import VolumeRestrictions
from podsched.plugins.volume_zone import VolumeZone

ENTRY_POINT_GROUP = "podsched.plugins"


def _dynamic_resources(args: DynamicResourcesArgs, handle: Handle) -> DynamicResources:
    return DynamicResources(args, handle, selector_compiler(Features()), time.time)


#: name -> factory(args, handle): those of today in default order, then those of Policy files.
BUILT_IN: Mapping[str, PluginFactory] = {
    "SchedulingGates": SchedulingGates,
    "PrioritySort": PrioritySort,
    "NodeUnschedulable": NodeUnschedulable,
    "NodeName": NodeName,
    "TaintToleration": TaintToleration,
    "NodeAffinity": NodeAffinity,
    "NodePorts": NodePorts,
    "NodeResourcesFit": NodeResourcesFit,
    "VolumeRestrictions": VolumeRestrictions,
    "NodeVolumeLimits": NodeVolumeLimits,
    "VolumeBinding": VolumeBinding,
    "VolumeZone": VolumeZone,
    "PodTopologySpread": PodTopologySpread,
    "InterPodAffinity": InterPodAffinity,
    "DynamicResources": _dynamic_resources,
    "DefaultPreemption": DefaultPreemption,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
    "ImageLocality": ImageLocality,
    "DefaultBinder": DefaultBinder,
    "NodeDeclaredFeatures": NodeDeclaredFeatures,
    "GangScheduling": GangScheduling,
    "TopologyPlacementGenerator": TopologyPlacementGenerator,
    "PodGroupPodsCount": PodGroupPodsCount,
    **LEGACY,
}


class DuplicatePlugin(PluginError):
    """Two packages, or a package and podsched itself, register a plugin under the same name."""


class PluginNotLoaded(PluginError):
    """An installed package names a plugin that cannot be imported."""


def factories() -> dict[str, PluginFactory]:
    """All plugins by name: built-in ones and those of installed packages.

    Raises DuplicatePlugin when a name is taken, PluginNotLoaded when an import fails.
    """
    found = dict(BUILT_IN)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name in found:
            raise DuplicatePlugin(f"plugin {entry.name!r} of {entry.value} is already registered")
        found[entry.name] = _load(entry)
    return found


def compile_plugins() -> str:
    """Compile loops of plugins; return numba's version, or "" if nothing was compiled.

    Takes 1 s the first time, then 0.2 s.
    """
    return compile_loops()


def run_allocation_case(
    case: Mapping[str, Any],
    faults: Iterable[str] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Return which devices the claims of an allocation case get.

    ``faults``: names of the faults of Kubernetes v1.36.2 that are kept. ``should_stop`` ends a
    search that takes too long.
    """
    compile_selector = selector_compiler(Features.of(case.get("features") or ()))
    kept = {Fault(name) for name in faults}
    return run_case(case, compile_selector, faults=kept, should_stop=should_stop)


def _load(entry: EntryPoint) -> PluginFactory:
    try:
        factory = entry.load()
    # Importing a package runs its code, which may raise anything.
    except Exception as error:
        raise PluginNotLoaded(
            f"plugin {entry.name!r}: {entry.value} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not callable(factory):
        raise PluginNotLoaded(f"plugin {entry.name!r}: {entry.value} is not a factory")
    return cast(PluginFactory, factory)
