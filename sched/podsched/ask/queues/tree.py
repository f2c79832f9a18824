"""The trees of cohorts and queues as plain data: quota, usage, borrowing, waiting units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from podsched.api.conditions import is_terminating
from podsched.api.objects import object_key
from podsched.queues.amounts import amount_text
from podsched.queues.quota import FlavorResource, Node
from podsched.queues.shares import dominant_share
from podsched.queues.stored import is_stopped
from podsched.term.admission.admission import Admission
from podsched.term.admission.reservation_text import time_text
from podsched.term.admission.tallies import QueueKey

#: A cohort or a queue with its children below it.
Tree = dict[str, Any]


def queue_trees(admission: Admission) -> list[Tree]:
    """Return the trees by name, trees of cohorts first.

    Amounts are quantities. A cohort's quota includes what its children lend, and its usage is what
    they borrow. ``share`` is in thousandths of the lendable amount, as in the status. ClusterQueues
    below a cycle of cohorts are trees of their own.
    """
    forest = admission.snapshot.forest
    local_queues: dict[str, list[Tree]] = {}
    for item in admission.cluster.list("LocalQueue"):
        tree = _local_queue(admission, object_key(item))
        local_queues.setdefault(item.spec.cluster_queue, []).append(tree)
    made: dict[Node, Tree] = {}
    nodes = [*forest.cohorts.values(), *forest.queues.values()]
    for node in sorted(nodes, key=lambda one: (not one.is_cohort, one.name)):
        made[node] = _tree(admission, node, local_queues)
    for node, tree in made.items():
        if node.parent is not None:
            made[node.parent]["children"].append(tree)
    for node in sorted(forest.cohorts.values(), key=lambda node: -node.depth):
        for child in made[node]["children"]:
            for count in ("waiting", "admitted"):
                made[node][count] += child[count]
    roots = [made[node] for node in made if node.parent is None]
    orphans = sorted(local_queues.keys() - forest.queues.keys())
    return [*roots, *(_missing(name, local_queues[name]) for name in orphans)]


def _tree(admission: Admission, node: Node, local_queues: Mapping[str, list[Tree]]) -> Tree:
    tree: Tree = {
        "kind": "Cohort" if node.is_cohort else "ClusterQueue",
        "name": node.name,
        "problem": "",
        "share": dominant_share(node).rounded,
        "waiting": 0,
        "admitted": 0,
        "quotas": [_quota(node, key) for key in sorted({*node.quota, *node.usage})],
        "children": [],
    }
    if not node.is_cohort:
        tally = admission.tallies.of(QueueKey("ClusterQueue", node.name))
        tree |= {"waiting": tally.pending, "admitted": tally.admitted}
        tree["problem"] = _problem(admission, node.name)
        tree["reserved"] = _reserved(admission, node.name)
        tree["children"] = sorted(local_queues.get(node.name, ()), key=lambda one: str(one["name"]))
    return tree


def _quota(node: Node, key: FlavorResource) -> Tree:
    text = partial(amount_text, key.resource)
    quota, used = node.quota.get(key, 0), node.usage.get(key, 0)
    return {
        "flavor": key.flavor,
        "resource": key.resource,
        "quota": text(quota),
        "used": text(used),
        "borrowed": text(node.borrowed(key)),
        "available": text(max(0, node.available(key))),
    }


def _reserved(admission: Admission, queue: str) -> list[Tree]:
    """Return the starts promised to units of a ClusterQueue, the earliest first."""
    reservations = admission.reservations
    found = [(one.start, key) for key, one in reservations.of.items() if one.queue == queue]
    return [
        {"unit": key, "start": time_text(start), "nodes": sorted(reservations.of[key].nodes)}
        for start, key in sorted(found)
    ]


def _problem(admission: Admission, name: str) -> str:
    """Return why a ClusterQueue admits nothing; "" if it is active."""
    item = admission.cluster.get("ClusterQueue", "", name)
    if item is not None and is_terminating(item):
        return "terminating"
    if item is not None and is_stopped(item):
        return "stopped"
    if name in admission.snapshot.forest.cyclic:
        return "below a cycle of cohorts"
    return "" if admission.snapshot.admits(name) else "a flavor or topology is missing"


def _local_queue(admission: Admission, key: str) -> Tree:
    tally = admission.tallies.of(QueueKey("LocalQueue", key))
    item = admission.cluster.get("LocalQueue", *key.split("/", 1))
    stopped = item is not None and is_stopped(item)
    return {
        "kind": "LocalQueue",
        "name": key,
        "problem": "stopped" if stopped else "",
        "waiting": tally.pending,
        "admitted": tally.admitted,
        "quotas": [
            {
                "flavor": one.flavor,
                "resource": one.resource,
                "used": amount_text(one.resource, number),
            }
            for one, number in sorted(tally.usage.items())
            if number
        ],
        "children": [],
    }


def _missing(name: str, local_queues: Iterable[Tree]) -> Tree:
    """Return an entry for a ClusterQueue that LocalQueues name but that does not exist."""
    children = list(local_queues)
    counts = {one: sum(child[one] for child in children) for one in ("waiting", "admitted")}
    known = {"kind": "ClusterQueue", "name": name, "problem": "does not exist"}
    return {**known, "share": 0, **counts, "quotas": [], "children": children}
