"""Find the largest pod that still fits, and measure the fragmentation of free resources.

A *shape* is cpu and memory (and devices) in a fixed proportion. Its largest pod is found by
bisection over the amount of cpu. Each step evaluates the profile's filters for a pod that has only
requests (no tolerations, no affinity).

Figures, over the nodes that accept such a pod (Ready, not cordoned, without taints):

* *stranded* cpu of a shape with ``k`` bytes of memory for each milli-cpu: what is free on a node is
  usable by the shape up to ``u = min(free cpu, free memory / k)``. The rest of the free cpu,
  ``1 - sum(u) / sum(free cpu)``, is stranded; of memory, ``1 - sum(k u) / sum(free memory)``.
  (Stranding: Verma et al., Large-scale cluster management at Google with Borg, EuroSys 2015.)
* *fragmentation* of a resource: the share of the free amount that is on nodes where a pod does not
  fit, as the mean over the shapes of running pods, weighted by their number::

      F = sum over shapes m of p(m) * sum over nodes n where m does not fit of free(n) / sum free(n)

  (Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
  Gradient Descent, USENIX ATC 2023, section 3, relative to what is free.)
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from podsched.api.objects import Pod
from podsched.api.quantity import format_quantity
from podsched.api.resources import CPU, MEMORY
from podsched.ask.whatif.capacity import MOST, capacity
from podsched.ask.whatif.world import World
from podsched.framework.nodes import Int64s
from podsched.framework.verdicts import Rows

GIB = 1 << 30
#: GiB of memory per cpu of clouds' machine types: compute-optimized, general purpose,
#: memory-optimized.
RATIOS = (2, 4, 8)
#: Max shapes of running pods that are measured, the most frequent ones.
MAX_SHAPES = 8

#: Requests: cpu in milli-units, memory and the rest in whole units.
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest pod of a shape that fits: its requests, its node, and the stranded shares.

    ``requests`` is empty if no pod of the shape fits. Shares are in [0, 1].
    """

    requests: Amounts
    node_name: str
    nodes: int
    stranded_cpu: float
    stranded_memory: float


@dataclass(frozen=True, slots=True)
class RunningShape:
    """A frequent shape of running pods: their number, how many more fit, and on how many nodes.

    ``times``: the largest factor for its cpu and memory with which a pod still fits.
    """

    requests: Amounts
    pods: int
    more: int
    nodes: int
    times: Fraction


@dataclass(frozen=True, slots=True)
class Headroom:
    """Free and total amounts by resource, in units, with the figures of this module."""

    nodes: int
    total: Amounts
    free: Amounts
    ratios: Mapping[int, Largest]
    shapes: tuple[RunningShape, ...]
    fragmentation: Mapping[str, float]


def headroom(world: World) -> Headroom:
    """Return what still fits; does not change the world."""
    nodes = world.cluster.nodes
    rows = _fitting(world, {})
    free = {name: _free(world, rows, name) for name in (CPU, MEMORY)}
    total = {name: int(nodes.allocatable(name)[rows].sum()) for name in (CPU, MEMORY)}
    largest = {ratio: _largest_of_ratio(world, ratio, free) for ratio in RATIOS}
    counted = Counter(
        tuple(sorted(pod.cls.requests.items()))
        for row in rows.tolist()
        for pod in nodes.pods(row).values()
        if any(pod.cls.requests.values())
    ).most_common(MAX_SHAPES)
    shapes, missed = [], dict.fromkeys(free, 0.0)
    pods = sum(count for _, count in counted)
    for requests, count in counted:
        shape, fitting = _running_shape(world, dict(requests), count)
        shapes.append(shape)
        unfit = ~np.isin(rows, fitting)
        for name, amounts in free.items():
            if whole := int(amounts.sum()):
                missed[name] += count / pods * (int(amounts[unfit].sum()) / whole)
    sums = {name: int(amounts.sum()) for name, amounts in free.items()}
    return Headroom(len(rows), total, sums, largest, tuple(shapes), missed if pods else {})


def _largest_of_ratio(world: World, ratio: int, free: Mapping[str, Int64s]) -> Largest:
    bytes_per_milli = Fraction(ratio * GIB, 1000)
    shape = {CPU: Fraction(1), MEMORY: bytes_per_milli}
    requests, where = _largest(world, shape, int(free[CPU].max(initial=0)))
    usable = np.minimum(free[CPU], free[MEMORY] / float(bytes_per_milli))
    used = {CPU: float(usable.sum()), MEMORY: float(usable.sum()) * float(bytes_per_milli)}
    name = world.cluster.nodes.names[int(where[0])] if len(where) else ""
    stranded = {
        resource: 1 - used[resource] / int(free[resource].sum()) if free[resource].any() else 0.0
        for resource in used
    }
    return Largest(requests, name, len(where), stranded[CPU], stranded[MEMORY])


def _running_shape(world: World, requests: Amounts, count: int) -> tuple[RunningShape, Rows]:
    """Return the figures of a running shape, and the rows that fit one more of it."""
    fitting = _fitting(world, requests)
    more = capacity(world, _pod(requests), in_turn=MOST).total if len(fitting) else 0
    times = Fraction(0)
    base = requests.get(CPU, 0) or requests.get(MEMORY, 0)
    if base and len(fitting):
        unit = {name: Fraction(amount, base) for name, amount in requests.items()}
        name = CPU if requests.get(CPU) else MEMORY
        free = _free(world, fitting, name)
        found, _ = _largest(world, unit, int(free.max(initial=0)))
        times = Fraction(found[name], base)
    return RunningShape(requests, count, more, len(fitting), times), fitting


def _largest(world: World, shape: Mapping[str, Fraction], most: int) -> tuple[Amounts, Rows]:
    """Return the largest multiple of a shape, up to ``most``, that fits, and its rows."""
    tried: dict[int, tuple[Amounts, Rows]] = {0: ({}, np.empty(0, dtype=np.intp))}

    def is_too_large(number: int) -> bool:
        requests = {name: int(amount * number) for name, amount in shape.items()}
        tried[number] = requests, _fitting(world, requests)
        return not len(tried[number][1])

    return tried[bisect(range(1, most + 1), False, key=is_too_large)]


def _fitting(world: World, requests: Amounts) -> Rows:
    """Return the rows that a pod with these requests fits."""
    with world.changes.trial():
        return world.evaluation(world.changes.submit(_pod(requests))).feasible_rows.copy()


def _free(world: World, rows: Rows, resource: str) -> Int64s:
    nodes = world.cluster.nodes
    free: Int64s = np.maximum(
        nodes.allocatable(resource)[rows] - nodes.requested(resource)[rows], 0
    )
    return free


def _pod(requests: Amounts) -> Pod:
    """Return a pod with requests and nothing else."""
    pod = Pod()
    pod.metadata.name, pod.metadata.namespace = "headroom", "default"
    pod.metadata.uid = "headroom"
    container = pod.spec.containers.add(name="headroom")
    for name, amount in requests.items():
        exact = Fraction(amount, 1000) if name == CPU else amount
        container.resources.requests[name] = format_quantity(exact)
    return pod
