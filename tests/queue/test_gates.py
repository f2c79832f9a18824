"""Which plugin keeps a pod out of activeQ, and which one a user is told."""

from __future__ import annotations

from podsched.framework.pods import QueuedPodInfo
from podsched.queue.gates import Gates
from podsched.queue.observer import QueueObserver
from support.queue_world import PROFILE, Gate, pod


def gate(name: str, *, rejects: bool = True) -> Gate:
    made = Gate(name)
    made.held |= {"uid-a"} if rejects else set()
    return made


def entered(admission: Gate, *plugins: Gate) -> tuple[Gates, QueuedPodInfo]:
    """The gates, and a new pod for which they were asked."""
    gates = Gates({PROFILE: plugins}, QueueObserver(), admission)
    queued = QueuedPodInfo(pod("a"), 0.0)
    queued.gating_plugin = gates.rejecting(queued)
    return gates, queued


def test_a_new_pod_is_rejected_by_the_admission_before_any_plugin_is_asked() -> None:
    plugin = gate("Gang")
    _, queued = entered(gate("Admission"), plugin)
    assert (queued.gating_plugin, plugin.asked) == ("Admission", [])


def test_a_pod_that_the_admission_lets_pass_is_asked_by_the_plugins_in_order() -> None:
    _, queued = entered(gate("Admission", rejects=False), gate("First"), gate("Second"))
    assert queued.gating_plugin == "First"


def test_the_reason_of_a_plugin_is_told_before_that_of_the_admission() -> None:
    gates, queued = entered(gate("Admission"), gate("Gang"))
    assert gates.refusal(queued) == ("Gang", ("waiting",))


def test_the_reason_of_the_admission_is_told_if_no_plugin_rejects_the_pod() -> None:
    gates, queued = entered(gate("Admission"), gate("Gang", rejects=False))
    assert gates.refusal(queued) == ("Admission", ("waiting",))


def test_a_pod_that_nothing_rejects_any_more_still_names_its_gate() -> None:
    admission = gate("Admission")
    gates, queued = entered(admission)
    admission.held.clear()
    assert gates.refusal(queued) == ("Admission", ())
