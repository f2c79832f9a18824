"""Options that name the cluster of a question."""

from __future__ import annotations

import pytest

from support.commands import Commands


@pytest.mark.parametrize("command", ["explain pod web", "queues", "headroom"])
def test_a_context_without_a_kubeconfig_is_not_ignored(command: str) -> None:
    done = Commands("127.0.0.1:1")(*command.split(), "--context", "production")
    assert (done.code, done.err) == (2, "error: --context needs --kubeconfig FILE\n")
