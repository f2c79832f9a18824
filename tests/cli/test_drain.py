"""Which pods a drain evicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsched.api.objects import Pod
from podsched.cli.drain import DAEMON_SET, LOCAL_DATA, UNMANAGED, Rules, plan
from support.commands import Commands

RULES = Rules(force=False, ignore_daemonsets=False, delete_emptydir_data=False, grace_period=None)


def pod(owner: str = "ReplicaSet", *, phase: str = "Running", empty_dir: bool = False) -> Pod:
    message = Pod()
    message.metadata.name, message.metadata.namespace = "p", "default"
    message.status.phase = phase
    if owner:
        message.metadata.owner_references.add(kind=owner, name="o", controller=True)
    if empty_dir:
        message.spec.volumes.add(name="v").empty_dir.SetInParent()
    return message


@pytest.mark.parametrize(
    ("stands_in_the_way", "reason", "allowed"),
    [
        (pod("DaemonSet"), DAEMON_SET, {"ignore_daemonsets": True}),
        (pod(""), UNMANAGED, {"force": True}),
        (pod(empty_dir=True), LOCAL_DATA, {"delete_emptydir_data": True}),
    ],
)
def test_a_pod_that_would_be_lost_needs_an_option(
    stands_in_the_way: Pod, reason: str, allowed: dict[str, bool]
) -> None:
    assert plan([stands_in_the_way], RULES).obstacles == {reason: ["default/p"]}
    assert plan([stands_in_the_way], replace(RULES, **allowed)).obstacles == {}


@pytest.mark.parametrize("owner", ["", "DaemonSet"])
def test_a_daemon_sets_pod_stays_and_a_finished_pod_goes(owner: str) -> None:
    rules = replace(RULES, ignore_daemonsets=True)
    finished = pod(owner, phase="Succeeded")
    assert plan([pod("DaemonSet"), finished], rules).evict == [finished]


def test_a_pod_that_is_terminating_already_is_waited_for() -> None:
    terminating = pod("")
    terminating.metadata.deletion_timestamp.seconds = 1
    assert plan([terminating], RULES).evict == [terminating]


def test_a_mirror_pod_is_left() -> None:
    mirror = pod("")
    mirror.metadata.annotations["kubernetes.io/config.mirror"] = "x"
    found = plan([mirror], RULES)
    assert (found.evict, found.obstacles) == ([], {})


def test_a_reason_is_one_line_that_names_some_of_its_pods() -> None:
    [line] = plan([pod("") for _ in range(7)], RULES).errors()
    assert line == f"cannot evict 7 pods {UNMANAGED}: {', '.join(['default/p'] * 5)}, ..."


def test_a_selector_selects_nodes_in_place_of_names_and_not_pods() -> None:
    """As with kubectl. Taken for one of pods, it would call a node drained that is not."""
    done = Commands("127.0.0.1:1")("drain", "n", "-l", "pool=old")
    assert (done.code, done.err) == (2, "error: use either NODE... or -l SELECTOR\n")
