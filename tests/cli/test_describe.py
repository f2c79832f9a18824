"""Objects in detail, for those who may not read everything."""

from __future__ import annotations

import pytest

from podsched.api.objects import Event, PodGroup
from podsched.cli.describe import events_of
from support.command_client import CommandClient
from support.commands import Commands
from support.engine_world import node, pod


@pytest.fixture(autouse=True)
def objects(in_memory: CommandClient) -> None:
    in_memory.cluster.create(pod("web", {"nodeName": "n"}))
    in_memory.cluster.create(node("n"))
    group = PodGroup()
    group.metadata.name, group.metadata.namespace = "train", "default"
    in_memory.cluster.create(group)


def test_a_pod_is_described_to_those_who_may_not_read_its_events(
    sched: Commands, in_memory: CommandClient
) -> None:
    in_memory.forbidden = {"Event"}
    lines = sched.ok("describe", "pod", "web").splitlines()
    assert "Node:          n" in lines
    assert lines[-1] == "Events:        may not be read"


def test_a_node_and_a_group_are_described_to_those_who_may_not_read_their_pods(
    sched: Commands, in_memory: CommandClient
) -> None:
    lines = sched.ok("describe", "node/n").splitlines()
    assert ["cpu", "100m", "4", "2%"] in map(str.split, lines)
    in_memory.forbidden = {"Pod"}
    lines = sched.ok("describe", "node/n", "podgroup/train").splitlines()
    assert ["cpu", "?", "4", "?"] in map(str.split, lines)
    assert {"Pods:          may not be read", "Members:       may not be read"} <= {*lines}


def test_an_object_that_may_not_be_read_hides_no_other(
    sched: Commands, in_memory: CommandClient
) -> None:
    in_memory.forbidden = {"Node"}
    done = sched("describe", "node/n", "pod/web")
    assert (done.code, done.errors) == (1, ["error: you may not use Node"])
    assert done.out.startswith("Name:          web\n")


def test_where_nothing_was_found_is_said(sched: Commands) -> None:
    done = sched("describe", "secrets")
    assert (done.code, done.err) == (0, "No resources found in default namespace.\n")


def test_events_of_an_earlier_pod_of_the_name_are_not_shown() -> None:
    """As a StatefulSet's next pod; a kubelet names its node by name in place of its uid."""
    again = pod("web")
    again.metadata.uid = "new"
    told = [Event(message=uid) for uid in ("old", "new", "", "web")]
    for event in told:
        event.involved_object.uid = event.message
    assert events_of(again, [*told]) == told[1:]
    assert events_of(again, None) is None
