"""What ``sched events`` refuses before it asks a server."""

from __future__ import annotations

import pytest

from support.commands import Commands


@pytest.mark.parametrize("subject", ["web-0", "pod"])
def test_events_are_those_of_an_object_with_its_kind(sched: Commands, subject: str) -> None:
    done = sched("events", "--for", subject)
    assert done.code == 2
    assert done.errors == [f'error: --for: "{subject}" is not KIND/NAME, such as pod/{subject}']
