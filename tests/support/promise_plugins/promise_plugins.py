"""Plugins for tests on real processes: one makes pods wait at Permit, one hears nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podsched.framework.events import ClusterEventWithHint
from podsched.framework.plugin import CycleState, Handle, PermitResult
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, unschedulable
from podsched.plugins.per_node import NodeView, PerNodeFilter


class Usher:
    """Pods labelled usher=wait wait for one labelled usher=go; usher=short waits one second."""

    name = "Usher"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._handle = handle

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        wish = pod.cls.labels.get("usher", "")
        if wish == "go":
            for waiting in self._handle.waiting_pods():
                waiting.allow(self.name)
        if wish in ("wait", "short"):
            return PermitResult(Status(Code.WAIT), 60.0 if wish == "wait" else 1.0)
        return PermitResult()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class Deaf(PerNodeFilter):
    """Wants nodes labelled open=yes of pods labelled deaf=yes, and registers no event for it."""

    name = "Deaf"

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status:
        if pod.cls.labels.get("deaf") != "yes" or node.node.metadata.labels.get("open") == "yes":
            return SUCCESS
        return unschedulable("node(s) are not open")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()
