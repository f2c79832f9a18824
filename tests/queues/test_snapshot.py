"""The snapshot that decisions about queues are made on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from podsched.queues.objects import ClusterQueue, Workload
from podsched.queues.quota import Quota
from podsched.queues.snapshot import Snapshot
from support.queue_trees import CPU

RUNNING = Workload("w", queue="a", usage={CPU: 3})


class FaultError(Exception):
    pass


@pytest.mark.parametrize(
    "change",
    [
        lambda snapshot: snapshot.with_usage("a", {CPU: 1}),
        lambda snapshot: snapshot.without_usage([RUNNING]),
        lambda snapshot: snapshot.without([RUNNING]),
    ],
)
def test_a_change_for_a_while_is_undone_after_a_fault(
    change: Callable[[Snapshot], AbstractContextManager[None]],
) -> None:
    snapshot = Snapshot([ClusterQueue("a", quotas={CPU: Quota(4)})])
    snapshot.add(RUNNING)
    with pytest.raises(FaultError), change(snapshot):
        assert snapshot.node("a").usage[CPU] != 3
        raise FaultError
    assert snapshot.node("a").usage[CPU] == 3
    assert snapshot.workloads["a"] == {"w": RUNNING}
