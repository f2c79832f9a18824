"""Waiting at Permit: who lets a pod go on, who turns it down, when time is up."""

from __future__ import annotations

import asyncio

import pytest

from podsched.decide.runtime.waiting_pods import WaitingPods
from podsched.framework.status import Code
from support.engine_pods import pod_info

pytestmark = pytest.mark.looptime


async def test_a_pod_goes_on_when_every_plugin_has_allowed_it() -> None:
    waiting = WaitingPods().add(pod_info("a"), "n1", {"One": 10, "Two": 10})
    outcome = asyncio.ensure_future(waiting.outcome())
    waiting.allow("One")
    await asyncio.sleep(1)
    assert not outcome.done()
    assert waiting.pending_plugins == ["Two"]
    waiting.allow("Two")
    assert (await outcome).ok


async def test_the_first_rejection_decides() -> None:
    waiting = WaitingPods().add(pod_info("a"), "n1", {"One": 10, "Two": 10})
    waiting.reject("Two", "no quorum")
    waiting.reject("One", "something else")
    waiting.allow("One")
    status = await waiting.outcome()
    assert (status.code, status.message, status.plugin) == (Code.UNSCHEDULABLE, "no quorum", "Two")


async def test_the_earliest_timeout_rejects_in_kube_schedulers_words() -> None:
    waiting = WaitingPods().add(pod_info("a"), "n1", {"Slow": 30, "Quick": 5})
    began = asyncio.get_running_loop().time()
    status = await waiting.outcome()
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)
    assert status.message == "rejected due to timeout after waiting 5s at plugin Quick"
    assert (status.code, status.plugin) == (Code.UNSCHEDULABLE, "Quick")


@pytest.mark.parametrize(
    ("timeout", "text"), [(0.5, "500ms"), (90, "1m30s"), (900, "15m0s"), (86400, "15m0s")]
)
async def test_a_timeout_is_told_as_go_prints_it_and_never_beyond_15_minutes(
    timeout: float, text: str
) -> None:
    waiting = WaitingPods().add(pod_info("a"), "n1", {"P": timeout})
    began = asyncio.get_running_loop().time()
    status = await waiting.outcome()
    assert asyncio.get_running_loop().time() - began <= 901
    assert status.message == f"rejected due to timeout after waiting {text} at plugin P"


async def test_an_allowed_plugins_timeout_no_longer_counts() -> None:
    waiting = WaitingPods().add(pod_info("a"), "n1", {"Quick": 5, "Slow": 30})
    waiting.allow("Quick")
    status = await waiting.outcome()
    assert status.plugin == "Slow"


async def test_a_preemptor_takes_the_pods_place_which_is_no_rejection() -> None:
    waiting = WaitingPods().add(pod_info("a"), "n1", {"P": 5})
    waiting.preempt("DefaultPreemption", "preempted")
    status = await waiting.outcome()
    assert (status.code, status.message) == (
        Code.ERROR,
        "waiting on permit for pod: preempted",
    )
    assert status.plugin == "DefaultPreemption"


async def test_waiting_pods_are_found_by_uid_and_listed_until_removed() -> None:
    pods = WaitingPods()
    a, b = pod_info("a"), pod_info("b")
    waiting = pods.add(a, "n1", {"P": 5})
    pods.add(b, "n2", {"P": 5})
    assert pods.get(a.uid) is waiting
    assert [w.node_name for w in pods] == ["n1", "n2"]
    pods.remove(a.uid)
    assert pods.get(a.uid) is None
    assert len(pods) == 1


async def test_rejecting_by_uid_says_whether_the_pod_was_waiting() -> None:
    pods = WaitingPods()
    waiting = pods.add(pod_info("a"), "n1", {"P": 5})
    assert pods.reject(waiting.pod.uid, "removed")
    assert (await waiting.outcome()).message == "removed"
    assert not pods.reject("uid-nobody", "removed")


async def test_a_preemptor_comes_too_late_for_a_pod_that_has_been_allowed() -> None:
    waiting = WaitingPods().add(pod_info("a"), "n1", {"P": 5})
    waiting.allow("P")
    assert not waiting.preempt("DefaultPreemption", "preempted")
    assert (await waiting.outcome()).ok
