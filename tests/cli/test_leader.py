"""Whom ``sched leader transfer`` asks to lead."""

from __future__ import annotations

import pytest
import typer

from podsched.api.objects import Lease
from podsched.app.leader_requests import HAND_OVER
from podsched.app.replica_lease import (
    COMPONENT,
    DEFAULT_LOCK,
    LABEL,
    NAMESPACE,
    PREFIX,
    lease_name,
)
from podsched.cli import leader
from podsched.cli.leader import chosen
from support.command_client import CommandClient
from support.commands import Commands

FOUND = ("s1_aa", "s2_bb")


def test_a_standby_is_known_by_its_name_or_its_identity_and_the_best_one_comes_first() -> None:
    assert [chosen(FOUND, to) for to in ("s2", "s2_bb", "")] == ["s2_bb", "s2_bb", "s1_aa"]


@pytest.mark.parametrize(
    ("found", "to", "said"),
    [
        (FOUND, "s3", "error: --to: s3 is not a warm standby; these are: s1_aa, s2_bb"),
        ((), "s3", "error: no warm standby is ready to lead"),
        ((), "", "error: no warm standby is ready to lead"),
    ],
)
def test_who_cannot_lead_is_told(
    found: tuple[str, ...], to: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        chosen(found, to)
    assert capsys.readouterr().err.strip() == said


def test_who_has_only_a_number_can_pause_scheduling(
    sched: Commands, in_memory: CommandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As users in containers have."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 1000620000")

    monkeypatch.setattr("getpass.getuser", unknown)
    monkeypatch.setattr("os.getuid", lambda: 1000620000)
    assert sched.ok("leader", "pause") == "Scheduling is paused.\n"
    [lease] = in_memory.cluster.objects("Lease")
    assert isinstance(lease, Lease)
    assert lease.spec.holder_identity == "user 1000620000"


def replica(identity: str, state: str, renewed: int) -> Lease:
    """The Lease of a replica, renewed at a time by its own clock."""
    lease = Lease()
    lease.metadata.namespace, lease.metadata.name = NAMESPACE, lease_name(identity)
    lease.metadata.labels[LABEL] = COMPONENT
    about = {"state": state, "warm": "true", "lock": DEFAULT_LOCK}
    lease.metadata.annotations.update({PREFIX + key: value for key, value in about.items()})
    lease.spec.holder_identity = identity
    lease.spec.renew_time.FromSeconds(renewed)
    return lease


def test_who_can_lead_does_not_depend_on_the_clock_of_who_asks(
    sched: Commands, in_memory: CommandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "_WITHIN", 0.0)
    namespace, _, name = DEFAULT_LOCK.partition("/")
    record = Lease()
    record.metadata.namespace, record.metadata.name = namespace, name
    record.spec.holder_identity = "a_11"
    for lease in (
        record,
        replica("a_11", "leading", 1_000),
        replica("b_22", "standby", 900),
        replica("c_33", "standby", 998),
    ):
        in_memory.cluster.create(lease)
    done = sched("leader", "transfer")
    assert done.errors == ["error: a_11 has not handed over within 0 s: see its log"]
    asked = in_memory.cluster.object("Lease", f"{NAMESPACE}/{lease_name('a_11')}")
    assert asked.metadata.annotations[HAND_OVER].split()[0] == "c_33"
