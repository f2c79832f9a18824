"""kube-scheduler's feature gates."""

from __future__ import annotations

import pytest

from podsched.config.errors import ConfigError
from podsched.config.feature_gates import GATES, check_version, in_effect, parse_gates


def test_gates_may_have_the_values_that_hold() -> None:
    for name, gate in GATES.items():
        for value in (True, False) if gate.here is None else (gate.here,):
            assert parse_gates(f"{name}={str(value).lower()}") == {name: value}


def test_every_gate_that_would_not_hold_is_an_error_that_says_what_does() -> None:
    wrong = ",".join(
        f"{name}={str(not gate.here).lower()}"
        for name, gate in GATES.items()
        if gate.here is not None
    )
    with pytest.raises(ConfigError) as refused:
        parse_gates(wrong)
    reasons = [error.reason for error in refused.value.errors]
    assert reasons == [
        f"cannot be {str(not gate.here).lower()}: {gate.means}"
        for gate in GATES.values()
        if gate.here is not None
    ]


@pytest.mark.parametrize(
    "text", ["Foo=true", "SchedulerQueueingHints", "DRAAdminAccess=maybe", "=true"]
)
def test_what_is_no_gate_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_gates(text)


@pytest.mark.parametrize("text", ["kube:SidecarContainers=1", " SidecarContainers = T"])
def test_gates_are_read_in_each_form_that_kube_scheduler_reads(text: str) -> None:
    assert parse_gates(text) == {"SidecarContainers": True}


def test_the_gate_of_the_filter_timeout_has_its_name_of_kube_scheduler() -> None:
    assert parse_gates("DRASchedulerFilterTimeout=true") == {"DRASchedulerFilterTimeout": True}


def test_a_gate_is_in_effect_as_it_was_asked_for_or_as_podsched_behaves() -> None:
    asked = parse_gates("CoordinatedLeaderElection=true")
    assert {name for name, on in in_effect(asked).items() if on != in_effect({})[name]} == {
        "CoordinatedLeaderElection"
    }
    assert in_effect({})["SchedulerQueueingHints"]
    assert in_effect({})["DynamicResourceAllocation"]
    assert in_effect({})["DRAExtendedResource"]
    assert not in_effect({})["DRANodeAllocatableResources"]


def test_only_the_version_that_podsched_follows_is_emulated() -> None:
    check_version("--emulated-version", "kube=1.36")
    with pytest.raises(ConfigError, match="emulates no other version"):
        check_version("--emulated-version", "1.35")


def test_gates_of_the_time_of_policies_are_taken_as_podsched_behaves() -> None:
    parse_gates("EvenPodsSpread=true,BalanceAttachedNodeVolumes=false")
    with pytest.raises(ConfigError, match="cpu and memory, not of volumes"):
        parse_gates("BalanceAttachedNodeVolumes=true")
