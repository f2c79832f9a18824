"""Show what preemption could do for a pod that fits no node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from podsched.api.disruption_budgets import selector_of
from podsched.api.objects import PodDisruptionBudget
from podsched.ask.explain.explanation import reference
from podsched.ask.explain.fitting import Fitting
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import ExplainsPreemption, PreemptionReport
from podsched.v1.scheduling_pb2 import Explanation, Preemption, PreemptionCandidate

#: Max candidates, and victims of each, in an explanation.
MAX_CANDIDATES: Final = 5
MAX_VICTIMS: Final = 20
_WORDING: Final = 'explaining "{}"'


def add_preemption(answer: Explanation, fitting: Fitting, most: int | None = None) -> None:
    """Add what preemption would do for a pod that fits no node, if its plugin can explain it.

    most: max number of nodes on which victims are searched for; None for all.
    """
    if len(fitting.feasible):
        return
    for named in fitting.runtime.post_filter:
        plugin, found = named.plugin, answer.preemption
        if not isinstance(plugin, ExplainsPreemption):
            continue
        found.plugin = named.name
        explain = partial(plugin.explain_preemption, fitting.state, fitting.pod, fitting.cluster)
        try:
            report = guarded(named.name, _WORDING, explain, fitting.filters, most)
        except PluginFailure as failure:
            found.reason = str(failure)
        else:
            _fill(found, report, fitting)
        return


def _fill(found: Preemption, report: PreemptionReport, fitting: Fitting) -> None:
    found.eligible = report.eligible.ok
    found.reason = report.eligible.message
    if not report.eligible.ok:
        return
    found.candidate_nodes = len(report.candidates)
    found.tied_nodes = len(report.best)
    found.untried_nodes = report.untried

    def cost(name: str) -> tuple[int, int, int, str]:
        victims = report.candidates[name]
        return victims.num_pdb_violations, victims.pods[0].priority, len(victims.pods), name

    others = sorted(report.candidates.keys() - set(report.best), key=cost)
    for name in (*report.best, *others):
        if len(found.candidates) == MAX_CANDIDATES:
            break
        found.candidates.append(_candidate(name, report.candidates[name], fitting))
    reasons = Counter(text for status in report.rejected.values() for text in status.reasons)
    for reason, nodes in reasons.most_common():
        found.rejected.add(reason=reason, nodes=nodes)
    if not report.candidates:
        found.reason = "no node has victims whose eviction would make room for the pod"


def _candidate(name: str, victims: Victims, fitting: Fitting) -> PreemptionCandidate:
    listed = victims.pods[:MAX_VICTIMS]
    candidate = PreemptionCandidate(
        node=name,
        victims=[reference(pod) for pod in listed],
        more_victims=len(victims.pods) - len(listed),
        pdb_violations=victims.num_pdb_violations,
    )
    if victims.num_pdb_violations:
        budgets = fitting.cluster.list("PodDisruptionBudget")
        candidate.budgets.extend(_budgets_of(victims.pods, budgets))
    return candidate


def _budgets_of(pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]) -> list[str]:
    """Return the budgets that select more of the pods than they allow to be disrupted."""
    found = []
    for budget in budgets:
        selector, namespace = selector_of(budget), budget.metadata.namespace
        mine = sum(pod.namespace == namespace and selector.matches(pod.cls.labels) for pod in pods)
        if mine > budget.status.disruptions_allowed:
            found.append(f"{namespace}/{budget.metadata.name}")
    return found
