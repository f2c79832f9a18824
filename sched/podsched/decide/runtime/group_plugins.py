"""The plugins of a profile that decide about pod groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.pod_groups import (
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
)


class GroupPlugins(NamedTuple):
    """The plugins by extension point (``framework.pod_groups``); the last two need no setting."""

    generate: Sequence[Named[PlacementGeneratePlugin]]
    score: Sequence[Named[PlacementScorePlugin]]
    feasible: Sequence[Named[PlacementFeasiblePlugin]]
    post_filter: Sequence[Named[PodGroupPostFilterPlugin]]


#: To find out which protocols the plugins of a profile implement takes half a millisecond. Weak,
#: because plugins keep their cluster, which may be a copy for one question.
_known: WeakKeyDictionary[ProfileRuntime, GroupPlugins] = WeakKeyDictionary()


def group_plugins(runtime: ProfileRuntime) -> GroupPlugins:
    """Return the plugins of a profile."""
    found = _known.get(runtime)
    if found is None:
        found = _known[runtime] = _find(runtime)
    return found


def _find(runtime: ProfileRuntime) -> GroupPlugins:
    plugins = runtime.plugins.items()
    return GroupPlugins(
        runtime.placement_generate,
        runtime.placement_score,
        [Named(name, p) for name, p in plugins if isinstance(p, PlacementFeasiblePlugin)],
        [Named(name, p) for name, p in plugins if isinstance(p, PodGroupPostFilterPlugin)],
    )
