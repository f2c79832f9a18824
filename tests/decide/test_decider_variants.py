"""Pods that differ are decided on together, and go where each would go."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.cache.pod_class import make_pod_info
from podsched.config.load import default_config
from podsched.decide.decider import MAX_DISTINCT
from podsched.framework.pods import QueuedPodInfo
from podsched.registry import factories
from podsched.term.state import build_state
from support.deciding import decide
from support.engine_world import node, pod
from support.term_world import Script, TermWorld

pytestmark = pytest.mark.looptime

PODS = [f"p{number}" for number in range(40)]


async def outcome(world: TermWorld) -> tuple[list[str], list[int]]:
    """The pods' nodes, and how many pods were decided on together each time."""
    together, decide = list[int](), world.decider.decide

    def counted(*args: Any, **more: Any) -> Any:
        decisions = decide(*args, **more)
        together.append(len(decisions))
        return decisions

    world.decider.decide = counted  # type: ignore[method-assign]
    async with world.running(seconds=1):
        world.check()
        return world.nodes_of(*PODS), together


async def decided(requests: list[int], **settings: Any) -> tuple[list[str], list[int]]:
    """The outcome for pods of one template but for what they request."""
    world = TermWorld(**settings)
    for number in range(5):
        world.node(f"n{number}", cpu=str(2 + number))
    for name, request in zip(PODS, requests, strict=True):
        world.pod(name, cpu=f"{request}m")
    return await outcome(world)


@pytest.mark.parametrize("distinct", [40, 7, 3])
async def test_pods_with_requests_of_their_own_go_where_they_would_go_one_by_one(
    distinct: int,
) -> None:
    # More than there is room for, so that the last ones fit nowhere; some come in pairs.
    requests = [50 + 17 * (number * number % distinct) for number in range(40)]
    alone, _ = await decided(requests, max_batch=1)
    assert (await decided(requests))[0] == alone


async def test_a_few_of_them_are_decided_on_at_a_time() -> None:
    nodes, together = await decided([100 + number for number in range(40)])
    assert all(nodes)
    # The first one is what the others are variants of.
    assert together == [1, MAX_DISTINCT, MAX_DISTINCT, 7]


async def test_the_more_rows_there_are_the_fewer_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    size = TermWorld().state.cache.columns.size
    monkeypatch.setattr("podsched.decide.decider.MAX_DISTINCT_ROWS", 3 * (size + 20))
    _, together = await decided([100 + number for number in range(40)])
    assert max(together) <= 3


def spread(app: str) -> dict[str, Any]:
    """A spec that prefers domains with few pods of the app, and nodes without any."""
    of_app = {"labelSelector": {"matchLabels": {"app": app}}}
    even = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **of_app}
    apart = {"topologyKey": "kubernetes.io/hostname", **of_app}
    rule = "preferredDuringSchedulingIgnoredDuringExecution"
    return {
        "labels": {"app": app},
        "topologySpreadConstraints": [even],
        "affinity": {"podAntiAffinity": {rule: [{"weight": 10, "podAffinityTerm": apart}]}},
    }


async def decided_in_turn(plugins: dict[str, Any], **settings: Any) -> tuple[list[str], list[int]]:
    """The outcome for pods of five templates in turn, of which the last ones fit nowhere."""
    world = TermWorld([{"plugins": plugins}], **settings)
    for number in range(5):
        labels = {"zone": f"z{number % 2}", "kubernetes.io/hostname": f"n{number}"}
        world.node(f"n{number}", cpu="2", labels=labels)
    for at, name in enumerate(PODS):
        world.pod(name, cpu=f"{200 + 50 * (at % 5)}m", **spread(f"app-{at % 5}"))
    return await outcome(world)


async def test_pods_of_templates_that_take_turns_go_where_they_would_go_one_by_one() -> None:
    alone, one = await decided_in_turn({}, max_batch=1)
    nodes, together = await decided_in_turn({})
    assert nodes == alone and "" in nodes
    assert max(one) == 1 and max(together) == MAX_DISTINCT


async def test_no_pod_of_another_class_is_decided_on_before_something_was_reserved() -> None:
    everywhere = {"reserve": {"enabled": [{"name": Script.name}]}}
    _, together = await decided_in_turn(everywhere)
    assert max(together) == 1


def test_a_new_class_joins_a_batch_where_pods_like_it_have_been_decided_on() -> None:
    state = build_state(default_config(), factories(), seed=1)
    state.cache.placed.add_node(
        node("n", allocatable={"cpu": "32", "memory": "32Gi", "pods": "110"})
    )
    decider, runtime = state.decider(), next(iter(state.profiles.values()))
    tolerating = {"tolerations": [{"key": "k", "operator": "Exists"}]}

    def queued(name: str, priority: int, **spec: Any) -> QueuedPodInfo:
        one = pod(name, {"priority": priority, "schedulerName": "default-scheduler", **spec})
        return QueuedPodInfo(make_pod_info(one, state.cache.classes), 0.0)

    plain, other = queued("plain", 1), queued("other", 1, **tolerating)
    assert not decider.may_join([plain], other.info)
    for first in (queued("a", 0), queued("b", 0, **tolerating)):
        assert decide(state.cache, decider, runtime, [first])[0].node_name == "n"
    # Priorities are no part of a key while no pod is nominated.
    assert decider.may_join([plain], other.info)
