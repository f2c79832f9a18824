"""Evictions by the system: within budgets, and only for more important pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from podsched.api.conditions import (
    REASON_PREEMPTION_BY_SCHEDULER,
    is_finished,
    is_pod_ready,
    is_terminating,
)
from podsched.api.objects import Event, Pod, PodDisruptionBudget
from podsched.api.selectors import compile_selector
from podsched.lab.chaos.history import BUDGETS, PODS, History, Moment, Violation, disrupted, replay

BUDGET = "no budget broken by evictions"
VICTIMS = "preemption victims of lower priority"

#: Seconds for which a budget may not know yet that a pod has failed or was deleted otherwise: the
#: controller that counts healthy pods follows them, and may change hands meanwhile.
NOTICE = 30.0
_PREEMPTED_BY = "Preempted by pod "


def budgets(history: History) -> Iterator[Violation]:
    """Find evictions, counted by a budget, that left fewer healthy pods than it requires.

    Budgets cannot prevent other disruptions (preemption, failed nodes), so evictions are not
    checked for ``NOTICE`` seconds after one.
    """
    counted: dict[str, frozenset[str]] = {}
    disturbed: dict[str, float] = {}
    for moment in replay(history):
        world, at = moment.world, moment.revision.at
        evicted = _newly_disrupted(moment, counted)
        for key, budget in world.budgets.items():
            mine = evicted.get(key, frozenset())
            if _lost_otherwise(moment, key, budget, mine):
                disturbed[key] = at
            if not mine or at - disturbed.get(key, -NOTICE) < NOTICE:
                continue
            healthy = sum(_healthy(pod) for pod in _selected(key, budget, world.pods).values())
            desired = budget.status.desired_healthy
            if healthy < desired:
                names = ", ".join(sorted(mine))
                text = (
                    f"evicting {names} left too few healthy pods of budget {key}: "
                    f"{healthy} of {desired}"
                )
                pods = (PODS + name for name in sorted(mine))
                yield moment.violation(BUDGET, text, BUDGETS + key, *pods)


def _newly_disrupted(
    moment: Moment, counted: dict[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Return the keys of the pods whose eviction this revision has counted, by budget."""
    found = {}
    for change in moment.revision.changes:
        if not isinstance(change.object, PodDisruptionBudget):
            continue
        key = change.key.removeprefix(BUDGETS)
        namespace = key.partition("/")[0]
        now = frozenset(f"{namespace}/{name}" for name in change.object.status.disrupted_pods)
        marked = {pod.key for pod in moment.pods if pod.marked}
        found[key] = (now - counted.get(key, frozenset())) & marked
        counted[key] = now
    return found


def _selected(key: str, budget: PodDisruptionBudget, pods: Mapping[str, Pod]) -> dict[str, Pod]:
    namespace, selector = key.partition("/")[0] + "/", compile_selector(budget.spec.selector)
    return {
        name: pod
        for name, pod in pods.items()
        if name.startswith(namespace) and selector.matches(pod.metadata.labels)
    }


def _healthy(pod: Pod) -> bool:
    return is_pod_ready(pod) and not is_terminating(pod) and not is_finished(pod)


def _lost_otherwise(
    moment: Moment, key: str, budget: PodDisruptionBudget, evicted: frozenset[str]
) -> bool:
    """Return whether the budget has lost a healthy pod other than by an eviction."""
    lost = {
        change.key: change.before
        for change in moment.pods
        if change.before is not None
        and _healthy(change.before)
        and not (change.after is not None and _healthy(change.after))
        and change.key not in evicted
    }
    return bool(_selected(key, budget, lost))


def victims(history: History) -> Iterator[Violation]:
    """Find pods that were preempted for a pod that is not more important.

    The Event of the preemption names the preemptor. If it was lost with its writer, there must at
    least be a more important pending pod.
    """
    preemptors = {
        event.involved_object.uid: event.message.removeprefix(_PREEMPTED_BY).partition(" ")[0]
        for revision in history.revisions
        for change in revision.changes
        if isinstance(event := change.object, Event)
    }
    priorities: dict[str, int] = {}
    for moment in replay(history):
        for change in moment.pods:
            if change.after is not None:
                priorities[change.uid] = change.after.spec.priority
        for change in moment.pods:
            victim = change.after
            if victim is None or not change.marked:
                continue
            if disrupted(victim) != REASON_PREEMPTION_BY_SCHEDULER:
                continue
            most = priorities.get(preemptors.get(change.uid, ""))
            if most is None:
                pods = moment.world.pods.values()
                waiting = (pod.spec.priority for pod in pods if not pod.spec.node_name)
                most = max(waiting, default=None)
            if most is not None and most > victim.spec.priority:
                continue
            than = "no pod" if most is None else f"a pod of priority {most}"
            text = f"pod {change.key} of priority {victim.spec.priority} was preempted for {than}"
            yield moment.violation(VICTIMS, text, PODS + change.key)
