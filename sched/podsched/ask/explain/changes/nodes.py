"""Uncordon a node, or add a node like an existing one.

A cordon is removed together with its taint, from one node at a time. The node wins that makes most
nodes feasible once it is uncordoned.

Among nodes to add, the smallest that is enough wins: by cpu, then memory, then the sum of all other
resources. A new node is a copy of an existing one with its own host name, not cordoned and without
the taints of the node controller (``node.kubernetes.io/``). It also gets copies of the original's
DaemonSet pods, and of the ResourceSlices of that node alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Final

import numpy as np

from podsched.api.kinds import kind_of
from podsched.api.node_copies import NodeDevices, NodeParts, copy_of_node
from podsched.api.node_labels import HOSTNAME
from podsched.api.quantity import format_decimal, format_quantity
from podsched.api.resources import CPU, MEMORY, allocatable_in_units
from podsched.api.tolerations import TAINT_UNSCHEDULABLE
from podsched.ask.explain.changes.question import MOST_TRIES, Kind, Question, best, honours_taints
from podsched.cache.trial import Trial
from podsched.framework.plugin import Remedy
from podsched.framework.pods import PodInfo
from podsched.lib.counted import counted
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change

_SLICE: Final = "ResourceSlice"
_DAEMONS: Final = "DaemonSet"


# ---------------------------------------------------------------------------------- uncordon


def uncordon(question: Question) -> Change | None:
    """Return the node to uncordon so that the pod fits; None if none is enough."""
    return best(_cordoned(question), lambda node: _uncordoned(question, node))


def _cordoned(question: Question) -> Iterator[v1.Node]:
    """Yield cordoned nodes; first those that only taints and the cordon rule out.

    Others are worth trying only if a spread constraint honours taints: then uncordoning a node adds
    it to the counted domains, which may make other nodes feasible.
    """
    nodes, rejections = question.cluster.columns, question.rejections
    cordoned = np.flatnonzero(nodes.alive & nodes.unschedulable)
    if rejections is None or not len(cordoned):
        return
    about = rejections.by_none_but(question.with_remedy(Remedy.TAINTS))
    likely = rejections.rows[about]
    first, rest = np.intersect1d(cordoned, likely), np.setdiff1d(cordoned, likely)
    for row in [*first.tolist(), *(rest.tolist() if honours_taints(question.pod) else ())]:
        yield nodes.node(row)


def _uncordoned(question: Question, node: v1.Node) -> Change | None:
    changed, name = deepcopy(node), node.metadata.name
    changed.spec.unschedulable = False
    kept = [taint for taint in node.spec.taints if taint.key != TAINT_UNSCHEDULABLE]
    del changed.spec.taints[:]
    changed.spec.taints.extend(kept)
    with Trial(question.cache) as trial:
        trial.put_node(changed)
        rows = question.feasible(question.pod)
    return question.change(Kind.UNCORDON, f"uncordon node {name}", 1.0, rows, node=name)


# ---------------------------------------------------------------------------------- one more


@dataclass(frozen=True, order=True, slots=True)
class _Shape:
    """The size of equal nodes: millicores, bytes, sum of all other resources; one node's name."""

    cpu: int
    memory: int
    rest: int
    devices: int
    name: str


def add_node(question: Question) -> Change | None:
    """Return the smallest node whose copy would make the pod fit; None if there is none."""
    for shape in sorted(shapes(question))[:MOST_TRIES]:
        with one_more(question, shape.name):
            rows = question.feasible(question.pod)
            cpu, memory = format_decimal(Fraction(shape.cpu, 1000)), format_quantity(shape.memory)
            devices = f", {counted(shape.devices, 'device')}" if shape.devices else ""
            text = f"add a node like {shape.name} (cpu {cpu}, memory {memory}{devices})"
            cores, name = shape.cpu / 1000, shape.name
            if change := question.change(Kind.NODE, text, cores, rows, node=name):
                return change
    return None


def shapes(question: Question) -> list[_Shape]:
    """Return one node, the first by name, of each set of nodes that plugins cannot tell apart.

    Nodes too small for the pod are left out.
    """
    columns = question.cluster.columns
    # An evaluation makes columns of all labels that plugins read; other labels do not matter.
    question.feasible(question.pod)
    keys = [key for key in columns.node_table.labels.columns if key != HOSTNAME]
    labels = np.stack([columns.taint_set, *map(columns.label, keys)], axis=1)
    found: dict[tuple[object, ...], _Shape] = {}
    cls = question.pod.cls
    wants_devices = cls.spec.resource_claims or any("/" in name for name in cls.requests)
    devices = NodeDevices(question.cluster.list(_SLICE) if wants_devices else ())
    fits = columns.alive.copy()
    for resource, amount in question.demand.items():
        fits &= columns.allocatable(resource) >= amount
    for row in np.flatnonzero(fits).tolist():
        status = columns.node(row).status
        allocatable, features = status.allocatable, tuple(sorted(status.declared_features))
        daemons = tuple(sorted(pod.cls.id for pod in _daemons(columns.pods(row).values())))
        mine = devices.of(columns.names[row])
        offered = tuple(sorted(map(_devices_of, mine)))
        amounts = tuple(sorted(allocatable.items()))
        limits = _volume_limits(question.cluster.get("CSINode", "", columns.names[row]))
        key = (labels[row].tobytes(), amounts, features, daemons, offered, limits)
        known = found.get(key)
        if known is None:
            count = sum(len(piece.spec.devices) for piece in mine)
            found[key] = _shape(columns.names[row], allocatable, count)
        elif columns.names[row] < known.name:
            found[key] = replace(known, name=columns.names[row])
    return list(found.values())


def _volume_limits(csi_node: v1.CSINode | None) -> tuple[tuple[str, bytes], ...] | None:
    """Return what NodeVolumeLimits reads of a CSINode: each driver with its limit."""
    if csi_node is None:
        return None
    return tuple(sorted((d.name, d.allocatable.SerializeToString()) for d in csi_node.spec.drivers))


def _devices_of(piece: v1.ResourceSlice) -> bytes:
    """Return a slice's devices as bytes to compare, without the names of its node and pool."""
    devices = v1.ResourceSliceSpec(
        driver=piece.spec.driver,
        devices=piece.spec.devices,
        shared_counters=piece.spec.shared_counters,
    )
    return devices.SerializeToString(deterministic=True)


def _shape(name: str, allocatable: Mapping[str, str], devices: int) -> _Shape:
    amounts = allocatable_in_units(allocatable)
    rest = sum(n for resource, n in amounts.items() if resource not in (CPU, MEMORY))
    return _Shape(amounts.get(CPU, 0), amounts.get(MEMORY, 0), rest, devices, name)


def _daemons(pods: Iterable[PodInfo]) -> Iterator[PodInfo]:
    return (pod for pod in pods if pod.cls.controller and pod.cls.controller[0] == _DAEMONS)


@contextmanager
def one_more(question: Question, like: str) -> Iterator[None]:
    """Add a copy of a node until the block ends; calls may be nested."""
    cluster, columns = question.cluster, question.cluster.columns
    row = columns.row_of(like)
    assert row is not None
    names = (f"{like}-like-{number}" for number in count(1))
    name = next(name for name in names if columns.row_of(name) is None)
    with Trial(question.cache) as trial:
        trial.put_node(copy_of_node(columns.node(row), name))
        csi_node = cluster.get("CSINode", "", like)
        parts = NodeParts([*cluster.list(_SLICE), *([csi_node] if csi_node else ())])
        for part in parts.copies(like, name):
            trial.put(kind_of(part).name, part)
        for daemon in list(_daemons(columns.pods(row).values())):
            # The pod's own name stays, as its claims are found by it.
            uid, key = f"{daemon.uid}-on-{name}", f"{daemon.key}-on-{name}"
            trial.assume(replace(daemon, uid=uid, key=key), name)
        yield
