"""A correct history passes; a violation of each kind is found, and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podsched.lab.chaos.history import history_of
from podsched.lab.chaos.outcome import MOST, PROMISES, check
from podsched.lab.chaos.promises import devices, ending, evictions, gangs, nodes, objects, terms
from podsched.lab.chaos.records import (
    Change,
    FaultMark,
    Outcome,
    Revision,
    decode,
    encode,
)
from podsched.term.controllers.resource_claims import IDLE
from support.chaos_history import Story, good_story, node_of


def broken(story: Story) -> list[str]:
    """The promises that a history breaks."""
    return [violation.promise for violation in check(story.history)]


def told(story: Story) -> str:
    """What the only violation says."""
    [violation] = check(story.history)
    return violation.text


def test_a_history_in_which_everything_was_kept_passes() -> None:
    assert check(good_story().history) == []


def test_a_history_that_was_written_and_read_again_is_the_same() -> None:
    story = good_story()
    assert history_of(decode(encode(record)) for record in story.records) == story.history


# ---------------------------------------------------------------------- objects


def test_an_acknowledged_create_that_was_never_stored_is_found() -> None:
    story = Story()
    story.call("create", "ghost", uid="u")
    assert broken(story) == [objects.CREATED]
    assert "pods/default/ghost was acknowledged at revision 100" in told(story)


def test_an_acknowledged_create_that_is_gone_without_a_reason_is_found() -> None:
    story = Story()
    story.pod("web")
    story.gone("web")
    assert broken(story) == [objects.CREATED]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_a_deletion_explains_that_an_object_is_gone(outcome: Outcome) -> None:
    story = Story()
    uid = story.pod("web")
    story.call("delete", "web", uid=uid, outcome=outcome)
    story.gone("web")
    assert broken(story) == []


def test_a_leaders_eviction_explains_that_a_pod_without_a_node_is_gone() -> None:
    story = Story()
    term = story.term("s0")
    story.pod("web")
    story.gone("web")
    story.wrote(term, "web", story.revision, method="BindPods")
    assert broken(story) == [objects.CREATED]
    story.wrote(term, "web", story.revision, method="EvictPods")
    assert broken(story) == []


def test_a_refused_deletion_does_not_explain_that_an_object_is_gone() -> None:
    story = Story()
    uid = story.pod("web")
    story.call("delete", "web", uid=uid, outcome=Outcome.FAILED)
    story.gone("web")
    assert broken(story) == [objects.CREATED]


def test_a_deletion_of_an_earlier_object_of_that_name_explains_nothing() -> None:
    story = Story()
    uid = story.pod("web")
    story.call("delete", "web", uid=uid)
    story.gone("web")
    story.pod("web")
    story.gone("web")
    assert broken(story) == [objects.CREATED]


def test_a_create_without_an_answer_promises_nothing() -> None:
    story = Story()
    story.call("create", "ghost", uid="u", outcome=Outcome.UNKNOWN)
    assert broken(story) == []


def test_a_create_that_is_known_by_its_revision_alone_is_found_there() -> None:
    story = Story()
    story.pod("web")
    story.call("create", "web")
    assert broken(story) == []
    born = story.revision
    story.stored()
    story.call("create", "web")
    assert broken(story) == [objects.CREATED]
    assert f"and stored at {born} instead" in told(story)


def test_a_create_that_failed_and_was_done_all_the_same_is_found() -> None:
    story = Story()
    story.pod("web", outcome=Outcome.FAILED)
    assert broken(story) == [objects.UNDONE]


def test_a_repetition_may_fail_of_what_was_done_before() -> None:
    story = Story()
    story.pod("web", outcome=Outcome.UNKNOWN)
    story.call("create", "web", outcome=Outcome.FAILED)
    assert broken(story) == []


def test_an_acknowledged_delete_that_was_not_done_is_found() -> None:
    story = Story()
    uid = story.pod("web")
    story.call("delete", "web", uid=uid)
    assert broken(story) == [objects.DELETED]


@pytest.mark.parametrize("node", ["node-2", ""])
def test_a_pod_that_is_moved_is_found(node: str) -> None:
    story = Story()
    story.node("node-1")
    story.node("node-2")
    story.pod("web")
    story.becomes("web", node="node-1")
    story.becomes("web", node=node)
    assert broken(story) == [objects.BOUND]
    assert f"pod default/web was moved from node-1 to {node or 'no node'}" in told(story)


def test_an_object_that_becomes_another_without_a_deletion_is_found() -> None:
    story = Story()
    story.node()
    story.stored(Change(key="nodes/node-1", uid="another", object=node_of("node-1")))
    assert broken(story) == [objects.IDENTITY]
    assert told(story) == "nodes/node-1 has become another and was not deleted as node-1"


def test_a_deleted_object_that_is_there_again_is_found() -> None:
    story = Story()
    story.node()
    story.stored(Change(key="nodes/node-1", deleted=True))
    story.node()
    assert broken(story) == [objects.IDENTITY]
    assert told(story) == "nodes/node-1 is there again as node-1, which was deleted"


def test_an_object_that_comes_after_another_of_its_name_was_deleted_is_in_order() -> None:
    story = Story()
    uid = story.pod("web")
    story.call("delete", "web", uid=uid)
    story.gone("web")
    story.pod("web")
    assert broken(story) == []


@pytest.mark.parametrize(
    ("state", "why"),
    [("gated", "is held back by scheduling gates"), ("deleting", "is being deleted")],
)
def test_a_pod_that_is_bound_although_something_forbids_it_is_found(state: str, why: str) -> None:
    story = Story()
    story.node()
    story.pod("web")
    story.becomes("web", **{state: True})
    story.becomes("web", node="node-1")
    assert broken(story) == [objects.BINDABLE]
    assert told(story) == f"pod default/web was bound although it {why}"


# ---------------------------------------------------------------------- terms


def test_a_write_of_a_term_after_a_later_one_is_found() -> None:
    story = Story()
    story.node()
    story.pod("web")
    first = story.term("s0")
    second = story.term("s1")
    story.wrote(first, "web", story.becomes("web", node="node-1"))
    assert broken(story) == [terms.FENCED]
    assert f"term {first} wrote pod default/web" in told(story)
    assert f"after term {second} began" in told(story)


def test_a_late_write_whose_caller_did_not_wait_is_found() -> None:
    story = Story()
    story.node()
    for name in ("web", "other"):
        story.pod(name)
    first, second = story.term("s0"), story.term("s1")
    story.wrote(first, "web")
    revision = story.becomes("web", node="node-1")
    story.wrote(second, "other", revision)
    assert broken(story) == [terms.FENCED]


def test_a_large_batch_of_the_term_in_office_may_have_had_the_pod() -> None:
    story = Story()
    story.node()
    story.pod("web")
    first, second = story.term("s0"), story.term("s1")
    story.wrote(first, "web")
    story.wrote(second, "other", story.becomes("web", node="node-1"), more=7)
    assert broken(story) == []


def test_a_large_batch_of_the_term_in_office_that_was_given_up_may_have_had_the_pod() -> None:
    story = Story()
    story.node()
    story.pod("web")
    first, second = story.term("s0"), story.term("s1")
    story.wrote(first, "web")
    story.wrote(second, "other", more=7)
    story.becomes("web", node="node-1")
    assert broken(story) == []


def test_a_write_of_a_term_after_its_release_is_found() -> None:
    story = Story()
    story.node()
    story.pod("web")
    first = story.term("s0")
    story.released()
    story.wrote(first, "web", story.becomes("web", node="node-1"))
    assert broken(story) == [terms.FENCED]


def test_a_late_repetition_of_what_the_term_in_office_wrote_is_no_write() -> None:
    story = Story()
    story.node()
    story.pod("web")
    first, second = story.term("s0"), story.term("s1")
    revision = story.becomes("web", node="node-1")
    story.wrote(first, "web", revision)
    story.wrote(second, "web", revision)
    assert broken(story) == []


def test_revisions_that_go_backwards_are_found() -> None:
    story = Story()
    story.term("s0")
    story.add(Revision(at=1.0, number=story.revision - 1))
    assert broken(story) == [terms.INCREASE]


def test_a_write_of_a_term_that_never_began_is_found() -> None:
    story = Story()
    story.term("s0")
    story.wrote(5, "web", story.revision)
    assert broken(story) == [terms.INCREASE]


# ---------------------------------------------------------------------- nodes


def test_a_node_beyond_its_capacity_is_found() -> None:
    story = Story()
    story.node(cpu="1500m")
    for name in ("a", "b"):
        story.pod(name)
        story.becomes(name, node="node-1")
    assert broken(story) == [nodes.CAPACITY]
    assert told(story) == "the pods on node node-1 request 2 of 1.5 cpu"


def test_room_that_a_pod_gave_back_before_is_free() -> None:
    story = Story()
    story.node(cpu="1")
    uid = story.pod("a")
    story.becomes("a", node="node-1")
    story.call("delete", "a", uid=uid)
    story.gone("a")
    story.pod("b")
    story.becomes("b", node="node-1")
    assert broken(story) == []


def test_a_binding_to_a_node_that_does_not_exist_is_found() -> None:
    story = Story()
    story.pod("web")
    story.becomes("web", node="nowhere")
    assert broken(story) == [nodes.MISSING]


@pytest.mark.parametrize(("address", "clash"), [("0.0.0.0", True), ("10.0.0.2", False)])
def test_a_host_port_that_is_used_twice_is_found(address: str, clash: bool) -> None:
    story = Story()
    story.node()
    story.pod("a", ports=(("10.0.0.1", "TCP", 80),))
    story.becomes("a", node="node-1")
    story.pod("b", ports=((address, "TCP", 80),))
    story.becomes("b", node="node-1")
    assert broken(story) == ([nodes.PORTS] if clash else [])


@pytest.mark.parametrize("exclusive", [True, False])
def test_an_exclusive_volume_that_is_used_twice_is_found(exclusive: bool) -> None:
    story = Story()
    story.node("node-1")
    story.node("node-2")
    story.claim("data", exclusive=exclusive)
    for name, node in (("a", "node-1"), ("b", "node-2")):
        story.pod(name, claims=("data",))
        story.becomes(name, node=node)
    assert broken(story) == ([nodes.EXCLUSIVE] if exclusive else [])


def required(*expressions: tuple[str, str, tuple[str, ...]]) -> dict[str, Any]:
    return {"affinity": (("match_expressions", expressions),)}


TAINT = ("dedicated", "db", "NoSchedule")
UNSUITED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "selector": ({}, {"selector": {"zone": "b"}}, "does not match its node selector"),
    "affinity": (
        {},
        required(("zone", "NotIn", ("a",))),
        "does not match its required node affinity",
    ),
    "name": (
        {},
        {"affinity": (("match_fields", (("metadata.name", "In", ("node-2",)),)),)},
        "does not match its required node affinity",
    ),
    "no term": ({}, {"affinity": ()}, "does not match its required node affinity"),
    "taint": ({"taints": (TAINT,)}, {}, "has the taint dedicated:NoSchedule"),
    "another value": (
        {"taints": (TAINT,)},
        {"tolerations": (("dedicated", "Equal", "web", ""),)},
        "has the taint dedicated:NoSchedule",
    ),
}
SUITED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "selector": ({}, {"selector": {"zone": "a"}}),
    "affinity": ({}, required(("zone", "In", ("a", "b")), ("gpu", "DoesNotExist", ()))),
    "one of the terms": (
        {},
        {
            "affinity": (
                ("match_expressions", (("zone", "In", ("b",)),)),
                ("match_fields", (("metadata.name", "In", ("node-1",)),)),
            )
        },
    ),
    "tolerated": ({"taints": (TAINT,)}, {"tolerations": (("dedicated", "Exists", "", ""),)}),
    "everything": ({"taints": (TAINT,)}, {"tolerations": (("", "Exists", "", ""),)}),
}


@pytest.mark.parametrize("case", UNSUITED)
def test_a_binding_to_a_node_that_does_not_suit_is_found(case: str) -> None:
    of_node, of_pod, why = UNSUITED[case]
    story = Story()
    story.node(labels={"zone": "a"}, **of_node)
    story.pod("web", **of_pod)
    story.becomes("web", node="node-1")
    assert broken(story) == [nodes.SUITED]
    assert told(story) == f"pod default/web was bound to node node-1, which {why}"


@pytest.mark.parametrize("case", SUITED)
def test_a_binding_to_a_node_that_suits_is_in_order(case: str) -> None:
    of_node, of_pod = SUITED[case]
    story = Story()
    story.node(labels={"zone": "a"}, **of_node)
    story.pod("web", **of_pod)
    story.becomes("web", node="node-1")
    assert broken(story) == []


@pytest.mark.parametrize(("seconds", "found"), [(5.0, False), (31.0, True)])
def test_a_decision_may_be_as_old_as_a_node_that_suited(seconds: float, found: bool) -> None:
    story = Story()
    story.node(labels={"zone": "a"})
    story.pod("web", selector={"zone": "a"})
    story.node(labels={"zone": "b"})
    story.wait(seconds)
    story.becomes("web", node="node-1")
    assert broken(story) == ([nodes.SUITED] if found else [])


def test_what_a_node_becomes_after_the_binding_is_not_held_against_it() -> None:
    story = Story()
    story.node(labels={"zone": "a"})
    story.pod("web", selector={"zone": "a"})
    story.becomes("web", node="node-1")
    story.wait(60)
    story.node(taints=(TAINT,))
    story.becomes("web", ready=True)
    assert broken(story) == []


def test_a_pod_that_was_created_with_a_node_was_not_decided_on() -> None:
    story = Story()
    story.node(taints=(TAINT,))
    story.pod("static", node="node-1")
    assert broken(story) == []


# ---------------------------------------------------------------------- evictions


def budgeted(names: tuple[str, ...]) -> Story:
    """Healthy pods of the application "web", bound long ago."""
    story = Story()
    story.node()
    for name in names:
        story.pod(name, labels={"app": "web"})
        story.becomes(name, node="node-1", ready=True)
    return story


def test_an_eviction_that_breaks_a_budget_is_found() -> None:
    story = budgeted(("a", "b"))
    story.evicts("a", desired=2)
    assert broken(story) == [evictions.BUDGET]
    assert told(story) == (
        "evicting default/a left too few healthy pods of budget default/web: 1 of 2"
    )


def test_an_eviction_right_after_a_pod_was_lost_otherwise_is_not_judged() -> None:
    story = budgeted(("a", "b", "c"))
    story.evicts("a", desired=1)
    story.becomes("b", ready=False)
    story.evicts("c", desired=1)
    assert broken(story) == []


@pytest.mark.parametrize("with_event", [True, False])
def test_a_preemption_victim_of_the_same_priority_is_found(with_event: bool) -> None:
    story = Story()
    story.node()
    victim = story.pod("victim", priority=5)
    story.becomes("victim", node="node-1")
    preemptor = story.pod("preemptor", priority=5, plain=False)
    story.becomes("victim", deleting=True, disrupted="PreemptionByScheduler")
    if with_event:
        story.pod("important", priority=9, plain=False)
        story.preempted_event(victim, preemptor)
    assert broken(story) == [evictions.VICTIMS]
    assert told(story) == "pod default/victim of priority 5 was preempted for a pod of priority 5"


# ---------------------------------------------------------------------- gangs


def gang(story: Story, *names: str) -> None:
    """Members of which all have to start together."""
    for name in names:
        labels = {"chaos.podsched.io/min-count": str(len(names))}
        story.pod(name, labels=labels, group="g")


def test_a_gang_that_stays_partly_bound_in_the_end_is_found() -> None:
    story = Story()
    story.node()
    gang(story, "a", "b")
    story.becomes("a", node="node-1")
    story.settles()
    assert broken(story) == [gangs.WHOLE]
    assert "gang g had 1 bound member for" in told(story)


def test_a_gang_that_was_partly_bound_for_too_long_is_found_though_it_was_completed() -> None:
    story = Story(within=5.0)
    story.node()
    gang(story, "a", "b")
    story.becomes("a", node="node-1")
    story.wait(6.0)
    story.becomes("b", node="node-1")
    assert broken(story) == [gangs.WHOLE]


def test_a_gang_that_was_taken_back_or_lost_a_member_later_keeps_the_promise() -> None:
    story = Story()
    story.node()
    gang(story, "a", "b")
    story.becomes("a", node="node-1")
    story.becomes("a", deleting=True, disrupted="PodGroupIncomplete")
    gang(story, "c", "d")
    story.becomes("c", node="node-1")
    story.becomes("d", node="node-1")
    story.becomes("d", deleting=True, disrupted="DeletionByTaintManager")
    story.settles()
    assert gangs.WHOLE not in broken(story)


# ---------------------------------------------------------------------- ending


def waiting(seconds: float, prepare: Callable[[Story], None] = lambda _: None) -> Story:
    """A pod is still waiting so many seconds after the last fault."""
    story = Story(within=10)
    story.node()
    story.pod("web")
    prepare(story)
    story.fault()
    for _ in range(int(seconds)):
        story.wait(1.0)
        story.stored()
    story.settles()
    return story


def test_a_pod_that_fits_and_is_not_bound_in_time_is_found() -> None:
    assert broken(waiting(14)) == [ending.SCHEDULED]
    assert "pod default/web fits for 1" in told(waiting(14))


def test_a_pod_has_its_time_from_the_last_fault_on() -> None:
    assert broken(waiting(8)) == []


@pytest.mark.parametrize(
    "prepare",
    [
        lambda story: story.becomes("web", requests={"cpu": "5"}),
        lambda story: story.becomes("web", selector={"pool": "tight"}),
        lambda story: story.becomes("web", plain=False),
        lambda story: story.node(unschedulable=True),
    ],
    ids=["too large", "no such node", "constrained", "node cordoned"],
)
def test_a_pod_that_does_not_fit_may_wait(prepare: Callable[[Story], None]) -> None:
    assert broken(waiting(14, prepare)) == []


def test_room_that_is_promised_to_a_nominated_pod_is_taken() -> None:
    def nominated(story: Story) -> None:
        story.pod("big", cpu="4", nominated="node-1", priority=5, plain=False)

    assert broken(waiting(14, nominated)) == []


@pytest.mark.parametrize("change", [{"deleting": True}, {"node": "node-1", "deleting": True}])
def test_a_pod_whose_deletion_does_not_end_is_found(change: dict[str, object]) -> None:
    story = waiting(14, lambda story: story.becomes("web", **change))
    assert broken(story) == [ending.GONE]
    assert "pod default/web is being deleted for 1" in told(story)
    assert broken(waiting(8, lambda story: story.becomes("web", **change))) == []


def test_pods_that_stay_assumed_are_found() -> None:
    story = Story()
    story.settles(s0=0, s1=3)
    assert broken(story) == [ending.ASSUMED]


@pytest.mark.parametrize(
    "left",
    [
        {"exit_codes": {"scheduler-0": -9}},
        {"processes": ("17 etcd",)},
        {"tasks": ("watch pods",)},
        {"complaints": ("scheduler-0: Traceback",)},
    ],
)
def test_what_is_left_at_the_end_is_found(left: dict[str, object]) -> None:
    story = Story()
    story.ends(**left)
    assert broken(story) == [ending.LEFT]


def test_a_process_that_does_not_come_back_is_found() -> None:
    story = Story()
    story.add(FaultMark(at=1.0, number=1, name="rolling-restart", what="all", failed="nobody"))
    assert broken(story) == []
    story.add(FaultMark(at=9.0, number=1, name="x", what="all", ends=True, failed="s0 hangs"))
    assert broken(story) == [ending.MENDED]
    assert told(story) == "all: s0 hangs"


def test_of_many_violations_of_a_promise_the_first_are_told() -> None:
    story = Story()
    for number in range(MOST + 5):
        story.call("create", f"ghost-{number}", uid=str(number))
    assert len(check(story.history)) == MOST


def test_every_promise_has_a_history_here_that_breaks_it() -> None:
    assert set(PROMISES) == {
        objects.CREATED,
        objects.UNDONE,
        objects.DELETED,
        objects.BOUND,
        objects.BINDABLE,
        objects.IDENTITY,
        terms.INCREASE,
        terms.FENCED,
        nodes.SUITED,
        nodes.CAPACITY,
        nodes.PORTS,
        nodes.EXCLUSIVE,
        evictions.BUDGET,
        evictions.VICTIMS,
        gangs.WHOLE,
        devices.ONCE,
        devices.USED,
        ending.SCHEDULED,
        ending.GONE,
        ending.ASSUMED,
        ending.MENDED,
        ending.LEFT,
    }


# ---------------------------------------------------------------------- devices


def test_a_device_of_two_claims_is_found() -> None:
    story = Story(within=1000)
    story.pod("web")
    story.allocated("a", "gpu-0", "gpu-1", users=("web",))
    story.allocated("b", "gpu-1", "gpu-2", users=("web",))
    assert broken(story) == [devices.ONCE]
    assert told(story) == "device gpu/n1/gpu-1 belongs to the claims default/a and default/b"


def test_a_device_may_change_hands_in_one_revision() -> None:
    story = good_story()
    story.allocated("later", "gpu-1", users=("high",))
    [allocation] = story.history.revisions[-1].changes
    assert broken(story) == [devices.ONCE]
    story = good_story()
    story.stored(allocation, Change(key="resourceclaims/default/next", deleted=True))
    assert broken(story) == []


def test_shares_of_a_device_and_administrators_may_meet() -> None:
    story = Story(within=1000)
    story.pod("web")
    for name, fields in {"a": {"share_id": "1"}, "b": {"admin_access": True}, "c": {}}.items():
        story.allocated(name, "gpu-0", users=("web",))
        [kept] = story.history.revisions[-1].changes
        for field, value in fields.items():
            setattr(kept.object.status.allocation.devices.results[0], field, value)
    assert broken(story) == []


@pytest.mark.parametrize("how", ["unreserved", "gone", "ended", "another"])
def test_devices_that_no_pod_needs_are_to_be_given_back_in_time(how: str) -> None:
    story = Story(within=5)
    story.pod("web")
    story.allocated("a", "gpu-0", users=() if how == "unreserved" else ("web",))
    if how == "ended":
        story.becomes("web", phase="Succeeded")
    if how in ("gone", "another"):
        story.call("delete", "web")
        story.gone("web")
    if how == "another":
        story.pod("web")
    story.wait(IDLE + 4)
    story.settles()
    assert devices.USED not in broken(story)
    story.wait(2)
    story.settles()
    assert broken(story) == [devices.USED]
    assert told(story).startswith("claim default/a keeps its devices for 66.0 s")


def test_during_faults_devices_may_wait_to_be_given_back() -> None:
    story = Story(within=5)
    story.allocated("a", "gpu-0")
    story.wait(IDLE + 20)
    story.fault(1)
    story.settles()
    assert broken(story) == []
    story.wait(IDLE + 6)
    story.settles()
    assert broken(story) == [devices.USED]


def test_devices_of_a_pod_that_waits_are_needed() -> None:
    story = Story(within=5)
    story.pod("web")
    story.allocated("a", "gpu-0", users=("web",))
    story.wait(IDLE + 20)
    story.settles()
    assert devices.USED not in broken(story)


def test_time_without_use_counts_anew_after_the_devices_were_used() -> None:
    story = Story(within=5)
    story.pod("web")
    for users in ((), ("web",), ()):
        story.allocated("a", "gpu-0", users=users)
        story.wait(IDLE)
    story.settles()
    assert devices.USED not in broken(story)
