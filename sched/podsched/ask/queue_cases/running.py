"""Decide queue cases, and compare the results with those that the cases expect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from podsched.ask.case_lines import described, results_of
from podsched.ask.queue_cases.reading import (
    BadCase,
    Case,
    gate,
    matches,
    read_amounts,
    read_pod_sets,
    read_snapshot,
    read_topology,
    read_topology_pods,
    read_workload,
    write_amounts,
)
from podsched.queues.amounts import amount, amount_text
from podsched.queues.assignment import Assignment, Mode, Outcome, Waiting
from podsched.queues.cycle import Entry, Rules, find_victims, reserved, run_cycle
from podsched.queues.domains import Placed, place
from podsched.queues.fair_victims import BOTH, FairStrategy
from podsched.queues.flavors import Assigner
from podsched.queues.objects import Strategy, Workload
from podsched.queues.order import Requeue
from podsched.queues.partial import search_counts
from podsched.queues.pending import Pending
from podsched.queues.quota import FlavorResource, Node, path_of
from podsched.queues.shares import dominant_share
from podsched.queues.snapshot import Snapshot
from podsched.queues.victims import Preemptor, Victim, preempted_message, victim_order

Result = dict[str, Any]

_WRONG_NAMESPACE = "workload namespace doesn't match ClusterQueue selector"


def run_lines(lines: Iterable[str | bytes]) -> Iterator[Result]:
    """Return ``{"id", "agrees", "got"}`` per line; a broken one has "error" in place of "got"."""
    return results_of(lines, _compare, key="id", read=_read, broken=_broken)


def _read(line: str | bytes) -> Case:
    case = json.loads(line)
    if not isinstance(case, dict):
        raise BadCase("no JSON object")
    return case


def _compare(case: Case) -> Result:
    got = run_case(case)
    return {"agrees": agrees(case["expect"], got), "got": got}


def _broken(error: Exception) -> Result:
    missing = isinstance(error, KeyError)
    return {"agrees": False} | described(BadCase(f"{error} is missing") if missing else error)


def run_case(case: Case) -> Result:
    """Return the decision in the form of ``expect``. Raises BadCase, and what reading raises."""
    kind = case.get("kind")
    if kind not in _RUNNERS:
        raise BadCase(f"unknown kind {kind!r}")
    return _RUNNERS[kind](case)


def agrees(expected: Result, got: Result) -> bool:
    """Whether a result has all that is expected; it may have more.

    Quantities are compared by value; reasons and victims have no order. A job's UID counts only if
    the case gives it.
    """
    return _same({key: got.get(key) for key in expected}, expected)


_UNORDERED = ("reasons", "preempted", "newlyAdmitted")
_JOB = re.compile(r"JobUID: [^)]*")


def _same(got: object, expected: object, name: str = "") -> bool:
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if name == "usage":
            return _amounts(got) == _amounts(expected)
        if name == "skippedPreemptions":
            return agrees(dict(expected), dict(got))
        names = {*got, *expected}
        return all(_same(got.get(key), expected.get(key), key) for key in names)
    if isinstance(expected, list) and isinstance(got, list):
        if name in _UNORDERED:
            expected, got = sorted(expected, key=_name), sorted(got, key=_name)
        return len(expected) == len(got) and all(
            agrees(of, item) if isinstance(of, dict) and isinstance(item, dict) else _same(item, of)
            for item, of in zip(got, expected, strict=True)
        )
    if isinstance(got, str) and isinstance(expected, str) and "JobUID: UNKNOWN" in got:
        expected = _JOB.sub("JobUID: UNKNOWN", expected)
    return got == expected


def _name(item: object) -> str:
    if isinstance(item, Mapping):
        return str(item.get("name") or item.get("workload"))
    return str(item)


def _amounts(usage: Mapping[str, Any]) -> dict[str, int]:
    return {
        resource: amount(resource, one) if isinstance(one, str) else one
        for resource, one in usage.items()
    }


def _rules(case: Case) -> Rules:
    config = case.get("config", {})
    strategies = tuple(FairStrategy(name) for name in config.get("preemptionStrategies", ()))
    recompute = gate(case, "RecomputeAssignmentUponPreemptionTargetsOverlap", default=True)
    return Rules(bool(config.get("fairSharing")), strategies or BOTH, recompute)


def _available(case: Case) -> Result:
    queues = read_snapshot(case).forest.queues

    def amounts(of: Callable[[Node, FlavorResource], int]) -> Result:
        return {
            name: write_amounts({key: of(node, key) for key in node.root.quota})
            for name, node in queues.items()
        }

    return {
        "available": amounts(Node.available),
        "potentiallyAvailable": amounts(Node.potential_available),
    }


def _dominant_share(case: Case) -> Result:
    forest = read_snapshot(case).forest
    extra = read_amounts(case.get("extraRequest", {}))

    def shown(node: Node) -> Result:
        share = dominant_share(node, extra)
        return {
            "name": node.name,
            "kind": "Cohort" if node.is_cohort else "ClusterQueue",
            "share": share.rounded,
            "resource": share.resource,
            "borrowing": bool(share.borrowed),
        }

    nodes = [*forest.queues.values(), *forest.cohorts.values()]
    by_name = {node.name: shown(node) for node in nodes}
    return {"nodes": [by_name[one["name"]] for one in case["expect"]["nodes"]]}


def _reserve(case: Case) -> Result:
    snapshot = read_snapshot(case)
    need = read_amounts(case["assignmentUsage"])
    if case["mode"] == "Preempt":
        (node,) = snapshot.forest.queues.values()
        need = reserved(node, need, borrowing=case["borrowing"] > 0)
    return {"reserved": write_amounts(need)}


def _victim_order(case: Case) -> Result:
    own = case["preemptorClusterQueue"]
    workloads = [read_workload(case, one) for one in case["workloads"]]
    return {"order": [one.key for one in victim_order(workloads, own)]}


def _queue_order(case: Case) -> Result:
    pending = Pending(Strategy(case["config"]["queueingStrategy"]))
    for one in case["workloads"]:
        pending.push(read_workload(case, one))
    head = pending.pop()
    return {"head": head and head.key}


def _requeue(case: Case) -> Result:
    pending = Pending(Strategy(case["config"]["queueingStrategy"]))
    pending.requeue(
        Workload("workload"), Requeue(case["reason"]), untried=case.get("pendingFlavors", False)
    )
    return {"inadmissible": bool(pending.inadmissible), "sticky": pending.sticky is not None}


def _partial_admission(case: Case) -> Result:
    most = case["largestTotalThatFits"]
    pod_sets = read_pod_sets(case, case)
    found = search_counts(pod_sets, lambda counts: counts if sum(counts) <= most else None)
    return {"found": found is not None, "total": sum(found or ())}


def _assign_flavors(case: Case) -> Result:
    snapshot = read_snapshot(case)
    queue = snapshot.queues[case.get("clusterQueue") or case["clusterQueues"][0]["name"]]
    workload = Workload("workload", read_pod_sets(case, case))
    oracle = partial(_oracle, case.get("preemptionOracle", {}))
    assignment = Assigner(snapshot, queue, workload, oracle, _rules(case).fair).assign()
    got: Result = {
        "mode": assignment.mode.text,
        "podSets": [
            {
                "name": pods.name,
                "count": pods.count,
                "flavors": {
                    resource: {"flavor": one.flavor, "mode": one.mode.text}
                    for resource, one in pods.flavors.items()
                },
                "reasons": list(pods.reasons),
            }
            for pods in assignment.pod_sets
        ],
        "flavorsOnly": {
            resource: one.flavor
            for pods in assignment.pod_sets
            for resource, one in pods.flavors.items()
        },
        "usage": write_amounts(assignment.usage),
        "borrowing": assignment.level,
    }
    if assignment.waiting:
        got["noFitReason"] = assignment.waiting.value
    return got


_POSSIBILITIES = {
    "NoCandidates": Outcome.NO_CANDIDATES,
    "Preempt": Outcome.PREEMPT,
    "Reclaim": Outcome.RECLAIM,
}


def _oracle(written: Mapping[str, Any], key: FlavorResource, _wanted: int) -> tuple[Outcome, int]:
    """Return the outcome that a case gives; by default preemption is possible without borrowing."""
    answer = written.get(f"{key.flavor}/{key.resource}")
    if answer is None:
        return Outcome.PREEMPT, 0
    return _POSSIBILITIES[answer["possibility"]], answer["borrowAfter"]


def _topology(case: Case) -> Result:
    pod_sets = [read_topology_pods(one) for one in case["podSets"]]
    least_free = gate(case, "TASProfileMixed", default=True)
    placed = place(read_topology(case), pod_sets, least_free=least_free)
    names = [pods.name for pods in pod_sets if pods.name in placed]
    return {"podSets": [_placed(name, placed[name]) for name in names]}


def _placed(name: str, placed: Placed) -> Result:
    if placed.reason:
        return {"name": name, "reason": placed.reason}
    domains = [{"values": list(values), "count": count} for values, count in placed.domains]
    return {"name": name, "levels": list(placed.levels), "domains": domains}


def _preemption(case: Case) -> Result:
    snapshot = read_snapshot(case)
    written = case["incoming"]
    queue = snapshot.queues[written["clusterQueue"]]
    workload = read_workload(case, written)
    assigned = case["assignment"]
    if isinstance(assigned, Mapping):
        assigned = [{"podSet": pods.name, "flavors": assigned} for pods in workload.pod_sets]
    pod_sets = {pods.name: pods for pods in workload.pod_sets}
    need: dict[FlavorResource, int] = {}
    short = set()
    for one in assigned:
        pods = pod_sets[one["podSet"]]
        count = one.get("count")
        total = pods.total(pods.count if count is None else count)
        for resource, chosen in one["flavors"].items():
            key = FlavorResource(chosen["flavor"], resource)
            need[key] = need.get(key, 0) + total.get(resource, 0)
            if chosen["mode"] == "Preempt":
                short.add(key)
    preemptor = Preemptor(workload, queue, need, frozenset(short))
    victims = find_victims(snapshot, preemptor, _rules(case))
    preempted = [
        {"name": one.pop("workload"), **one}
        for one in _preempted(snapshot, queue.name, workload, victims)
    ]
    return {"preempted": preempted, "issued": len(victims)}


def _preempted(
    snapshot: Snapshot, queue: str, preemptor: Workload, victims: Iterable[Victim]
) -> list[Result]:
    """Return the new evictions by name, without victims that are being evicted already."""
    path = path_of(snapshot.node(queue))
    return [
        {
            "workload": victim.workload.key,
            "reason": victim.reason.value,
            "message": preempted_message(
                preemptor, victim.reason, path, path_of(snapshot.node(victim.workload.queue))
            ),
        }
        for victim in sorted(victims, key=lambda one: one.workload.key)
        if not victim.workload.evicted
    ]


def _cycle(case: Case) -> Result:
    snapshot = read_snapshot(case)
    selectors = {one["name"]: one.get("namespaceSelector") for one in case["clusterQueues"]}
    labels = case.get("namespaces", {})
    local = {
        (one["namespace"], one["name"]): one["clusterQueue"] for one in case.get("localQueues", ())
    }
    waiting: dict[str, Pending] = {}
    namespace_of = {}
    got: Result = {"assignments": {}, "newlyAdmitted": [], "preempted": [], "pending": {}}
    for one in case.get("workloads", ()):
        workload = read_workload(case, one)
        namespace_of[workload.key] = one["namespace"]
        if "reserved" in one:
            got["assignments"][workload.key] = _written(one["reserved"])
        elif (name := local.get((one["namespace"], one.get("queue")), "")) in snapshot.queues:
            strategy = snapshot.queues[name].strategy
            waiting.setdefault(name, Pending(strategy)).push(replace(workload, queue=name))
    heads = []
    for name, pending in waiting.items():
        head = pending.pop() if snapshot.admits(name) else None
        if head is None:
            continue
        if matches(selectors[name], labels.get(namespace_of[head.key], {})):
            heads.append(head)
            continue
        pending.requeue(head, Requeue.NAMESPACE_MISMATCH)
        reason = Waiting.MISCONFIGURED.value
        got["pending"][head.key] = {"reason": reason, "message": _WRONG_NAMESPACE}
    got["skippedPreemptions"] = dict.fromkeys(snapshot.queues, 0)
    for entry in run_cycle(snapshot, heads, _rules(case)):
        _show(snapshot, entry, got, waiting[entry.queue.name])
    got["left"] = {name: sorted(one.active) for name, one in waiting.items() if one.active}
    got["inadmissible"] = {
        name: sorted(one.inadmissible) for name, one in waiting.items() if one.inadmissible
    }
    return got


def _show(snapshot: Snapshot, entry: Entry, got: Result, pending: Pending) -> None:
    """Add the result for one head of a queue to ``got``."""
    key, queue = entry.workload.key, entry.queue
    if entry.preempts:
        got["preempted"] += _preempted(snapshot, queue.name, entry.workload, entry.victims)
    if entry.admitted:
        got["newlyAdmitted"].append(key)
        got["assignments"][key] = _assignment(queue.name, entry.assignment)
        return
    if entry.mode is Mode.PREEMPT and entry.requeue is Requeue.FAILED_AFTER_NOMINATION:
        got["skippedPreemptions"][queue.name] += 1
    pending.requeue(entry.workload, entry.requeue, untried=entry.untried)
    got["pending"][key] = {"reason": entry.waiting or "Pending", "message": entry.message}


def _assignment(queue: str, assignment: Assignment) -> Result:
    return {
        "clusterQueue": queue,
        "podSets": [
            {
                "name": pods.name,
                "count": pods.count,
                "flavors": {resource: one.flavor for resource, one in pods.flavors.items()},
                "usage": {
                    resource: amount_text(resource, pods.requests.get(resource, 0))
                    for resource in pods.flavors
                },
            }
            for pods in assignment.pod_sets
        ],
    }


def _written(reserved_part: Mapping[str, Any]) -> Result:
    """Return a reservation as in the case, with canonical quantities."""
    return {
        "clusterQueue": reserved_part["clusterQueue"],
        "podSets": [
            {
                **{name: pods[name] for name in ("name", "count", "flavors")},
                "usage": {
                    resource: amount_text(resource, amount(resource, text))
                    for resource, text in pods["usage"].items()
                },
            }
            for pods in reserved_part["podSets"]
        ],
    }


_RUNNERS: dict[Any, Callable[[Case], Result]] = {
    "available": _available,
    "dominant-share": _dominant_share,
    "reserve": _reserve,
    "victim-order": _victim_order,
    "queue-order": _queue_order,
    "requeue": _requeue,
    "partial-admission": _partial_admission,
    "assign-flavors": _assign_flavors,
    "preemption": _preemption,
    "topology": _topology,
    "cycle": _cycle,
}
