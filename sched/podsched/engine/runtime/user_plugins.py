"""Users' own plugins: what a configuration may name of them, and whether they can be made.

They are those of installed packages' entry points (``plugins.registry``).
"""

from __future__ import annotations

from collections.abc import Mapping

from podsched.cache.objects import ClusterState
from podsched.config.load import SchedulerConfiguration
from podsched.config.plugins import IN_TREE_PLUGINS, ExtensionPoint, PluginSpec
from podsched.engine.runtime.profile_runtime import METHODS, ProfileRuntime
from podsched.engine.state import Chance, PluginHandle
from podsched.framework.plugin import PluginFactory
from podsched.plugins.registry import factories


def user_plugin_specs(known: Mapping[str, PluginFactory] | None = None) -> dict[str, PluginSpec]:
    """Return by name the extension points that each of the users' plugins implements.

    Of a factory that is a function they are not known; it may be enabled at any point, and the
    profile is checked again when the plugin has been made. Raises PluginError.
    """
    found = {}
    for name, factory in (known if known is not None else factories()).items():
        if name in IN_TREE_PLUGINS:
            continue
        points = {point for point, method in METHODS.items() if hasattr(factory, method)}
        found[name] = PluginSpec(name, frozenset(points or ExtensionPoint))
    return found


def check_plugins(config: SchedulerConfiguration) -> None:
    """Make the plugins of every profile, as a scheduler does when it starts, on no nodes.

    The extenders too, without calling them. Raises PluginError for a plugin that cannot be made or
    is enabled where it cannot run, ConfigError for an extender's TLS files that cannot be used.
    """
    from podsched.engine.extenders.calls import make_extenders  # aiohttp takes a while to import

    make_extenders(config.extenders)
    known, handle = factories(), PluginHandle(ClusterState(), Chance(0))
    for profile in config.profiles:
        ProfileRuntime(profile, known, handle)
