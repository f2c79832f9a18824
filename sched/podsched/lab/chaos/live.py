"""The system as the recorder sees it while it runs: who leads, which pods there are."""

from __future__ import annotations

from podsched.api.objects import Pod
from podsched.lab.chaos.promises.ending import is_late
from podsched.lab.chaos.records import Revision
from podsched.lab.chaos.replay import World, apply
from podsched.lab.chaos.system import System


class Live:
    """The world now, and counts; ``see`` is told each revision."""

    def __init__(self, system: System, lock: str) -> None:
        self._system = system
        self._term_key = f"terms/{lock}"
        self.world = World()
        self.bound = 0
        """Bindings so far."""

    def see(self, revision: Revision) -> None:
        """Take in a revision."""
        self._system.recorded = revision.number
        for change in revision.changes:
            if change.key == self._term_key:
                self._system.leader_identity = change.holder
        self.bound += sum(change.bound for change in apply(self.world, revision))

    @property
    def pods(self) -> dict[str, Pod]:
        """All pods by namespace/name."""
        return self.world.pods

    @property
    def waiting(self) -> int:
        """The number of pods without a node."""
        return sum(not pod.spec.node_name for pod in self.pods.values())

    @property
    def late(self) -> bool:
        """Whether a pod without a node fits one."""
        return any(is_late(self.world, key) for key in self.pods)
