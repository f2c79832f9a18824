"""Background activity of workloads: which objects are created and deleted at each tick.

Pure: ``run.disturb`` carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from podsched.api.objects import AnyObject
from podsched.bench.shapes import copies, node, pod_template, service

#: PriorityClass (value 10) of pods that preempt others.
HIGH = "bench-high"

#: (kind, namespace, name)
Reference = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """The changes of one tick."""

    create: tuple[AnyObject, ...] = ()
    delete: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Disturbance:
    """``steps(n)`` at tick n, every ``period`` seconds from the first measured pod on."""

    period: float
    steps: Callable[[int], Step] = field(repr=False)


def mixed_churn(tick: int) -> Step:
    """Create, or delete again, a node without room, a pod that fits nowhere, and a Service."""
    number, deleting = divmod(tick, 2)
    name = f"churn-{number}"
    if deleting:
        pod, svc = ("Pod", "default", name), ("Service", "default", name)
        return Step(delete=(("Node", "", name), pod, svc))
    (pending,) = copies(pod_template(cpu="9", priorityClassName=HIGH), "churn", 1)
    pending.metadata.name = name
    return Step(create=(node(name, pods=0), pending, service(name)))


def unschedulable(tick: int) -> Step:
    """Create a pod of high priority that fits nowhere."""
    return _one_more("unschedulable", "9", tick)


def preemptors(tick: int) -> Step:
    """Create a pod of high priority that has to preempt three others."""
    return _one_more("preemptor", "3000m", tick)


def _one_more(prefix: str, cpu: str, tick: int) -> Step:
    (pod,) = copies(pod_template(cpu=cpu, priorityClassName=HIGH), prefix, 1)
    pod.metadata.name = f"{prefix}-{tick}"
    return Step(create=(pod,))


def deletions(prefix: str, each: int, count: int) -> Callable[[int], Step]:
    """Return steps that delete ``each`` of the ``count`` pods of a prefix per tick."""

    def step(tick: int) -> Step:
        numbers = range(min(tick * each, count), min((tick + 1) * each, count))
        return Step(delete=tuple(("Pod", "default", f"{prefix}-{n}") for n in numbers))

    return step
