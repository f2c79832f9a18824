"""Whom ``sched leader transfer`` asks to lead."""

from __future__ import annotations

import pytest
import typer

from podsched.api.objects import Lease
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
