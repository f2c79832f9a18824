"""What a plan rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podsched.api.objects import Node
from podsched.ask.whatif.plan import differing, fingerprint, fingerprints, forecast, on_nodes
from support.engine_world import container
from support.whatif_world import node, owned, world

SMALL = {"cpu": "2", "pods": "9"}


def heartbeat(item: Any) -> None:
    item.metadata.resource_version = "7"
    condition = item.status.conditions.add(type="Ready", status="True")
    condition.last_heartbeat_time.seconds = 5


def cordoned_for_a_while(item: Any) -> None:
    item.spec.unschedulable = True
    item.spec.ClearField("unschedulable")


def started(item: Any) -> None:
    item.metadata.resource_version = "8"
    item.status.phase = "Running"
    item.status.container_statuses.add(name="c", ready=True)


@pytest.mark.parametrize(
    ("obj", "change"),
    [
        (node("a"), heartbeat),
        (Node(), cordoned_for_a_while),
        (owned("web", "a"), started),
    ],
)
def test_what_plugins_do_not_read_changes_no_fingerprint(
    obj: Any, change: Callable[[Any], None]
) -> None:
    before = fingerprint(obj)
    change(obj)
    assert fingerprint(obj) == before


def sidecar_resized(item: Any) -> None:
    status = item.status.init_container_statuses.add(name="sidecar")
    status.resources.requests["cpu"] = "1"


def pod_resized(item: Any) -> None:
    item.status.resources.requests["cpu"] = "1"


def resize_refused(item: Any) -> None:
    item.status.conditions.add(type="PodResizePending", status="True", reason="Infeasible")


@pytest.mark.parametrize(
    ("obj", "change"),
    [
        (node("a"), lambda item: item.spec.taints.add(key="k", effect="NoSchedule")),
        (node("a"), lambda item: item.metadata.labels.update(zone="x")),
        (node("a"), lambda item: item.status.allocatable.update(cpu="3")),
        (owned("web", "a"), lambda item: item.metadata.labels.update(app="db")),
        (owned("web", "a"), lambda item: setattr(item.metadata, "uid", "other")),
        (owned("web", "a"), lambda item: item.metadata.deletion_timestamp.FromSeconds(1)),
        (owned("web", "a"), sidecar_resized),
        (owned("web", "a"), pod_resized),
        (owned("web", "a"), resize_refused),
    ],
)
def test_what_plugins_read_changes_the_fingerprint(obj: Any, change: Callable[[Any], None]) -> None:
    before = fingerprint(obj)
    change(obj)
    assert fingerprint(obj) != before


def test_differences_are_named() -> None:
    ended = owned("ended", "a")
    ended.status.phase = "Succeeded"
    before = fingerprints([node("a"), owned("web", "a"), owned("going", "a")])
    now = fingerprints([node("a"), owned("web", "b"), owned("fresh"), ended])
    assert differing(before, now) == {
        "Pod/default/fresh": "new",
        "Pod/default/going": "gone",
        "Pod/default/web": "changed",
    }


def test_a_node_is_touched_with_the_pods_on_it() -> None:
    objects = [node("a"), node("b"), owned("web", "a"), owned("db", "b")]
    assert on_nodes(objects, {"a"}) == {"Node/a", "Pod/default/web"}


def test_new_pods_are_scheduled_with_those_that_wait_as_the_queue_orders_them() -> None:
    waits = owned("waits", cpu="2", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    made = world([node("a", allocatable=SMALL), node("b", allocatable=SMALL), waits])
    late = {"metadata": {"creationTimestamp": "2026-01-02T00:00:00Z"}}
    new = [owned("plain", cpu="2", **late), owned("urgent", cpu="2", priority=5, **late)]
    expected = forecast(made, new)
    assert {one.pod: one.node for one in expected.decisions} == {
        "default/urgent": "a",
        "default/plain": "",
    }
    assert expected.touched == {"a"}


def test_victims_belong_to_the_decision() -> None:
    made = world([node("a", allocatable=SMALL), owned("low", "a", "2")])
    spec = {"containers": [container({"cpu": "2"})], "priority": 5}
    expected = forecast(made, [owned("high", **spec)])
    assert expected.decisions[0].victims == ("default/low",)
    assert [move.pod.name for move in expected.moves] == ["low"]
