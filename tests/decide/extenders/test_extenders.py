"""Pods that extenders have a say about, from the queue to their node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.ask.decisions.frames import FrameWriter
from podsched.ask.decisions.log import DecisionLog, facts_of
from podsched.ask.decisions.rows import DecisionQuery
from podsched.ask.decisions.stores import MemoryStore
from podsched.config.plugins import ExtensionPoint
from podsched.decide.extenders.decider import CHANGED_MEANWHILE
from podsched.decide.extenders.wire import ExtenderError
from podsched.framework.plugin import PermitResult, PostFilterResult
from podsched.framework.status import Code, Status, unresolvable
from podsched.serve.client.errors import FenceLost
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import DecisionMetrics
from podsched.term.cycle.scheduling_cycle import MAX_WAIT_FOR_EXTENDERS
from podsched.term.writes.extender_binding import CONFIRMED_WITHIN
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node
from support.extender_world import ScriptedExtender, keep_victims, names_in, passing
from support.term_world import LOCK, TermWorld

pytestmark = pytest.mark.looptime

ALL = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "weight": 1,
    "preemptVerb": "preempt",
}
GPU = {"managedResources": [{"name": "example.com/gpu"}]}


def extended(
    *configs: dict[str, Any],
    profiles: tuple[dict[str, Any], ...] = ({},),
    decisions: DecisionLog | None = None,
) -> tuple[TermWorld, list[ScriptedExtender]]:
    """A world with an extender for each configuration, called e0, e1 and so on."""
    scripted = {f"http://e{at}": ScriptedExtender() for at in range(len(configs))}
    full = [{"urlPrefix": url, **config} for url, config in zip(scripted, configs, strict=True)]
    world = TermWorld(profiles, extenders=full, connect=scripted.__getitem__, decisions=decisions)
    return world, list(scripted.values())


def fails(args: dict[str, Any]) -> Any:
    raise ExtenderError("out of order")


# ------------------------------------------------------------------ filter


async def test_a_pod_goes_only_where_its_extenders_let_it() -> None:
    world, (first,) = extended(ALL)
    first.answers["filter"] = lambda args: passing(args, lambda name: name == "n3")
    for name in ("n1", "n2", "n3"):
        world.node(name)
    async with world.running():
        for name in "abc":
            world.pod(name)
        await asyncio.sleep(1)
        assert world.nodes_of("a", "b", "c") == ["n3"] * 3
        assert first.nodes_sent("filter")[0] == ["n1", "n2", "n3"]
        # Scores have nothing to choose between where one node is left.
        assert first.verbs() == ["filter"] * 3
        world.check()


async def test_each_extender_sees_what_the_one_before_has_left_and_ignorable_ones_come_last() -> (
    None
):
    world, (ignorable, second) = extended({**ALL, "ignorable": True}, ALL)
    second.answers["filter"] = lambda args: passing(args, lambda name: name != "n1")
    ignorable.answers["filter"] = lambda args: passing(args, lambda name: name != "n2")
    for name in ("n1", "n2", "n3"):
        world.node(name)
    async with world.running():
        await world.pod_and_wait("a")
        assert second.nodes_sent("filter") == [["n1", "n2", "n3"]]
        assert ignorable.nodes_sent("filter") == [["n2", "n3"]]
        assert world.nodes_of("a") == ["n3"]


async def test_an_extender_that_caches_nodes_is_asked_by_name() -> None:
    world, (first,) = extended({**ALL, "nodeCacheCapable": True})
    first.answers["filter"] = lambda args: passing(args, lambda name: name == "n2")
    world.node("n1")
    world.node("n2")
    async with world.running():
        await world.pod_and_wait("a")
        assert first.calls[0][1]["Nodes"] is None
        assert world.nodes_of("a") == ["n2"]


async def test_only_pods_that_ask_for_a_managed_resource_are_spoken_of() -> None:
    world, (first,) = extended({**ALL, **GPU})
    first.answers["filter"] = lambda args: passing(args, lambda name: name == "n2")
    for name in ("n1", "n2"):
        item = node(name, allocatable={"cpu": "9", "pods": "110", "example.com/gpu": "4"})
        world.cluster.create(item)
    limits = {"requests": {"cpu": "1"}, "limits": {"example.com/gpu": "1"}}
    async with world.running():
        world.pod("plain")
        world.pod("gpu", containers=[{"name": "c", "image": "x", "resources": limits}])
        await asyncio.sleep(1)
        assert [args["Pod"]["metadata"]["name"] for _, args in first.calls] == ["gpu"]
        assert world.nodes_of("plain", "gpu") == ["n1", "n2"]


async def test_reasons_of_extenders_stand_beside_those_of_plugins() -> None:
    world, (first,) = extended({"filterVerb": "filter"})
    first.answers["filter"] = lambda args: {
        "Nodes": None,
        "FailedNodes": {"n1": "too hot", "n2": "both"},
        "FailedAndUnresolvableNodes": {"n2": "no such device", "n3": "no such device"},
    }
    for name in ("n1", "n2", "n3", "n5"):
        world.node(name)
    world.node("n4", cpu="500m")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        # n5 was dropped without a word, and n4 is too small even when it is empty.
        assert world.scheduled("a").message == (
            "0/5 nodes are available: 1 Insufficient cpu, 1 too hot, 2 no such device. "
            "no new claims to deallocate, preemption: 0/5 nodes are available: "
            "1 No preemption victims found for incoming pod, "
            "4 Preemption is not helpful for scheduling."
        )
        assert world.scheduled("a").reason == "Unschedulable"
        queued = world.state.queue.pending.unschedulable.not_gated()
        assert [pod.unschedulable_plugins for pod in queued] == [{"Extender", "NodeResourcesFit"}]


async def test_more_reasons_than_a_plugin_can_have_are_all_told() -> None:
    world, (first,) = extended({"filterVerb": "filter"})
    first.answers["filter"] = lambda args: {
        "FailedNodes": {name: f"{name} is busy" for name in names_in(args)}
    }
    for at in range(70):
        world.node(f"n{at}")
    async with world.running():
        await world.pod_and_wait("a", preemptionPolicy="Never", seconds=0.5)
        message = world.scheduled("a").message
        assert all(f"1 n{at} is busy" in message for at in range(70))


async def test_any_event_gives_a_pod_that_extenders_turned_down_another_try() -> None:
    world, (first,) = extended({"filterVerb": "filter"})
    first.answers["filter"] = lambda args: passing(args, lambda name: False)
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=5)
        assert world.place("a") == "unschedulable"
        first.answers["filter"] = lambda args: passing(args, lambda name: True)
        unrelated = v1.StorageClass()
        unrelated.metadata.name = "unrelated"
        world.cluster.create(unrelated)
        await asyncio.sleep(1)
        assert world.nodes_of("a") == ["n1"]
        world.check()


# ------------------------------------------------------------------ failures


async def test_an_extender_that_fails_fails_the_attempt() -> None:
    world, (first,) = extended(ALL)
    first.answers["filter"] = fails
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        assert world.scheduled("a").reason == "SchedulerError"
        assert world.scheduled("a").message == "out of order"
        assert world.events("a", "FailedScheduling") == ["out of order"]
        assert world.place("a") == "backoff"
        del first.answers["filter"]
        first.answers["filter"] = lambda args: passing(args, lambda name: True)
        await asyncio.sleep(2)
        assert world.nodes_of("a") == ["n1"]
        world.check()


async def test_an_ignorable_extender_that_fails_counts_as_not_asked() -> None:
    world, (first,) = extended({**ALL, "ignorable": True})
    first.answers["filter"] = fails
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        assert world.nodes_of("a") == ["n1"]


async def test_an_extender_must_not_invent_nodes() -> None:
    world, (first,) = extended({**ALL, "nodeCacheCapable": True})
    first.answers["filter"] = lambda args: {"NodeNames": ["n9"]}
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        assert world.scheduled("a").message == (
            'extender "http://e0" claims a filtered node "n9" which is not found in the input '
            "node list"
        )


# ------------------------------------------------------------------ prioritize


async def test_extenders_scores_are_weighted_and_added() -> None:
    world, (first, second) = extended({**ALL, "weight": 2}, ALL)
    # 10 points of weight 2 are 200, twice what a plugin of weight 1 can give.
    first.answers["prioritize"] = lambda args: [{"Host": "n2", "Score": 10}]
    second.answers["prioritize"] = lambda args: [
        {"Host": "n1", "Score": 9},
        {"Host": "n3", "Score": 9},
    ]
    for name in ("n1", "n2", "n3"):
        world.node(name)
    async with world.running():
        await world.pod_and_wait("a")
        assert world.nodes_of("a") == ["n2"]
        first.answers["prioritize"] = lambda args: []
        await world.pod_and_wait("b")
        assert world.nodes_of("b") == ["n1"]


async def test_extenders_are_asked_for_scores_at_the_same_time_and_one_may_fail() -> None:
    world, (first, second) = extended(
        {"prioritizeVerb": "prioritize", "weight": 1}, {"prioritizeVerb": "prioritize", "weight": 1}
    )
    first.delay = second.delay = 1
    first.answers["prioritize"] = fails
    second.answers["prioritize"] = lambda args: [{"Host": "n2", "Score": 10}]
    world.node("n1")
    world.node("n2")
    gauge = world.meter.scheduler.goroutines.labels("prioritizing_extender")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        assert gauge.value == 2
        await asyncio.sleep(1)
        assert world.nodes_of("a") == ["n2"]
        assert gauge.value == 0


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ({"n1": -1}, "n2"),
        ({"n1": -(2**63), "n2": -(2**63) + 1}, "n3"),
        ({"n2": 11, "n3": 1000}, "n3"),
        ({"n2": 2**63 - 1}, "n2"),
        ({"n2": 10, "elsewhere": 1000, "": 1000}, "n2"),
    ],
)
async def test_scores_beyond_the_range_of_extenders_count_as_they_are(
    scores: dict[str, int], chosen: str
) -> None:
    """kube-scheduler does not check them either; nodes that were not asked about do not matter."""
    world, (first,) = extended({**ALL, "weight": 9})
    first.answers["prioritize"] = lambda args: [
        {"Host": name, "Score": score} for name, score in scores.items()
    ]
    for name in ("n1", "n2", "n3"):
        world.node(name)
    async with world.running():
        await world.pod_and_wait("a")
        assert world.nodes_of("a") == [chosen]


async def test_a_score_at_the_end_of_its_range_is_recorded_as_the_most_there_is() -> None:
    """With its weight it would not be a number of 64 bits, which records and questions have."""
    store = MemoryStore(1 << 20, FrameWriter().facts(facts_of("replica"), 0.0))
    log = DecisionLog(store, DecisionMetrics(MetricRegistry()))
    world, (first,) = extended({**ALL, "weight": 9}, decisions=log)
    world.node("n1")
    world.node("n2")
    async with world.running():
        for name, score in (("high", 2**63 - 1), ("low", -(2**63))):
            first.answers["prioritize"] = lambda args, score=score: [
                {"Host": node, "Score": score} for node in ("n1", "n2")
            ]
            await world.pod_and_wait(name)
    log.flush(0)
    records = log.find(DecisionQuery()).records
    assert {r.name: r.total for r in records} == {"high": 2**63 - 1, "low": -(2**63)}


@pytest.mark.parametrize(
    "answer", [b'[{"Host":"n2","Score":NaN}]', b'[{"Host":"n2","Score":1e308}]']
)
async def test_scores_that_are_no_integers_count_as_none(answer: bytes) -> None:
    """Go cannot read them either: the extender is told of in the log, and the pod goes on."""
    world, (first,) = extended(ALL)
    sent = first.send

    async def send(verb: str, body: bytes) -> bytes:
        return answer if verb == "prioritize" else await sent(verb, body)

    first.send = send  # type: ignore[method-assign, assignment]
    world.node("n1")
    world.node("n2")
    async with world.running():
        await world.pod_and_wait("a")
        assert world.nodes_of("a") == ["n1"]


# ------------------------------------------------------------------ meanwhile


async def test_a_node_that_fills_up_while_extenders_are_asked_is_not_chosen() -> None:
    world, (first,) = extended(ALL)
    first.delay = 1
    first.answers["prioritize"] = lambda args: [{"Host": "n1", "Score": 10}]
    for name in ("n1", "n2"):
        world.node(name, cpu="2")
    async with world.running():
        world.pod("a", cpu="2")
        await asyncio.sleep(1.5)
        assert first.verbs() == ["filter", "prioritize"]
        await world.pod_and_wait("other", cpu="2", on="n1")
        assert world.nodes_of("a") == ["n2"]


async def test_extenders_are_asked_again_when_only_other_nodes_fit_by_then() -> None:
    world, (first,) = extended({"filterVerb": "filter"})
    first.delay = 1
    world.node("n1", cpu="2")
    async with world.running():
        await world.pod_and_wait("a", cpu="2", seconds=0.5)
        world.pod("other", cpu="2", on="n1")
        world.node("n2", cpu="2")
        await asyncio.sleep(3)
        assert first.nodes_sent("filter") == [["n1"], ["n2"]]
        assert world.nodes_of("a") == ["n2"]


async def test_a_cluster_that_changes_each_time_fails_the_attempt() -> None:
    world, (first,) = extended({"filterVerb": "filter"})
    numbers = iter(range(2, 100))

    def take_the_node(args: dict[str, Any]) -> Any:
        (name,) = names_in(args)
        world.pod(f"on-{name}", cpu="2", on=name)
        world.node(f"n{next(numbers)}", cpu="2")
        return passing(args, lambda name: True)

    first.answers["filter"] = take_the_node
    first.delay = 0.1
    send = first.send

    async def send_and_wait(verb: str, body: bytes) -> bytes:
        answer = await send(verb, body)
        await asyncio.sleep(0.1)
        return answer

    first.send = send_and_wait  # type: ignore[method-assign]
    world.node("n1", cpu="2")
    async with world.running():
        world.pod("a", cpu="2")
        await asyncio.sleep(0.9)
        assert world.scheduled("a").message == CHANGED_MEANWHILE
        assert first.nodes_sent("filter") == [["n1"], ["n2"], ["n3"]]


async def test_a_node_that_goes_while_extenders_are_asked_is_forgotten() -> None:
    world, (first,) = extended(ALL)
    first.delay = 1
    world.node("n1")
    world.node("n2")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        world.cluster.delete("Node", "n1")
        await asyncio.sleep(2)
        assert world.nodes_of("a") == ["n2"]
        world.check()


async def test_a_pod_that_goes_while_extenders_are_asked_leaves_nothing_behind() -> None:
    world, (first,) = extended(ALL)
    first.delay = 1
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        world.cluster.delete("Pod", "default/a")
        await asyncio.sleep(2)
        assert world.cluster.bound == []
        assert world.place("a") == ""
        assert len(world.state.cache.held) == 0
        world.check()


async def test_a_pod_that_another_client_binds_while_extenders_are_asked_is_left_alone() -> None:
    world, (first,) = extended(ALL)
    first.delay = 1
    world.node("n1")
    world.node("n2")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        world.change("a", lambda pod: setattr(pod.spec, "node_name", "n2"))
        await asyncio.sleep(3)
        assert world.cluster.bound == []
        assert len(world.state.cache.held) == 1
        world.check()


async def test_a_pod_that_matters_more_does_not_wait_for_the_whole_run_of_others() -> None:
    world, (first,) = extended(ALL)
    first.delay = MAX_WAIT_FOR_EXTENDERS
    world.node("n1", cpu="32")
    async with world.running():
        for at in range(10):
            world.pod(f"low-{at}")
        await asyncio.sleep(MAX_WAIT_FOR_EXTENDERS / 2)
        world.pod("high", priority=100)
        await asyncio.sleep(10)
        order = [args["Pod"]["metadata"]["name"] for _, args in first.calls]
        assert len(order) == 11
        assert order.index("high") <= 3
        assert len(world.cluster.bound) == 11
        world.check()


async def test_a_lost_fence_ends_the_term_while_an_extender_is_asked() -> None:
    world, (first,) = extended({**ALL, "ignorable": True})
    world.node("n1")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=2)
    async with world.running():
        await world.pod_and_wait("refused")
        first.delay = 10
        world.pod("a")
        world.cluster.new_term(LOCK)
        assert world.ended is not None
        # The status of the pod that was refused by then is the first write that fails.
        with pytest.raises(FenceLost):
            await asyncio.wait_for(world.ended, 2)
        assert world.cluster.bound == []


async def test_with_a_share_of_the_nodes_extenders_are_asked_about_no_more() -> None:
    world, (first,) = extended(
        {**ALL, "nodeCacheCapable": True}, profiles=({"percentageOfNodesToScore": 50},)
    )
    for at in range(300):
        world.node(f"n{at}")
    async with world.running():
        await world.pod_and_wait("a")
        assert [len(names) for names in first.nodes_sent("filter")] == [150]
        assert world.nodes_of("a") != [""]


async def test_the_next_search_starts_elsewhere_though_no_extender_was_asked() -> None:
    world, (first,) = extended(
        {**ALL, "nodeCacheCapable": True}, profiles=({"percentageOfNodesToScore": 50},)
    )
    names = [f"n{at:03}" for at in range(300)]
    for name in names:
        world.node(name)
    by_name = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in names[:100]
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": by_name}}
    async with world.running():
        await world.pod_and_wait("a", cpu="1000", affinity={"nodeAffinity": required})
        assert first.nodes_sent("filter") == []
        await world.pod_and_wait("b")
        assert first.nodes_sent("filter") == [names[100:250]]


# ------------------------------------------------------------------ preemption


async def crowded(world: TermWorld, cpu: str = "2") -> None:
    """Two nodes, each full of a pod of low priority."""
    for name in ("n1", "n2"):
        world.node(name, cpu=cpu)
        world.pod(f"low-{name}", cpu=cpu, on=name)
    await asyncio.sleep(0.5)


async def test_post_filter_is_counted_with_an_extender_that_preempts() -> None:
    world, (first,) = extended({"preemptVerb": "preempt"})
    first.answers["preempt"] = keep_victims
    async with world.running():
        await crowded(world)
        world.pod("high", cpu="2", priority=10)
        await asyncio.sleep(3)
    label, metrics = ExtensionPoint.POST_FILTER.label, world.meter.scheduler
    assert metrics.preemption_attempts_total.labels().value == 1
    points = metrics.framework_extension_point_duration_seconds.cells()
    assert [sum(c.counts) for labels, c in points if labels[0] == label] == [1]


async def test_an_extender_strikes_candidates_for_preemption_out() -> None:
    world, (first,) = extended(ALL)
    first.answers["preempt"] = lambda args: {
        "NodeNameToMetaVictims": {
            "n2": keep_victims(args)["NodeNameToMetaVictims"]["n2"],
        }
    }
    async with world.running():
        await crowded(world)
        world.pod("high", cpu="2", priority=10)
        await asyncio.sleep(3)
        (args,) = [args for verb, args in first.calls if verb == "preempt"]
        assert sorted(args["NodeNameToVictims"]) == ["n1", "n2"]
        assert world.nodes_of("high", "low-n1") == ["n2", "n1"]
        # The nominated node is asked about alone and first.
        assert first.nodes_sent("filter") == [["n2"]]
        world.check()


async def test_a_nominated_node_that_extenders_reject_is_asked_about_once() -> None:
    world, (first,) = extended(ALL)
    first.answers["filter"] = lambda args: passing(args, lambda name: False, "changed my mind")
    first.answers["preempt"] = lambda args: {
        "NodeNameToMetaVictims": {
            name: victims
            for name, victims in keep_victims(args)["NodeNameToMetaVictims"].items()
            if name == "n2"
        }
    }
    async with world.running():
        # Room for two, or the pod's own nomination would keep its class away.
        await crowded(world, cpu="4")
        world.pod("high", cpu="2", priority=10)
        await asyncio.sleep(2)
        assert first.nodes_sent("filter") == [["n2"]]
        message = world.scheduled("high").message
        assert message.startswith(
            "0/2 nodes are available: 1 Insufficient cpu, 1 changed my mind. "
        )


async def test_a_post_filter_plugin_that_returns_unresolvable_is_the_last_one_with_extenders() -> (
    None
):
    plugins = {"enabled": [{"name": "Script"}, {"name": "DefaultPreemption"}]}
    profile = {"plugins": {"postFilter": {"disabled": [{"name": "*"}], **plugins}}}
    world, (first,) = extended({"preemptVerb": "preempt"}, profiles=(profile,))
    world.script.on_post_filter = lambda pod: PostFilterResult(unresolvable("not here"))
    async with world.running():
        await crowded(world)
        await world.pod_and_wait("high", cpu="2", priority=10, seconds=0.5)
        assert first.calls == []


async def test_without_candidates_left_no_pod_is_evicted() -> None:
    world, (first,) = extended({"preemptVerb": "preempt", "nodeCacheCapable": True})
    first.answers["preempt"] = lambda args: {"NodeNameToMetaVictims": {}}
    async with world.running():
        await crowded(world)
        world.pod("high", cpu="2", priority=10)
        await asyncio.sleep(3)
        assert world.scheduled("high").message == (
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: no candidate node for preemption"
        )
        assert world.nodes_of("low-n1", "low-n2") == ["n1", "n2"]
        assert first.calls[0][1]["NodeNameToMetaVictims"]["n1"]["Pods"] == [{"UID": "uid-low-n1"}]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (fails, "preemption: out of order"),
        (
            lambda args: {"NodeNameToMetaVictims": {"n1": {"Pods": []}}},
            'preemption: expected at least one victim pod on node "n1"',
        ),
        (
            lambda args: {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "x"}]}}},
            "preemption: extender: http://e0 claims to preempt pod (UID: x) on node: n1, "
            "but the pod is not found on that node",
        ),
    ],
)
@pytest.mark.parametrize("ignorable", [False, True])
async def test_what_is_wrong_with_a_preempting_extender_stops_preemption_unless_ignorable(
    answer: Any, message: str, ignorable: bool
) -> None:
    world, (first,) = extended({"preemptVerb": "preempt", "ignorable": ignorable})
    first.answers["preempt"] = answer
    async with world.running():
        await crowded(world)
        await world.pod_and_wait("high", cpu="2", priority=10, seconds=0.5)
        if not ignorable:
            assert world.scheduled("high").message.endswith(message)
            assert world.nodes_of("low-n1", "low-n2") == ["n1", "n2"]
            return
        await asyncio.sleep(3)
        # A node without victims is dropped, and it was the only one.
        assert bool(world.nodes_of("high")[0]) == ("expected" not in message)


async def test_preemption_helps_where_the_extender_says_failed_and_not_where_unresolvable() -> None:
    world, (first,) = extended({"filterVerb": "filter", "preemptVerb": "preempt"})
    first.answers["filter"] = lambda args: {
        "FailedNodes": {"n1": "crowded"},
        "FailedAndUnresolvableNodes": {"n2": "wrong place"},
    }
    async with world.running():
        for name in ("n1", "n2"):
            world.node(name, cpu="4")
            world.pod(f"low-{name}", cpu="1", on=name)
        await asyncio.sleep(0.5)
        await world.pod_and_wait("high", cpu="1", priority=10, seconds=0.5)
        # The pod fits beside the others: there is no pod that the plugins would evict.
        assert world.scheduled("high").message == (
            "0/2 nodes are available: 1 crowded, 1 wrong place. "
            'preemption: expected at least one victim pod on node "n1"'
        )


async def test_dry_runs_that_evict_nobody_on_several_nodes_are_all_told() -> None:
    world, (first,) = extended({"filterVerb": "filter"})
    first.answers["filter"] = lambda args: {"FailedNodes": {"n1": "no", "n2": "no"}}
    async with world.running():
        for name in ("n1", "n2"):
            world.node(name)
            world.pod(f"low-{name}", on=name)
        await asyncio.sleep(0.5)
        await world.pod_and_wait("high", priority=10, seconds=0.5)
        _, preemption = world.scheduled("high").message.split("preemption: ")
        text = 'expected at least one victim pod on node "{}"'
        assert preemption.startswith("[") and preemption.endswith("]")
        assert sorted(preemption[1:-1].split(", ")) == [text.format("n1"), text.format("n2")]


# ------------------------------------------------------------------ bind


def binding(world: TermWorld, made: list[str]) -> Any:
    """An extender's answer that binds the pod."""

    def bind(args: dict[str, Any]) -> dict[str, Any]:
        made.append(f"{args['PodName']} to {args['Node']}")

        def assign(pod: v1.Pod) -> None:
            pod.spec.node_name = args["Node"]

        world.change(args["PodName"], assign)
        return {}

    return bind


async def test_an_extender_binds_in_place_of_the_api() -> None:
    world, (first,) = extended({"bindVerb": "bind"})
    made: list[str] = []
    first.answers["bind"] = binding(world, made)
    world.node("n1")
    async with world.running():
        world.pod("a")
        await world.pod_and_wait("b")
        assert sorted(made) == ["a to n1", "b to n1"]
        assert world.cluster.bound == []
        assert first.calls[0][1]["PodUID"] == "uid-a"
        assert world.events("a", "Scheduled") == ["Successfully assigned default/a to n1"]
        assert len(world.state.cache.assumed) == 0
        world.check()


async def test_a_pod_that_an_extender_could_not_bind_is_tried_again() -> None:
    world, (first,) = extended({"bindVerb": "bind"})
    made: list[str] = []
    first.answers["bind"] = lambda args: {"Error": "device is gone"}
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        assert world.scheduled("a").message == "device is gone"
        assert len(world.state.cache.held) == 0
        first.answers["bind"] = binding(world, made)
        await asyncio.sleep(3)
        assert made == ["a to n1"]
        world.check()


async def test_the_api_binds_where_an_ignorable_extender_could_not() -> None:
    world, (first,) = extended({"bindVerb": "bind", "ignorable": True})
    first.answers["bind"] = fails
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a")
        assert world.cluster.bound == [("default/a", "n1")]


async def test_a_pod_that_is_not_seen_bound_is_not_believed_to_be() -> None:
    world, _ = extended({"bindVerb": "bind"})
    world.node("n1")
    async with world.running():
        world.pod("a")
        await asyncio.sleep(CONFIRMED_WITHIN - 1)
        assert "uid-a" in world.state.cache.assumed
        await asyncio.sleep(1.5)
        assert "uid-a" not in world.state.cache.assumed
        assert world.scheduled("a").message == (
            'extender "http://e0" says that it has bound the pod to node "n1", but it is not bound'
        )
        world.check()


async def test_a_pod_that_goes_while_an_extender_binds_it_leaves_nothing_behind() -> None:
    world, (first,) = extended({"bindVerb": "bind"})
    first.delay = 1
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        world.cluster.delete("Pod", "default/a")
        await asyncio.sleep(2)
        assert len(world.state.cache.held) == 0
        world.check()


async def test_the_calls_to_extenders_that_bind_end_with_the_term() -> None:
    world, (first,) = extended({"bindVerb": "bind"})
    first.delay = 60
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        assert "extender binds default/a" in names_of_tasks()
    assert "extender binds default/a" not in names_of_tasks()


def names_of_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks()]
