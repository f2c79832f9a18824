"""DefaultBinder: lets the scheduler bind every pod with the API's Bind (kube-scheduler v1.36)."""

from __future__ import annotations

from typing import ClassVar

from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.plugins.without_args import WithoutArgs


class DefaultBinder(WithoutArgs):
    """Bind: accepts every pod."""

    name: ClassVar[str] = "DefaultBinder"
    traits: ClassVar[Traits] = Traits(binds_every_pod=True)

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS
