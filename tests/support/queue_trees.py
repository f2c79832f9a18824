"""Trees of quotas for property tests, and a plain reading of their arithmetic."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from podsched.queues.objects import (
    ClusterQueue,
    Flavor,
    Policy,
    Preemption,
    ResourceGroup,
    Workload,
)
from podsched.queues.quota import Cohort, FlavorResource, Node, Quota
from podsched.queues.snapshot import Snapshot

CPU, MEMORY, GPU = (FlavorResource("default", name) for name in ("cpu", "memory", "gpu"))
_LIMITS = st.none() | st.integers(0, 8)


@st.composite
def snapshots(draw: st.DrawFn, *, preempting: bool = True) -> Snapshot:
    """Up to five cohorts in trees, and up to five queues with any quotas and policies."""
    cohorts = []
    for index in range(draw(st.integers(0, 5))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        name = None if parent is None else f"c{parent}"
        cohorts.append(Cohort(f"c{index}", name, draw(_quotas(bounded=name is not None))))
    queues = []
    for index in range(draw(st.integers(1, 5))):
        cohort = draw(st.none() | st.integers(0, len(cohorts) - 1)) if cohorts else None
        policies = st.sampled_from(Policy)
        preemption = Preemption(
            draw(policies.filter(lambda policy: policy is not Policy.ANY)),
            draw(policies.filter(lambda policy: policy is not Policy.LOWER_OR_NEWER)),
            draw(st.booleans()),
        )
        queues.append(
            ClusterQueue(
                f"q{index}",
                None if cohort is None else f"c{cohort}",
                (ResourceGroup(frozenset(("cpu",)), ("default",)),),
                draw(_quotas(bounded=cohort is not None)),
                preemption=preemption if preempting else Preemption(),
            )
        )
    return Snapshot(queues, cohorts, [Flavor("default")])


@st.composite
def _quotas(draw: st.DrawFn, *, bounded: bool) -> dict[FlavorResource, Quota]:
    limits = (draw(_LIMITS), draw(_LIMITS)) if bounded else (None, None)
    return {CPU: Quota(draw(st.integers(0, 10)), *limits)}


def plain_quota(node: Node) -> int:
    """Return a queue's nominal quota, or a cohort's and what its children lend."""
    own = node.quotas[CPU].nominal if CPU in node.quotas else 0
    return own + sum(plain_quota(child) - plain_local(child) for child in node.children)


def plain_local(node: Node) -> int:
    """Return what the node does not lend."""
    limit = node.quotas[CPU].lending_limit if CPU in node.quotas else None
    return 0 if limit is None else max(0, plain_quota(node) - limit)


def plain_usage(node: Node) -> int:
    """Return a queue's own usage, or what a cohort's children use beyond their local part."""
    if not node.is_cohort:
        return node.usage.get(CPU, 0)
    return sum(max(0, plain_usage(child) - plain_local(child)) for child in node.children)


def plain_available(node: Node) -> int:
    """Return what the node may use in addition, by the words of the rule."""
    quota, usage, local = plain_quota(node), plain_usage(node), plain_local(node)
    if node.parent is None:
        return quota - usage
    above = plain_available(node.parent)
    limit = node.quotas[CPU].borrowing_limit if CPU in node.quotas else None
    if limit is not None:
        above = min(above, (quota - local) - max(0, usage - local) + limit)
    return max(0, local - usage) + above


def admit(snapshot: Snapshot, queue: str, workload: Workload) -> None:
    """Admit a workload to a queue."""
    snapshot.add(replace(workload, queue=queue))


def nodes(snapshot: Snapshot) -> list[Node]:
    """Return all queues and cohorts."""
    return [*snapshot.forest.queues.values(), *snapshot.forest.cohorts.values()]


def assert_permitted(snapshot: Snapshot) -> None:
    """Assert that no node uses more than the tree permits, and that sums are those of children."""
    for node in nodes(snapshot):
        usage = node.usage.get(CPU, 0)
        assert usage == plain_usage(node), node
        if node.parent is None:
            assert usage <= plain_quota(node), node
        elif CPU in node.quotas and (limit := node.quotas[CPU].borrowing_limit) is not None:
            assert usage <= plain_quota(node) + limit, node
