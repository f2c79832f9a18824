"""Run the PreFilter plugins of a profile. They prepare CycleState and may restrict the nodes.

Rules and texts: kube-scheduler v1.36 ``framework/runtime/framework.go``, RunPreFilterPlugins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, PreFilterPlugin, PreFilterResult
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, unresolvable

PRE_FILTER_WORDING = 'running PreFilter plugin "{}"'


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """The merged result of all PreFilter plugins.

    ``node_names``: the only nodes allowed, None for all; ``plugins`` restricted them.
    """

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    plugins: tuple[str, ...] = ()

    @property
    def excluded(self) -> Status:
        """The status of nodes that are not in ``node_names``."""
        listed = " ".join(self.plugins)
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}]")


@dataclass(slots=True)
class PreFilterMerge:
    """Merges the plugins' PreFilter results, in their order."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    plugins: list[str] = field(default_factory=list)

    def add(self, name: str, result: PreFilterResult) -> bool:
        """Merge one plugin's result; return False if no other plugin needs to run.

        After Unschedulable the other plugins run, because preemption needs their state. After
        UnschedulableAndUnresolvable they do not run.
        """
        status = result.status
        if status.skipped:
            return True
        if not status.ok:
            self.status = status.by(name)
            return status.code is Code.UNSCHEDULABLE
        if result.node_names is None:
            return True
        self.plugins = sorted({*self.plugins, name})
        mine = self.node_names
        self.node_names = result.node_names if mine is None else mine & result.node_names
        if self.node_names:
            return True
        # kube-scheduler's two texts, word for word.
        if len(self.plugins) == 1:
            self.status = unresolvable(f"node(s) didn't satisfy plugin {name}")
        else:
            listed = " ".join(self.plugins)
            text = f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously"
            self.status = unresolvable(text)
        return False

    def done(self) -> PreFilterOutcome:
        """Return the merged result."""
        return PreFilterOutcome(self.status, self.node_names, tuple(self.plugins))


def pre_filter_one(
    named: Named[PreFilterPlugin], state: CycleState, pod: PodInfo, cluster: ClusterView
) -> PreFilterResult:
    """Run one plugin's PreFilter and note its Skip in the state. Raises PluginFailure."""
    name = named.name
    # PreFilter may run again after its inputs changed, and then not skip.
    state.skip_filter -= {name}
    result = named.runs.call(name, PRE_FILTER_WORDING, named.plugin.pre_filter, state, pod, cluster)
    status = result.status
    if status.skipped:
        state.skip_filter |= {name}
    elif not status.ok and not status.code.rejects:
        raise PluginFailure(name, f"{PRE_FILTER_WORDING.format(name)}: {status.message}")
    return result


def run_pre_filter(
    runtime: ProfileRuntime, state: CycleState, pod: PodInfo, cluster: ClusterView
) -> PreFilterOutcome:
    """Run all PreFilter plugins. Raises PluginFailure."""
    merge = PreFilterMerge()
    for named in runtime.pre_filter:
        if not merge.add(named.name, pre_filter_one(named, state, pod, cluster)):
            break
    return merge.done()
