"""What a replica says of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from podsched.app.replica_status import ReplicaStatus
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ElectionMetrics
from support.page_world import load


def status(registry: MetricRegistry, *, leads: bool, **changes: Any) -> ReplicaStatus:
    """The status of a replica of term 3, whose record has had two transitions."""
    view = SimpleNamespace(term=3, transitions=2, announced="a_1")
    parts: dict[str, Any] = {
        "elector": SimpleNamespace(
            is_leader=lambda: leads, state=SimpleNamespace(view=view), slow_paths=4
        ),
        "runner": SimpleNamespace(paused=True, state=SimpleNamespace(set_aside=[])),
        "informer": SimpleNamespace(synced=SimpleNamespace(is_set=lambda: True), undecodable=1),
        "load": SimpleNamespace(load=lambda: load(0.0), line=lambda: "{}"),
        "is_racing": lambda: True,
    }
    return ReplicaStatus(
        name="a",
        identity="a_1",
        lock="kube-system/kube-scheduler",
        lock_name="kube-scheduler",
        priority=0,
        metrics=ElectionMetrics(registry),
        page=lambda: "http://127.0.0.1:1/",
        **cast(Any, parts | changes),
    )


@pytest.mark.parametrize(("leads", "term"), [(True, 3), (False, 0)])
def test_only_a_leader_names_its_term(leads: bool, term: int) -> None:
    registry = MetricRegistry()
    own = status(registry, leads=leads)
    registry.before_collect(own.update_metrics)
    assert f"podsched_leader_election_term {term}.0\n" in registry.render()[0].decode()
    assert own.state().term == own.leadership(0.0).replicas[0].term == term
    assert own.published("")["term"] == (str(term) if leads else "")


@pytest.mark.parametrize(("racing", "warm"), [(True, "true"), (False, "false")])
def test_a_replica_is_warm_once_it_competes_for_the_lock(racing: bool, warm: str) -> None:
    own = status(MetricRegistry(), leads=False, is_racing=lambda: racing)
    assert own.published("")["warm"] == warm
