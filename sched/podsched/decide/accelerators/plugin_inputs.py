"""Versions of the data that plugins read beyond a row, and the results of PreFilter.

A plugin's ``inputs`` returns the versions of everything that it reads beyond the rows. While they
stay equal, its state and its verdicts on unchanged rows are valid. When they differ, PreFilter runs
again, and the plugin is *stale* until it has been asked about all rows. Plugins without a PreFilter
may have inputs, too (for instance for Score).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from typing import NamedTuple

from podsched.decide.evaluation.pre_filtering import (
    PreFilterMerge,
    PreFilterOutcome,
    pre_filter_one,
)
from podsched.decide.runtime.plugin_calls import guarded
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import FIXED_INPUTS, CycleState, PreFilterPlugin, PreFilterResult
from podsched.framework.pods import PodInfo

INPUTS_WORDING = 'reading the inputs of plugin "{}"'


class _PreFilterEntry(NamedTuple):
    inputs: Hashable
    result: PreFilterResult


class PluginInputs:
    """Keeps the inputs of a profile's plugins for one pod class; runs PreFilter if they change.

    ``pre_filtered`` is PreFilter's outcome; ``stale`` has the plugins whose inputs changed since
    ``mark_current``.
    """

    def __init__(self, runtime: ProfileRuntime, cluster: ClusterView, state: CycleState) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._state = state
        self._entries: dict[str, _PreFilterEntry] = {}
        self._other_inputs: dict[str, Hashable] = {}
        #: The plugins whose inputs may change; None: unknown, so all are checked.
        self._moving: Sequence[Named[PreFilterPlugin]] | None = None
        self.pre_filtered = PreFilterOutcome()
        self.stale: set[str] = set()

    def refresh(self, pod: PodInfo) -> None:
        """Run PreFilter for the plugins whose inputs changed. Raises PluginFailure."""
        # ``any`` ends at the first plugin whose result differs; ``_merge`` then runs the others.
        if self._moving is None or any(self._run_if_changed(named, pod) for named in self._moving):
            self._merge(pod)
        for name, plugin in self._runtime.inputs_without_pre_filter.items():
            inputs = guarded(name, INPUTS_WORDING, plugin.inputs, pod, self._cluster)
            if name not in self._other_inputs or self._other_inputs[name] != inputs:
                self._other_inputs[name] = inputs
                self.stale.add(name)

    def _merge(self, pod: PodInfo) -> None:
        """Run PreFilter of all plugins in order, until one rejects the pod unresolvably."""
        # None until all have run: after a failure or an early end each plugin is checked again.
        merge, self._moving = PreFilterMerge(), None
        plugins = self._runtime.pre_filter
        for place, named in enumerate(plugins):
            self._run_if_changed(named, pod)
            if not merge.add(named.name, self._entries[named.name].result):
                self._forget({other.name for other in plugins[place + 1 :]})
                break
        else:
            # The other plugins' results stay valid, so only these are checked from now on.
            self._moving = [
                named for named in plugins if self._entries[named.name].inputs != FIXED_INPUTS
            ]
        self.pre_filtered = merge.done()

    def _forget(self, plugins: Set[str]) -> None:
        """Drop what PreFilter of plugins left earlier: PostFilter must not find it in the state."""
        for name in plugins:
            self._entries.pop(name, None)
            self._state.data.pop(name, None)
        self._state.skip_filter -= plugins

    def _run_if_changed(self, named: Named[PreFilterPlugin], pod: PodInfo) -> bool:
        """Run a plugin's PreFilter if its inputs changed; return whether the result differs."""
        name, cluster = named.name, self._cluster
        inputs = guarded(name, INPUTS_WORDING, named.plugin.inputs, pod, cluster)
        entry = self._entries.get(name)
        if entry is not None and entry.inputs == inputs:
            return False
        result = pre_filter_one(named, self._state, pod, cluster)
        self._entries[name] = _PreFilterEntry(inputs, result)
        self.stale.add(name)
        return entry is None or entry.result != result

    def continue_from(self, other: PluginInputs, different: Set[str]) -> None:
        """Start with the inputs of another class; the ``different`` plugins are stale."""
        self._entries = {n: e for n, e in other._entries.items() if n not in different}
        self._other_inputs = {n: i for n, i in other._other_inputs.items() if n not in different}
        self.pre_filtered = other.pre_filtered
        # The other class has not asked its stale plugins about all rows, so they are stale here.
        self.stale = {*different, *other.stale}

    def of(self, plugin: str) -> Hashable:
        """Return a plugin's inputs at the last refresh, or None if it has none."""
        entry = self._entries.get(plugin)
        return self._other_inputs.get(plugin) if entry is None else entry.inputs

    @property
    def by_plugin(self) -> dict[str, Hashable]:
        """The inputs at the last refresh, by plugin."""
        pre_filter = {name: entry.inputs for name, entry in self._entries.items()}
        return pre_filter | self._other_inputs

    def mark_current(self) -> None:
        """Note that every stale plugin has been asked about all rows."""
        self.stale.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins of ``last`` and ``now``, in the same order."""
        pre_filter = (named.name for named in self._runtime.pre_filter)
        return (*pre_filter, *self._runtime.inputs_without_pre_filter)

    @property
    def last(self) -> tuple[Hashable, ...]:
        """The inputs at the last refresh; shorter than ``names`` if PreFilter ended early."""
        known = self.by_plugin
        return tuple(known[name] for name in self.names if name in known)

    def now(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """Return the current inputs. Raises PluginFailure."""
        cluster, runtime = self._cluster, self._runtime
        readers = [(named.name, named.plugin.inputs) for named in runtime.pre_filter]
        others = runtime.inputs_without_pre_filter.items()
        readers += [(name, plugin.inputs) for name, plugin in others]
        return tuple(guarded(name, INPUTS_WORDING, read, pod, cluster) for name, read in readers)
