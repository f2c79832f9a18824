"""Decide for several pod groups in one pass over their members: all of them start, or none.

The members are decided for in the order of the groups. So if every member gets a node, it is the
node that it would get if the groups were decided for one after another, but only one decision is
made. If a member gets no node, the caller has to decide for the groups one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from podsched.decide.decider import Decider
from podsched.decide.decision import ShouldStop
from podsched.decide.pod_group import PodGroupAttempt, Turns
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pod_groups import GroupTrial, Placement

_ANYWHERE: Final = [Placement()]


class TogetherAttempt:
    """One attempt to place the members of several groups of one profile."""

    def __init__(
        self,
        decider: Decider,
        runtime: ProfileRuntime,
        attempts: Sequence[PodGroupAttempt],
        nodes: frozenset[str] | None,
    ) -> None:
        """Take an attempt for each group; they get the decisions.

        ``nodes``: the only nodes that members may use; None: all. It is the same for all members.
        """
        self._decider = decider
        self._runtime = runtime
        self._attempts = attempts
        self._nodes = nodes
        self.all_start = False

    def run(self, trial: GroupTrial, should_stop: ShouldStop) -> Turns:
        """Decide, with the outcome in ``all_start``, and in the attempts' results if it is True."""
        if any(attempt.placements() != _ANYWHERE for attempt in self._attempts):
            return
        with trial.inner() as inner:
            inner.restrict(self._nodes)
            yield from self._place(inner, should_stop)
            inner.restrict(None)
            if self.all_start:
                inner.commit()
                return
            for attempt in reversed(self._attempts):
                attempt.unreserve_all()

    def _place(self, trial: GroupTrial, should_stop: ShouldStop) -> Iterator[None]:
        owners = [attempt for attempt in self._attempts for _ in attempt.members]
        members = [queued for attempt in self._attempts for queued in attempt.members]
        decided = 0
        while decided < len(members):
            for decision in self._decider.decide(
                trial, self._runtime, members[decided:], should_stop=should_stop
            ):
                owners[decided].add(trial, decision)
                if not decision.node_name:
                    return
                decided += 1
            if should_stop():
                yield
        for attempt in self._attempts:
            attempt.conclude()
        self.all_start = all(attempt.result.status.ok for attempt in self._attempts)
