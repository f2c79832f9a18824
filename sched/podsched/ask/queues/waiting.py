"""Explain why a unit waits in its queue: units ahead, missing quota, its borrowers, and remedies.

The unit is tried on the admission's own snapshot or on a changed copy of it. So the answer is that
of the next admission cycle, but nodes are not looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from podsched.ask.queues.node_room import IS_ADMITTED, WAITS_FOR_NODES
from podsched.lib.counted import counted, listed
from podsched.lib.groups import lists_by_key
from podsched.queues.amounts import amount_text
from podsched.queues.assignment import Assignment, Mode
from podsched.queues.cycle import nominate, run_cycle
from podsched.queues.objects import PODS, Policy, Strategy, Workload
from podsched.queues.order import queue_order
from podsched.queues.pending import PendingByUsage
from podsched.queues.quota import FlavorResource, Node, Quota
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cohort
from podsched.queues.victims import Victim
from podsched.term.admission.admission import Admission
from podsched.term.admission.reservation_text import time_text
from podsched.v1.scheduling_pb2 import Explanation, QueueAdmission

#: Max units ahead that are looked at, and max names of units or queues in a list.
_MOST_AHEAD: Final = 100
_MOST_NAMED: Final = 5
#: If more units are ahead, none are named, because sorting them would take too long.
_MOST_SORTED: Final = 2_000
#: Max priorities, and max choices of flavors, that are tried: each is a search for victims.
_MOST_TRIED: Final = 3
MAX_PRIORITY: Final = 1_000_000_000


def add_admission(answer: Explanation, admission: Admission, key: str) -> None:
    """Add why a unit waits in its queue, if it is in one."""
    found = explain_admission(admission, key)
    if found is not None:
        answer.admission.CopyFrom(found)


def explain_admission(admission: Admission, key: str) -> QueueAdmission | None:
    """Explain a unit, by its key; None if it is in no queue.

    Call it on a scheduler's admission only between two of its cycles: it changes the snapshot for a
    try, and puts it back.
    """
    unit = admission.units.get(key)
    if unit is None:
        return None
    # A pod that has to be in a queue and is in none is a unit, too.
    local_queue = unit.local_queue_key if unit.local_queue else ""
    answer = QueueAdmission(local_queue=local_queue, cluster_queue=unit.queue)
    if not unit.waiting:
        answer.sentence = f"{_capital(IS_ADMITTED)} {unit.queue}."
        return answer
    workload, problem = admission.turns.workloads.get(key), admission.problems.get(key)
    if problem is not None:
        answer.sentence = f"It is kept out of its queue: {problem.message}."
    elif workload is None:
        answer.sentence = (
            "It is not in its queue yet: members, or their claims, are missing, or pods have "
            "scheduling gates."
        )
    else:
        _explain(answer, admission, workload)
    return answer


def preempted_pods(admission: Admission, key: str) -> list[str]:
    """Return the pods that a waiting unit would preempt by quota, "namespace/name"."""
    unit, workload = admission.units.get(key), admission.turns.workloads.get(key)
    if unit is None or not unit.waiting or workload is None:
        return []
    hold = admission.holds.of.get(key)
    if hold is not None and hold.victims:
        keys = sorted(hold.victims)
    else:
        _, victims = _nominated(admission, admission.snapshot, workload)
        keys = [one.workload.key for one in victims]
    return [pod.key for one in keys for pod in admission.units[one].held.values()]


def _explain(answer: QueueAdmission, admission: Admission, workload: Workload) -> None:
    snapshot = admission.snapshot
    assignment, victims = _nominated(admission, snapshot, workload)
    blocking = _add_ahead(answer, admission, workload)
    hold = admission.holds.of.get(workload.key)
    if hold is not None and hold.victims:
        names = sorted(hold.victims)
        answer.victims.extend(names[:_MOST_NAMED])
        gone = f"{counted(len(names), 'preempted unit')} {'is' if len(names) == 1 else 'are'} gone"
        answer.sentence = f"It waits until {gone}: {listed(names, _MOST_NAMED)}."
        return
    if assignment.mode is Mode.FIT:
        why = WAITS_FOR_NODES
        kept = _backs_off(admission, workload.key)
        kept = kept or _kept_for_others(admission, workload, assignment)
        kept = kept or _kept_for_heads(admission, workload)
        if kept or blocking:
            kept = kept or f"{listed(blocking, _MOST_NAMED)} would be admitted first"
            why = f"its quota suffices now, but {kept}"
    else:
        _add_shortages(answer, snapshot, workload)
        why = _shortages_text(answer) or assignment.message or "no flavor fits it"
        if victims:
            names = [one.workload.key for one in victims]
            answer.victims.extend(names[:_MOST_NAMED])
            why += f"; it would preempt {listed(names, _MOST_NAMED)} if it fits nodes then"
        answer.changes.extend(_changes(admission, workload, victims))
    why = "; ".join(filter(None, (why, admission.reservations.promise(workload.key))))
    answer.sentence = f"{_capital(why)}."


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _kept_for_others(admission: Admission, workload: Workload, assignment: Assignment) -> str:
    """Return which promised start of others needs quota or a node that this unit would use now."""
    reservations = admission.reservations
    if not reservations.of:
        return ""
    delay = reservations.delays.delay(workload, assignment.usage, ())
    return delay or reservations.delays.kept_node(workload)


def _kept_for_heads(admission: Admission, workload: Workload) -> str:
    """Return for which heads that block other queues quota is kept from a unit, or ""."""
    turns, snapshot = admission.turns, admission.snapshot
    root = snapshot.node(workload.queue).root
    heads = [
        turns.workloads[key]
        for name, key in turns.keepers.items()
        if name in turns.blocked and key in turns.workloads and name != workload.queue
        if snapshot.node(name).root is root
    ]
    entries = run_cycle(snapshot, [*heads, workload], admission.rules) if heads else ()
    if all(one.admitted for one in entries if one.workload is workload):
        return ""
    return f"it is kept for {listed([one.key for one in heads], _MOST_NAMED)}"


def _backs_off(admission: Admission, key: str) -> str:
    """Return until when the leader does not try a unit, or ""."""
    until, books = admission.turns.backoffs.at(key), admission.books
    # Only the leader has an epoch; elsewhere the time is not known.
    if until is None or not books.epoch or until <= books.now:
        return ""
    return f"it backs off until {time_text(until)}"


def _nominated(
    admission: Admission, snapshot: Snapshot, workload: Workload
) -> tuple[Assignment, list[Victim]]:
    return nominate(snapshot, snapshot.queues[workload.queue], workload, admission.rules)


# ------------------------------------------------------------------ its position


def _add_ahead(answer: QueueAdmission, admission: Admission, workload: Workload) -> list[str]:
    """Add the number of units ahead and their names; return those that block this unit.

    In a StrictFIFO queue these are all units ahead, in other queues those that have quota now.
    """
    ahead = _ahead_of(admission, workload)
    answer.ahead = len(ahead)
    if len(ahead) > _MOST_SORTED:
        ahead = []
    ahead = heapq.nsmallest(_MOST_AHEAD, ahead, key=queue_order)
    strict = admission.snapshot.queues[workload.queue].strategy is Strategy.STRICT
    blocking = [one.key for one in ahead if strict or _has_quota(admission.snapshot, one)]
    answer.first.extend(blocking[:_MOST_NAMED])
    answer.ahead_admissible = answer.ahead if strict else len(blocking)
    # Nobody has kept a unit from being tried that was tried on nodes.
    return blocking if strict or not admission.turns.waits_for_nodes(workload.key) else []


def _ahead_of(admission: Admission, workload: Workload) -> list[Workload]:
    """Return the units before a unit in its queue, in no particular order."""
    pending = admission.turns.pending[workload.queue]
    sticky, by_usage = pending.sticky, isinstance(pending, PendingByUsage)

    def turn(one: Workload) -> tuple[Any, ...]:
        past = admission.histories.usage(one.local_queue) if by_usage else 0.0
        return one.key != sticky, past, *queue_order(one)

    own, priority, since = turn(workload), workload.priority, workload.queued_at
    found = []
    for one in admission.turns.workloads.values():
        if one.queue != workload.queue:
            continue
        if not by_usage and one.key != sticky and workload.key != sticky:
            # Most are compared without building sort keys: there may be 100,000.
            if one.priority < priority:
                continue
            if one.priority > priority or one.queued_at < since:
                found.append(one)
                continue
            if one.queued_at > since:
                continue
        if turn(one) < own:
            found.append(one)
    return found


def _has_quota(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether each group of resources has a flavor with room for all of a unit, without victims."""
    queue, node = snapshot.queues[workload.queue], snapshot.node(workload.queue)
    asked = workload.wanted
    covered = all(queue.group(name) for name, need in workload.requests.items() if need)
    return covered and all(
        any(
            all(
                asked[resource] <= node.available(FlavorResource(flavor, resource))
                for resource in group.resources & asked.keys()
            )
            for flavor in group.flavors
        )
        for group in queue.groups
    )


# ------------------------------------------------------------------ missing quota


def _add_shortages(answer: QueueAdmission, snapshot: Snapshot, workload: Workload) -> None:
    """Add each flavor whose quota is too small for the whole unit."""
    queue, node = snapshot.queues[workload.queue], snapshot.node(workload.queue)
    for resource, need in sorted(workload.wanted.items()):
        group = queue.group(resource)
        for flavor in () if group is None else group.flavors:
            key = FlavorResource(flavor, resource)
            free = node.available(key)
            if need <= free:
                continue
            answer.shortages.add(
                flavor=flavor,
                resource=resource,
                needed=amount_text(resource, need),
                available=amount_text(resource, free),
                missing=amount_text(resource, need - free),
                most=amount_text(resource, node.potential_available(key)),
                beyond_maximum=need > node.potential_available(key),
                borrowers=_borrowers(snapshot, node, key)[:_MOST_NAMED],
            )


def _borrowers(snapshot: Snapshot, node: Node, key: FlavorResource) -> list[str]:
    """Return the other queues of the tree that use more than their quota, the largest first."""
    root, found = node.root, []
    for name, other in snapshot.forest.queues.items():
        more = other.usage.get(key, 0) - other.quota.get(key, 0)
        if more > 0 and other is not node and other.root is root:
            found.append((-more, name))
    return [f"{name} borrows {amount_text(key.resource, -more)}" for more, name in sorted(found)]


def _shortages_text(answer: QueueAdmission) -> str:
    """Return the shortages as a part of a sentence; the flavors of a resource are alternatives."""
    by_resource = lists_by_key((one.resource, _shortage_text(one)) for one in answer.shortages)
    texts = [f"of {name} {', or '.join(parts)}" for name, parts in by_resource.items()]
    return f"it needs more quota: {'; '.join(texts)}" if texts else ""


def _shortage_text(one: QueueAdmission.Shortage) -> str:
    if one.beyond_maximum:
        return f"{one.needed} in flavor {one.flavor}, where it can never have more than {one.most}"
    who = f"; {', '.join(one.borrowers)}" if one.borrowers else ""
    asks = f"asks for {one.needed}, {one.available} available{who}"
    return f"{one.missing} in flavor {one.flavor} ({asks})"


# ------------------------------------------------------------------ remedies


def _changes(admission: Admission, workload: Workload, victims: list[Victim]) -> Iterator[str]:
    """Yield a small change of each kind after which it has quota.

    More quota and a higher priority are tried, without looking at nodes; how many pods would fit is
    computed.
    """
    yield from _more_quota(admission, workload)
    if not victims and (priority := _more_priority(admission, workload)) is not None:
        yield f"priority {priority}: it would then preempt others"
    if len(workload.pod_sets) == 1 and (fewer := _fewer(admission, workload)):
        yield f"{fewer} of its {workload.pod_sets[0].count} pods: so many have quota now"


def _more_quota(admission: Admission, workload: Workload) -> Iterator[str]:
    """Yield the flavor that lacks least, with the nominal quota that would suffice."""
    snapshot, asked = admission.snapshot, workload.wanted
    queue, node = snapshot.queues[workload.queue], snapshot.node(workload.queue)
    tried = []
    for flavors in _choices(admission, workload):
        more = {}
        for resource, need in asked.items():
            if (flavor := flavors.get(resource)) is not None:
                key = FlavorResource(flavor, resource)
                lacks = need - node.available(key)
                if lacks > 0:
                    more[key] = lacks
        tried.append((len(more), sum(more.values()), more))
    for _, _, more in sorted(tried, key=lambda one: one[:2])[:_MOST_TRIED]:
        quotas = dict(queue.quotas)
        for key, lacks in more.items():
            old = quotas.get(key, Quota())
            quotas[key] = replace(old, nominal=old.nominal + lacks)
        changed = _with_quotas(admission, workload.queue, quotas)
        assignment, _ = _nominated(admission, changed, workload)
        if more and assignment.mode is Mode.FIT:
            texts = [
                f"{key.flavor}/{key.resource}="
                f"{amount_text(key.resource, quotas[key].nominal)} "
                f"(+{amount_text(key.resource, lacks)})"
                for key, lacks in more.items()
            ]
            yield f"nominalQuota of ClusterQueue {workload.queue}: {', '.join(texts)}"
            return


def _choices(admission: Admission, workload: Workload) -> list[dict[str, str]]:
    """Return, for each place in the lists of flavors, the flavor of each resource."""
    queue = admission.snapshot.queues[workload.queue]
    longest = max((len(group.flavors) for group in queue.groups), default=0)
    return [
        {
            resource: group.flavors[min(index, len(group.flavors) - 1)]
            for group in queue.groups
            for resource in group.resources
        }
        for index in range(longest)
    ]


def _with_quotas(
    admission: Admission, name: str, quotas: Mapping[FlavorResource, Quota]
) -> Snapshot:
    """Return a copy of the snapshot with other quotas of a queue."""
    old = admission.snapshot
    queues = [
        replace(queue, quotas=quotas) if queue.name == name else queue
        for queue in old.queues.values()
    ]
    cohorts = map(read_cohort, admission.cluster.list("Cohort"))
    made = Snapshot(queues, cohorts, old.flavors.values())
    for queue, node in old.forest.queues.items():
        made.add_usage(queue, node.usage)
    return made


def _more_priority(admission: Admission, workload: Workload) -> int | None:
    """Return the lowest priority at which it would find victims; None if none is found."""
    snapshot = admission.snapshot
    preemption = snapshot.queues[workload.queue].preemption
    policies = {preemption.within, preemption.reclaim}
    if policies <= {Policy.NEVER}:
        return None
    root = snapshot.node(workload.queue).root
    running = {
        one.priority
        for name, node in snapshot.forest.queues.items()
        if node.root is root
        for one in snapshot.workloads[name].values()
        if one.key != workload.key
    }
    above = sorted(number for number in running if number >= workload.priority)[:_MOST_TRIED]
    # Of equal priority, newer units may be victims, too.
    steps = (0, 1) if Policy.LOWER_OR_NEWER in policies else (1,)
    for priority in sorted({number + step for number in above for step in steps}):
        if priority > MAX_PRIORITY:
            return None
        _, victims = _nominated(admission, snapshot, replace(workload, priority=priority))
        # A gang that grows is admitted already, and cannot be preempted by itself.
        if victims and all(one.workload.key != workload.key for one in victims):
            return priority
    return None


def _fewer(admission: Admission, workload: Workload) -> int:
    """Return how many of its pods have quota in one flavor now; 0 if none or all have."""
    [pods] = workload.pod_sets
    node, most = admission.snapshot.node(workload.queue), 0
    for flavors in _choices(admission, workload):
        fits = pods.count
        for resource, number in {**pods.requests, PODS: 1}.items():
            if number and resource in flavors:
                key = FlavorResource(flavors[resource], resource)
                fits = min(fits, node.available(key) // number)
        most = max(most, fits)
    return most if most < pods.count else 0
