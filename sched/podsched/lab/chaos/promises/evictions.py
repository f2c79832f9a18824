"""Whom the system itself may evict: within budgets, and for more important pods only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from podsched.api.conditions import REASON_PREEMPTION_BY_SCHEDULER
from podsched.lab.chaos.history import History
from podsched.lab.chaos.promises.violation import Violation
from podsched.lab.chaos.records import BudgetFact, PodFact
from podsched.lab.chaos.replay import BUDGETS, PODS, Moment, replay

BUDGET = "no budget broken by evictions"
VICTIMS = "preemption victims of lower priority"

#: Seconds for which a budget may not know yet that a pod has failed or was deleted otherwise: the
#: controller that counts healthy pods follows them, and may change hands meanwhile.
NOTICE = 30.0


def budgets(history: History) -> Iterator[Violation]:
    """Find evictions, counted by a budget, that left fewer healthy pods than it demands.

    What happens to its pods otherwise, by preemption or by a node's failure, budgets cannot
    prevent: an eviction is not judged for ``NOTICE`` seconds after that.
    """
    counted: dict[str, frozenset[str]] = {}
    disturbed: dict[str, float] = {}
    for moment in replay(history):
        world, at = moment.world, moment.revision.at
        evicted = _counted_now(moment, counted)
        for key, budget in world.budgets.items():
            mine = evicted.get(key, frozenset())
            if _lost_otherwise(moment, key, budget, mine):
                disturbed[key] = at
            if not mine or at - disturbed.get(key, -NOTICE) < NOTICE:
                continue
            healthy = sum(_healthy(pod) for pod in _selected(key, budget, world.pods).values())
            if healthy < budget.desired:
                names = ", ".join(sorted(mine))
                text = (
                    f"evicting {names} left {healthy} healthy pods of budget {key}, which "
                    f"demands {budget.desired}"
                )
                keys = (BUDGETS + key, *(PODS + name for name in sorted(mine)))
                yield Violation(BUDGET, text, at, moment.revision.number, keys)


def _counted_now(moment: Moment, counted: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the keys of the pods whose eviction this revision has counted, by budget."""
    found = {}
    for change in moment.revision.changes:
        if change.budget is None:
            continue
        key = change.key.removeprefix(BUDGETS)
        namespace = key.partition("/")[0]
        now = frozenset(f"{namespace}/{name}" for name in change.budget.disrupted)
        marked = {pod.key for pod in moment.pods if pod.marked}
        found[key] = (now - counted.get(key, frozenset())) & marked
        counted[key] = now
    return found


def _selected(key: str, budget: BudgetFact, pods: Mapping[str, PodFact]) -> dict[str, PodFact]:
    namespace = key.partition("/")[0] + "/"
    return {
        name: pod
        for name, pod in pods.items()
        if name.startswith(namespace) and budget.match_labels.items() <= pod.labels.items()
    }


def _healthy(pod: PodFact) -> bool:
    return pod.ready and not pod.deleting and not pod.finished


def _lost_otherwise(moment: Moment, key: str, budget: BudgetFact, evicted: frozenset[str]) -> bool:
    """Return whether the budget has lost a healthy pod by something else than an eviction."""
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
    """Find pods that were preempted for one that is not more important.

    The event of the preemption names that one. Without it, which may be lost with its writer, a
    pod must at least be waiting that is more important.
    """
    preemptors = {
        change.preemption.victim: change.preemption.preemptor
        for revision in history.revisions
        for change in revision.changes
        if change.preemption is not None
    }
    priorities: dict[str, int] = {}
    for moment in replay(history):
        for change in moment.pods:
            if change.after is not None:
                priorities[change.uid] = change.after.priority
        for change in moment.pods:
            victim = change.after
            if victim is None or not change.marked:
                continue
            if victim.disrupted != REASON_PREEMPTION_BY_SCHEDULER:
                continue
            most = priorities.get(preemptors.get(change.uid, ""))
            if most is None:
                waiting = (pod.priority for pod in moment.world.pods.values() if not pod.node)
                most = max(waiting, default=None)
            if most is not None and most > victim.priority:
                continue
            than = "no pod" if most is None else f"a pod of priority {most}"
            text = f"pod {change.key} of priority {victim.priority} was preempted for {than}"
            where = (moment.revision.at, moment.revision.number, (PODS + change.key,))
            yield Violation(VICTIMS, text, *where)
