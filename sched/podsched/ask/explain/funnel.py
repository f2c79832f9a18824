"""How many nodes are left after each plugin, in the order in which the plugins are asked."""

from __future__ import annotations

from collections import Counter

import numpy as np

from podsched.ask.explain.fitting import Fitting
from podsched.decide.evaluation.filtering import filter_one
from podsched.framework.filter_outcome import EXCLUDED
from podsched.v1.scheduling_pb2 import FunnelStep

PRE_FILTER, FILTER = "PreFilter", "Filter"


def funnel(fitting: Fitting) -> list[FunnelStep]:
    """Return the steps; a node counts where it is rejected first, as in kube-scheduler.

    Each step begins with what the one before it has left, and the last one leaves the feasible
    nodes. PreFilter is a step where it rejects nodes, or the pod altogether.
    """
    outcome, left = fitting.outcome, len(fitting.outcome.rows)
    steps = []
    excluded = int((outcome.plugin == EXCLUDED).sum())
    if excluded:
        status = outcome.excluded
        names = (status.plugin,) if status.plugin else fitting.pre.plugins
        step = FunnelStep(
            extension_point=PRE_FILTER,
            plugin=", ".join(names),
            before=left,
            rejected=excluded,
            after=left - excluded,
        )
        _add_reasons(step, Counter(dict.fromkeys(status.reasons, excluded)))
        steps.append(step)
        left -= excluded
    if not fitting.pre.status.ok:
        return steps
    for index, named in enumerate(fitting.runtime.filter):
        rejected = int((outcome.plugin == index).sum())
        step = FunnelStep(
            extension_point=FILTER,
            plugin=named.name,
            before=left,
            rejected=rejected,
            after=left - rejected,
            skipped=named.name in fitting.state.skip_filter,
        )
        _add_reasons(step, _reasons(fitting, index))
        steps.append(step)
        left -= rejected
    return steps


def add_rejections_alone(fitting: Fitting, steps: list[FunnelStep]) -> None:
    """Say of each filter how many of all nodes it rejects, whatever the others say.

    Nominated pods are not counted here.
    """
    by_name = {step.plugin: step for step in steps if step.extension_point == FILTER}
    nodes = fitting.cluster.columns
    for named in fitting.runtime.filter:
        step = by_name.get(named.name)
        if step is None or step.skipped:
            continue
        verdicts = filter_one(named, fitting.state, fitting.pod, nodes, nodes.live_rows)
        # More where nominated pods count: they are among those that it rejects first.
        step.rejects_alone = max(int((verdicts.bits != 0).sum()), step.rejected)


def _reasons(fitting: Fitting, index: int) -> Counter[str]:
    """Return by reason how many nodes a plugin rejects for it; a node may have several."""
    outcome = fitting.outcome
    bits = outcome.bits[outcome.plugin == index]
    if not len(bits):
        return Counter()
    found: Counter[str] = Counter()
    for place, reason in enumerate(outcome.reasons[index]):
        count = int((bits >> np.uint64(place) & np.uint64(1)).sum())
        if count:
            found[reason.text] += count
    return found


def _add_reasons(step: FunnelStep, counts: Counter[str]) -> None:
    for reason, count in counts.most_common():
        step.reasons.add(reason=reason, nodes=count)
