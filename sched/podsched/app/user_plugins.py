"""What a configuration may name of users' plugins: installed packages' entry points."""

from __future__ import annotations

from collections.abc import Mapping

from podsched.config.plugins import IN_TREE_PLUGINS, ExtensionPoint, PluginSpec
from podsched.engine.profile_runtime import METHODS
from podsched.framework.plugin import PluginFactory
from podsched.plugins.registry import factories


def user_plugin_specs(known: Mapping[str, PluginFactory] | None = None) -> dict[str, PluginSpec]:
    """By name, the extension points that each of the users' plugins implements.

    A factory that is a function does not tell; it may be enabled at any point, and the profile is
    checked again when the plugin has been made.
    """
    found = {}
    for name, factory in (known if known is not None else factories()).items():
        if name in IN_TREE_PLUGINS:
            continue
        points = {point for point, method in METHODS.items() if hasattr(factory, method)}
        found[name] = PluginSpec(name, frozenset(points or ExtensionPoint))
    return found
