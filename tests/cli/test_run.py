"""``sched run``, as far as it needs no server."""

from __future__ import annotations

import pytest

from support.commands import Commands


@pytest.mark.parametrize("option", ["--cpu", "--memory"])
def test_an_amount_with_a_wrong_unit_is_refused_before_the_group_is_made(option: str) -> None:
    words = ("run", "--gang", "2", option, "500z", "train", "--", "image")
    done = Commands("127.0.0.1:1")(*words)
    assert (done.code, done.out) == (2, ""), "3 would say that the server was asked"
    assert done.err.startswith(f"error: {option}: quantities must match")
