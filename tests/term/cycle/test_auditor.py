"""The auditor finds pods that fit and were not woken, and leaves all others alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.cache.changes import Change
from podsched.config.load import default_config
from podsched.decide.pod_group import PodGroupAttempt
from podsched.framework.events import ClusterEventWithHint
from podsched.registry import factories
from podsched.serve.client.informer import Event, EventType
from podsched.term.cycle.auditor import UNKNOWN_EVENT, Auditor, RecentEvents
from podsched.term.state import NoListener, SchedulingState, build_state
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node


def pending(name: str, cpu: str, group: str = "") -> v1.Pod:
    message = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {
                "schedulerName": "default-scheduler",
                **({"schedulingGroup": {"podGroupName": group}} if group else {}),
                "containers": [
                    {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
                ],
            },
        }
    ).message
    assert isinstance(message, v1.Pod)
    return message


class Deaf:
    """A NodeResourcesFit that registers no event: nothing ever wakes what it rejected."""

    def __init__(self, real: object) -> None:
        self._real = real

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ()


class Noting(NoListener):
    """Passes on what the queue has handled."""

    def __init__(self, recent: RecentEvents) -> None:
        self._recent = recent

    def changed(self, changes: Sequence[Change], now: float) -> None:
        self._recent.note(changes, now)


def world(*, deaf: bool) -> tuple[SchedulingState, Auditor]:
    plugins = dict(factories())
    make = plugins["NodeResourcesFit"]
    if deaf:
        plugins["NodeResourcesFit"] = lambda args, handle: Deaf(make(args, handle))
    recent = RecentEvents()
    state = build_state(default_config(), plugins, seed=1, listener=Noting(recent))
    return state, Auditor(state, state.decider(), recent, sample=10)


def told(state: SchedulingState, kind: str, obj: object, now: float) -> None:
    state.apply(Event(EventType.ADDED, kind, "", None, obj), now)  # type: ignore[arg-type]


def reject(state: SchedulingState, plugin: str, now: float) -> None:
    queued = state.queue.attempts.pop(now)
    assert queued is not None
    state.queue.attempts.add_unschedulable_if_not_present(
        queued, now, unschedulable_plugins={plugin}
    )


def test_a_pod_that_fits_and_was_not_woken_is_found_with_the_event_that_should_have_woken_it() -> (
    None
):
    state, auditor = world(deaf=True)
    told(state, "Pod", pending("big", "3"), 1.0)
    reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    [missed] = auditor.audit()
    assert (missed.pod.key, missed.node_name, missed.event) == ("default/big", "n1", "NodeAdd")


def test_no_pod_is_a_missed_one_while_it_is_not_known_which_are_in_queues() -> None:
    state, auditor = world(deaf=True)
    told(state, "Pod", pending("big", "3"), 1.0)
    reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    state.admission.is_refreshing = True
    assert auditor.audit() == []


def test_a_pod_that_its_hint_has_woken_is_not_a_missed_one() -> None:
    state, auditor = world(deaf=False)
    told(state, "Pod", pending("big", "3"), 1.0)
    reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    assert auditor.audit() == []


def test_a_nominated_pod_for_which_room_is_kept_is_found_too() -> None:
    state, auditor = world(deaf=True)
    told(state, "Pod", pending("big", "3"), 1.0)
    reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    assert state.cache.nominate(state.cache.cluster.pods["default/big"], "n1")
    [missed] = auditor.audit()
    assert missed.node_name == "n1"


def test_a_pod_that_does_not_fit_is_left_alone() -> None:
    state, auditor = world(deaf=True)
    told(state, "Pod", pending("big", "30"), 1.0)
    reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    assert auditor.audit() == []
    assert auditor.audited == 1


def gang(state: SchedulingState, min_count: int, *cpus: str) -> None:
    """Add a PodGroup and members that the room did not suffice for."""
    group = v1.PodGroup()
    group.metadata.name, group.metadata.namespace = "g", "default"
    group.spec.scheduling_policy.gang.min_count = min_count
    told(state, "PodGroup", group, 1.0)
    for number, cpu in enumerate(cpus):
        told(state, "Pod", pending(f"member-{number}", cpu, "g"), 1.0)
    for queued in [queued for _ in cpus if (queued := state.queue.attempts.pop(1.0)) is not None]:
        state.queue.attempts.add_unschedulable_if_not_present(
            queued, 1.0, unschedulable_plugins={"NodeResourcesFit"}
        )


def test_a_member_that_fits_alone_is_left_alone_while_its_gang_does_not_fit() -> None:
    state, auditor = world(deaf=True)
    gang(state, 2, "3", "3")
    told(state, "Node", node("n1"), 2.0)
    assert auditor.audit() == []
    assert len(state.cache.assumed) == 0


def test_a_gang_that_fits_and_was_not_woken_is_found() -> None:
    state, auditor = world(deaf=True)
    gang(state, 2, "3", "3")
    told(state, "Node", node("n1"), 2.0)
    told(state, "Node", node("n2"), 2.0)
    found = {missed.pod.key for missed in auditor.audit()}
    assert found
    assert found <= {"default/member-0", "default/member-1"}
    assert len(state.cache.assumed) == 0


def test_a_gang_is_checked_once_for_all_of_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    state, auditor = world(deaf=True)
    gang(state, 5, *["3"] * 5)
    told(state, "Node", node("n1"), 2.0)
    runs, run = list[str](), PodGroupAttempt.run

    def counted(self: PodGroupAttempt, *args: Any, **more: Any) -> Any:
        runs.append("run")
        return run(self, *args, **more)

    monkeypatch.setattr(PodGroupAttempt, "run", counted)
    assert auditor.audit() == []
    assert auditor.audited == 5
    assert runs == ["run"]


def test_a_gang_whose_check_takes_long_is_left_out() -> None:
    state, auditor = world(deaf=True)
    gang(state, 2, "3", "3")
    for name in ("n1", "n2"):
        told(state, "Node", node(name), 2.0)
    assert auditor.audit(lambda: True) == []
    assert len(state.cache.assumed) == 0
    assert auditor.audit()


def test_a_gang_in_a_queue_is_left_alone_because_it_also_waits_for_quota() -> None:
    state, auditor = world(deaf=True)
    gang(state, 2, "3", "3")
    for kind, name, spec in (
        ("ClusterQueue", "team", {"namespaceSelector": {}}),
        ("LocalQueue", "default", {"clusterQueue": "team"}),
    ):
        meta = {"name": name, "namespace": "default" if kind == "LocalQueue" else ""}
        version = "kueue.x-k8s.io/v1beta2"
        item = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
        told(state, kind, from_manifest(item).message, 1.0)
    for name in ("n1", "n2"):
        told(state, "Node", node(name), 2.0)
    for _ in state.admission.refresh(2.0):
        pass
    assert auditor.audit() == []


def test_a_pod_that_permit_turned_down_is_not_looked_at() -> None:
    state, auditor = world(deaf=True)
    told(state, "Node", node("n1"), 0.5)
    told(state, "Pod", pending("small", "1"), 1.0)
    reject(state, "SomePermitPlugin", 1.0)
    assert auditor.audit() == []


def test_samples_go_round_all_waiting_pods() -> None:
    state, _ = world(deaf=True)
    auditor = Auditor(state, state.decider(), RecentEvents(), sample=2)
    for index in range(5):
        told(state, "Pod", pending(f"pod-{index}", "3"), 1.0)
        reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    found = [missed.pod.key for _ in range(3) for missed in auditor.audit()]
    assert sorted(found) == [f"default/pod-{index}" for index in range(5)]


def test_a_sample_that_takes_long_goes_on_next_time() -> None:
    state, auditor = world(deaf=True)
    for index in range(3):
        told(state, "Pod", pending(f"pod-{index}", "3"), 1.0)
        reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    found = [[missed.pod.key for missed in auditor.audit(lambda: True)] for _ in range(4)]
    first, second, third, again = found
    assert sorted(first + second + third) == [f"default/pod-{index}" for index in range(3)]
    assert again == first


@pytest.mark.looptime
async def test_pods_that_fit_are_reported_and_woken_but_not_while_there_is_other_work() -> None:
    state, auditor = world(deaf=True)
    told(state, "Pod", pending("big", "3"), 1.0)
    reject(state, "NodeResourcesFit", 1.0)
    told(state, "Node", node("n1"), 2.0)
    busy, reported, woken = [True], list[tuple[int, Sequence[str]]](), list[str]()
    running = asyncio.create_task(
        auditor.run(
            1.0,
            lambda: busy[0],
            lambda pods, events: reported.append((pods, events)),
            lambda pods: woken.extend(pod.key for pod in pods),
        )
    )
    await asyncio.sleep(3.5)
    assert not reported and not woken
    busy[0] = False
    await asyncio.sleep(1.0)
    assert reported == [(1, ["NodeAdd"])] and woken == ["default/big"]
    running.cancel()


def test_without_any_event_remembered_the_cause_is_unknown() -> None:
    assert RecentEvents().last("n1", 0.0) == UNKNOWN_EVENT
