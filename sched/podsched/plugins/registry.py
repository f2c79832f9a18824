"""The one list of plugins: the built-in ones in default order, and users' own.

A factory gets the plugin's arguments (the args object of its ``pluginConfig``, None for defaults)
and the handle. Users' packages name their factories under the entry point group
``podsched.plugins``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from podsched.framework.plugin import Handle, Plugin, PluginError, PluginFactory
from podsched.plugins import node_affinity
from podsched.plugins.default_binder import DefaultBinder
from podsched.plugins.default_preemption.plugin import DefaultPreemption
from podsched.plugins.image_locality import ImageLocality
from podsched.plugins.inter_pod_affinity import plugin as inter_pod_affinity
from podsched.plugins.node_declared_features import NodeDeclaredFeatures
from podsched.plugins.node_name import NodeName
from podsched.plugins.node_ports import NodePorts
from podsched.plugins.node_resources import balanced_allocation, fit
from podsched.plugins.node_unschedulable import NodeUnschedulable
from podsched.plugins.node_volume_limits.plugin import NodeVolumeLimits
from podsched.plugins.pod_topology_spread import plugin as pod_topology_spread
from podsched.plugins.priority_sort import PrioritySort
from podsched.plugins.scheduling_gates import SchedulingGates
from podsched.plugins.taint_toleration import TaintToleration
from podsched.plugins.volume_binding import plugin as volume_binding
from podsched.plugins.volume_restrictions import VolumeRestrictions
from podsched.plugins.volume_zone import VolumeZone

ENTRY_POINT_GROUP = "podsched.plugins"


def _plain(plugin: type[Plugin]) -> PluginFactory:
    def make(args: Any, handle: Handle) -> Plugin:
        return plugin()

    return make


#: name -> factory(args, handle), in default order.
BUILT_IN: Mapping[str, PluginFactory] = {
    "SchedulingGates": _plain(SchedulingGates),
    "PrioritySort": _plain(PrioritySort),
    "NodeUnschedulable": _plain(NodeUnschedulable),
    "NodeName": _plain(NodeName),
    "TaintToleration": _plain(TaintToleration),
    "NodeAffinity": lambda args, handle: node_affinity.new(args),
    "NodePorts": _plain(NodePorts),
    "NodeResourcesFit": fit.new,
    "VolumeRestrictions": _plain(VolumeRestrictions),
    "NodeVolumeLimits": _plain(NodeVolumeLimits),
    "VolumeBinding": volume_binding.new,
    "VolumeZone": _plain(VolumeZone),
    "PodTopologySpread": pod_topology_spread.new,
    "InterPodAffinity": inter_pod_affinity.new,
    "DefaultPreemption": DefaultPreemption,
    "NodeResourcesBalancedAllocation": lambda args, handle: balanced_allocation.new(args),
    "ImageLocality": _plain(ImageLocality),
    "DefaultBinder": _plain(DefaultBinder),
    "NodeDeclaredFeatures": _plain(NodeDeclaredFeatures),
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


def _load(entry: EntryPoint) -> PluginFactory:
    try:
        factory = entry.load()
    # Importing a package runs whatever it likes.
    except Exception as error:
        raise PluginNotLoaded(
            f"plugin {entry.name!r}: {entry.value} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not callable(factory):
        raise PluginNotLoaded(f"plugin {entry.name!r}: {entry.value} is not a factory")
    return cast(PluginFactory, factory)
