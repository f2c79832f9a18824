"""Two runs side by side."""

from __future__ import annotations

from dataclasses import replace

from podsched.lab.replay.comparison import compare, run_of
from podsched.lab.replay.history import History, PodHistory


def pod(uid: str, bound: float | None = 1.0, **more: object) -> PodHistory:
    node = "" if bound is None else "n1"
    return PodHistory(uid, f"default/{uid}", {}, 0.0, **{"bound": bound, "node": node, **more})  # type: ignore[arg-type]


def test_every_pod_counts_for_what_differs() -> None:
    before = [
        pod("same"),
        pod("moved"),
        pod("later"),
        pod("sooner", 9.0),
        pod("lost"),
        pod("won", None),
        pod("evicted"),
        pod("spared", preempted=True),
        pod("others", decided=False),
    ]
    changes: dict[str, dict[str, object]] = {
        "moved": {"node": "n2"},
        "later": {"bound": 2.5},
        "sooner": {"bound": 1.0},
        "lost": {"bound": None, "node": ""},
        "won": {"bound": 3.0, "node": "n1"},
        "evicted": {"preempted": True},
        "spared": {"preempted": False},
        "others": {"node": "n2"},
    }
    after = [replace(p, **changes.get(p.uid, {})) for p in before]  # type: ignore[arg-type]
    histories = [History(10.0, {p.uid: p for p in pods}) for pods in (before, after)]
    found = compare(*histories).to_json()
    assert found.pop("pods") == 8
    assert {name: [fate["pod"] for fate in fates] for name, fates in found.items()} == {
        "placedElsewhere": ["default/moved"],
        "waitLonger": ["default/later"],
        "waitShorter": ["default/sooner"],
        "boundBeforeOnly": ["default/lost"],
        "boundAfterOnly": ["default/won"],
        "preemptedBeforeOnly": ["default/spared"],
        "preemptedAfterOnly": ["default/evicted"],
    }


def test_a_summary_counts_the_pods_that_a_scheduler_decided_on() -> None:
    pods = [pod("a", 2.0), pod("b", None, unschedulable=True), pod("c", decided=False)]
    run = run_of("x", History(10.0, {p.uid: p for p in pods}), (1, 1))
    summary = run.summary.to_json()
    assert (summary["pods"], summary["bound"], summary["neverBound"]) == (2, 1, 1)
    assert summary["unschedulable"] == 1
    assert summary["waitSeconds"]["max"] == 2.0
