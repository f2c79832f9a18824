"""Check a configuration together with the users' own plugins (see ``registry``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podsched.cache.objects import ClusterState
from podsched.config.errors import ConfigError, FieldError
from podsched.config.extenders import Extender
from podsched.config.load import SchedulerConfiguration, extenders_of, load_config
from podsched.config.plugins import IN_TREE_PLUGINS, ExtensionPoint, PluginSpec
from podsched.decide.runtime.plugin_handle import Chance, PluginHandle
from podsched.decide.runtime.profile_runtime import METHODS, ProfileRuntime
from podsched.framework.plugin import PluginError, PluginFactory


def user_plugin_specs(known: Mapping[str, PluginFactory]) -> dict[str, PluginSpec]:
    """Return by name the extension points that each of the users' plugins implements.

    If the factory is a function, the points are unknown: the plugin may be enabled at any point,
    and the profile is checked again once the plugin is created.
    """
    found = {}
    for name, factory in known.items():
        if name in IN_TREE_PLUGINS:
            continue
        points = {point for point, method in METHODS.items() if hasattr(factory, method)}
        found[name] = PluginSpec(name, frozenset(points or ExtensionPoint))
    return found


def load_usable(
    document: Mapping[str, Any], known: Mapping[str, PluginFactory], name: str = ""
) -> SchedulerConfiguration:
    """Load a configuration and check that a scheduler on this machine can run with it.

    Beyond what ``load_config`` does, makes the plugins of every profile, on no nodes, and the
    extenders, without calling them. Raises ConfigError with all errors, among them plugins that
    cannot be made or are enabled where they cannot run, and TLS files that cannot be used.
    """
    found: list[FieldError] = []
    config = None
    try:
        config = load_config(document, known_plugins=user_plugin_specs(known))
    except ConfigError as error:
        found += error.errors
    # Check the extenders of an invalid configuration too, so that one run reports all errors.
    found += _extender_errors(config.extenders if config else extenders_of(document), found)
    if config is not None:
        found += _plugin_errors(config, known)
    if config is None or found:
        raise ConfigError(found, name)
    return config


def _extender_errors(
    extenders: Sequence[Extender], known: Sequence[FieldError]
) -> Iterator[FieldError]:
    """Yield errors in the TLS files of extenders, except for fields with a known error."""
    from podsched.decide.extenders.calls import make_extenders  # aiohttp takes a while to import

    paths = {error.path for error in known}
    try:
        make_extenders(extenders)
    except ConfigError as mistakes:
        yield from (error for error in mistakes.errors if error.path not in paths)


def _plugin_errors(
    config: SchedulerConfiguration, known: Mapping[str, PluginFactory]
) -> Iterator[FieldError]:
    """Yield the errors of profiles whose plugins cannot be made or run."""
    handle = PluginHandle(ClusterState(), Chance(0))
    for profile in config.profiles:
        try:
            ProfileRuntime(profile, known, handle)
        except PluginError as error:
            yield FieldError("", None, str(error))
