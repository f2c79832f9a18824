"""Where plugins come from: podsched itself and installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from podsched import registry
from podsched.cache.objects import ClusterState
from podsched.config.plugins import IN_TREE_PLUGINS
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import (
    DeclaresTraits,
    FilterPlugin,
    Plugin,
    PreScorePlugin,
    ScorePlugin,
    traits_of,
)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_plugin_is_listed_under_its_name_and_made_from_arguments_and_handle(
    name: str,
) -> None:
    model = IN_TREE_PLUGINS[name].args
    plugin = registry.BUILT_IN[name](model and model(), SimulatedHandle(ClusterState()))
    assert isinstance(plugin, Plugin)
    assert plugin.name == name


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_plugin_that_filters_or_scores_declares_its_traits(name: str) -> None:
    model = IN_TREE_PLUGINS[name].args
    plugin = registry.BUILT_IN[name](model and model(), SimulatedHandle(ClusterState()))
    if isinstance(plugin, FilterPlugin | ScorePlugin):
        assert isinstance(plugin, DeclaresTraits)
        assert not plugin.traits.reads_pods, "or batches of pods are placed one by one"


def test_only_spreading_scores_by_which_nodes_are_feasible() -> None:
    depending = set()
    for name, factory in registry.BUILT_IN.items():
        model = IN_TREE_PLUGINS[name].args
        plugin = factory(model and model(), SimulatedHandle(ClusterState()))
        if isinstance(plugin, PreScorePlugin) and traits_of(plugin).depends_on_feasible:
            depending.add(name)
    assert depending == {
        "PodTopologySpread",
        "SelectorSpreadPriority",
        "ServiceSpreadingPriority",
        "ServiceAntiAffinity",
        "EvenPodsSpreadPriority",
    }, "others would repeat PreScore for every pod"


def test_the_registry_has_the_in_tree_plugins_that_run_in_default_order() -> None:
    assert [*registry.BUILT_IN] == [*IN_TREE_PLUGINS]


def test_a_package_cannot_take_the_name_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def entries(group: str) -> list[EntryPoint]:
        return [EntryPoint("NodeName", "other.package:Plugin", group)]

    monkeypatch.setattr(registry, "entry_points", entries)
    with pytest.raises(registry.DuplicatePlugin, match=r"NodeName.*other\.package:Plugin"):
        registry.factories()


def test_installed_packages_add_their_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    def entries(group: str) -> list[EntryPoint]:
        return [EntryPoint("Mine", "podsched.plugins.node_name:NodeName", group)]

    monkeypatch.setattr(registry, "entry_points", entries)
    assert {*registry.factories()} == {*registry.BUILT_IN, "Mine"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nowhere.to_be_found:Plugin", "cannot be imported: ModuleNotFoundError"),
        ("podsched.plugins.node_name:REASON", "is not a factory"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, says: str
) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("Mine", value, group)])
    with pytest.raises(registry.PluginNotLoaded, match=f"'Mine'.*{value}.*{says}"):
        registry.factories()
