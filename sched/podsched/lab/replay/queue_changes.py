"""Which units of queues a change would admit, and where: played in virtual time.

The leader's own code runs on a cluster's objects, as they are and with the change. A pod stays
where it is bound; what runs does not end by itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from podsched.api.conditions import POD_SCHEDULED, condition_of
from podsched.api.objects import AnyObject, Pod, key_of
from podsched.ask.queues.counting import admission_of
from podsched.ask.queues.waiting import explain_admission
from podsched.ask.whatif.claims import with_claims
from podsched.ask.whatif.plan import Decision, Forecast
from podsched.config.load import SchedulerConfiguration
from podsched.framework.plugin import PluginFactory
from podsched.lab.replay.simulation import cluster_after, simulated_configuration
from podsched.lab.replay.workload import Workload, scheduler_of
from podsched.term.admission.admission import Admission

#: Virtual seconds of a run: deciding takes none, and victims are gone after one.
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class UnitResult:
    """A unit that waits, or that is preempted; its pods are "namespace/name"."""

    unit: str
    cluster_queue: str
    admitted_without: bool
    """Whether it would be admitted without the change, too."""
    nodes: Mapping[str, str]
    """By pod, the node that a waiting pod gets."""
    preempted: Sequence[str]
    """Those of its pods that ran, and are preempted."""
    why: str
    """Why it still waits, "" if it does not."""


def play_change(
    before: Sequence[AnyObject],
    after: Sequence[AnyObject],
    config: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
) -> list[UnitResult]:
    """Return what becomes of the units that wait or are preempted, by ClusterQueue and name.

    ``before`` and ``after`` are the objects of a cluster, each with a uid, and the same with other
    quotas. Raises QuantityError, or PluginError for a broken plugin.
    """
    config = simulated_configuration(config)
    start = admission_of(before, config, factories)
    without, then = (_played(each, config, factories) for each in (before, after))
    results = []
    for key, unit in sorted(start.units.items(), key=lambda item: (item[1].queue, item[0])):
        preempted = sorted(pod.key for uid, pod in unit.held.items() if uid not in then.pods)
        if not unit.waiting and not preempted:
            continue
        left = then.admission.units.get(key)
        waits = left is not None and left.waiting
        why = explain_admission(then.admission, key) if waits else None
        results.append(
            UnitResult(
                unit=key,
                cluster_queue=unit.queue,
                admitted_without=any(without.pods.get(uid) for uid in unit.waiting),
                nodes={
                    pod.key: node
                    for uid, pod in unit.waiting.items()
                    if (node := then.pods.get(uid))
                },
                preempted=preempted,
                why="" if why is None else why.sentence,
            )
        )
    return results


def play_new_pods(
    objects: Sequence[AnyObject],
    new: Sequence[Pod],
    config: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
) -> tuple[Forecast, Sequence[AnyObject]]:
    """Return where new pods, some of them in queues, would go, and all objects afterwards.

    ``objects``: those of the cluster, without the new pods; all have a uid. A victim counts for the
    first new pod that gets its node, or else for the first that gets any node. Raises
    QuantityError, or PluginError for a broken plugin.
    """
    then = _played([*objects, *new], simulated_configuration(config), factories)
    victims: dict[str, list[str]] = {}
    for pod in objects:
        if isinstance(pod, Pod) and pod.spec.node_name and not then.pods.get(pod.metadata.uid):
            victims.setdefault(pod.spec.node_name, []).append(key_of(pod))
    nodes = [then.pods.get(pod.metadata.uid, "") for pod in new]
    # These had to go for their quota alone.
    first = next(filter(None, nodes), "")
    for node in victims.keys() - nodes:
        victims.setdefault(first, []).extend(victims.pop(node))
    waits, decisions = then.waits({pod.metadata.uid for pod in new}), []
    for pod, node in zip(new, nodes, strict=True):
        evicted = tuple(sorted(victims.pop(node, ())))
        why = "" if node else waits.get(pod.metadata.uid, "")
        decisions.append(Decision(key_of(pod), node, evicted, why))
    return Forecast(tuple(decisions)), then.objects


@dataclass(frozen=True, slots=True)
class _Played:
    """The end of a run: nodes of the pods by uid ("" without one), and the queues.

    ``messages``: of the condition PodScheduled of pods without a node, by uid.
    """

    pods: Mapping[str, str]
    messages: Mapping[str, str]
    admission: Admission
    objects: Sequence[AnyObject]

    def waits(self, uids: Set[str]) -> Mapping[str, str]:
        """Return why pods have no node, by uid: what units wait for, or what conditions say.

        Only the units of the pods ``uids`` are explained, each once.
        """
        waits = dict(self.messages)
        for key, unit in self.admission.units.items():
            if not uids.isdisjoint(unit.waiting) and (
                found := explain_admission(self.admission, key)
            ):
                waits |= dict.fromkeys(unit.waiting, found.sentence)
        return waits


def _played(
    objects: Sequence[AnyObject],
    config: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
) -> _Played:
    ours = {profile.scheduler_name for profile in config.profiles}
    pods = [item for item in objects if isinstance(item, Pod)]
    foreign = {pod.metadata.uid for pod in pods if scheduler_of(pod) not in ours}
    # Pods last: those that have a node find it there.
    ordered = sorted(with_claims(objects), key=lambda item: isinstance(item, Pod))
    workload = Workload(time.time(), _SECONDS, ordered, foreign=foreign, binds_volumes=True)
    cluster = cluster_after(workload, config, factories)
    kinds = {kind for kind, _ in cluster.stored}
    left = [item for kind in sorted(kinds) for item in cluster.objects(kind)]
    nodes, messages = {}, {}
    for pod in (item for item in left if isinstance(item, Pod)):
        nodes[pod.metadata.uid] = pod.spec.node_name
        condition = condition_of(pod.status, POD_SCHEDULED)
        if condition is not None and not pod.spec.node_name:
            messages[pod.metadata.uid] = condition.message
    return _Played(nodes, messages, admission_of(left, config, factories), left)
