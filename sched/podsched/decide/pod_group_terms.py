"""Decide for a pod group that may start on one of several *terms*.

Terms are, for example, one choice of flavors for which there is quota. They are tried in order
(``pod_group``), until the group can start on one of them. If it can start on none, victims are
searched for on each of them, in the same order. With ``victims_first``, victims are searched for
before the next terms are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from podsched.decide.decision import ShouldStop
from podsched.decide.pod_group import PodGroupAttempt, Turns
from podsched.decide.pod_group_members import GroupDecision
from podsched.framework.pod_groups import GroupTrial, PodGroup, VictimSearch
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.v1 import objects_pb2 as v1


class Terms(Protocol):
    """The terms on which a group may start, such as one choice of flavors."""

    @property
    def members(self) -> Collection[str]:
        """The uids of the members that may start."""

    @property
    def fits(self) -> bool:
        """Whether quota needs no victims; the group may still not fit on nodes."""

    @property
    def may_preempt(self) -> bool:
        """Whether to search for victims."""

    @property
    def victims_first(self) -> bool:
        """Whether victims are preferred to the terms that follow, which may need none."""

    @property
    def later(self) -> bool:
        """Whether the group may only start later on these terms, and on all that follow."""

    def group(self, group: PodGroup) -> PodGroup:
        """Return the group as it would start on these terms."""

    def nodes_of(self, pod: PodInfo) -> frozenset[str] | None:
        """Return the only nodes that a member may use; see ``NodesOf``."""

    def adapted(self, member: QueuedPodInfo) -> QueuedPodInfo:
        """Return a member as it would start on these terms."""

    def annotations(self, pod: PodInfo) -> dict[str, str]:
        """Return the annotations that the binding of a member sets."""

    def tolerations(self, pod: PodInfo) -> Sequence[v1.Toleration]:
        """Return the tolerations that a member gets before it is bound."""

    def search(self) -> VictimSearch:
        """Begin a search for victims."""

    def note(self, victim: PodInfo) -> str:
        """Return the text of the event on a victim that was found."""

    @property
    def message(self) -> str:
        """The message on a member that waits until its victims have left."""


class TermsAttempt:
    """One attempt to start a group on one of several terms."""

    def __init__(
        self,
        make: Callable[[Sequence[QueuedPodInfo], Terms], PodGroupAttempt],
        members: Sequence[QueuedPodInfo],
        terms: Iterable[Terms],
        plugin: str,
    ) -> None:
        """``make`` creates an attempt for some members; ``plugin``: the plugin that finds victims.

        ``terms`` is iterated while they are tried, so the last ones may never be computed.
        """
        self._make = make
        self._members = members
        self._terms = terms
        self._plugin = plugin
        self.result = GroupDecision()
        #: The terms on which the group starts, waits for victims, or fits later.
        self.chosen: Terms | None = None

    def run(self, trial: GroupTrial, should_stop: ShouldStop, *, preempts: bool = True) -> Turns:
        """Decide, with the outcome in ``result``, as ``PodGroupAttempt.run`` does."""
        tried: list[tuple[Terms, PodGroupAttempt]] = []
        late: list[tuple[Terms, PodGroupAttempt]] = []
        attempts = self._attempts()
        for terms, attempt in attempts:
            tried.append((terms, attempt))
            if terms.later:
                late.append((terms, attempt))
                break  # The terms after it are computed only if the group never fits on these.
            # Terms that were put off come first: they are preferred, even if they need victims.
            if terms.victims_first and not late:
                ended = preempts and (yield from self._search(trial, should_stop, terms, attempt))
            else:
                # Victims are searched only after all terms: other terms may need none.
                late.append((terms, attempt))
                ended = terms.fits and (yield from self._start(trial, should_stop, terms, attempt))
            if ended:
                return
        self._refuse(tried)
        for terms, attempt in chain(late, attempts) if preempts else ():
            if not terms.may_preempt:
                continue
            if (yield from self._search(trial, should_stop, terms, attempt)):
                return

    def _start(
        self, trial: GroupTrial, should_stop: ShouldStop, terms: Terms, attempt: PodGroupAttempt
    ) -> Generator[None, None, bool]:
        """Try to start without victims; return whether that ends the attempt."""
        yield from attempt.run(trial, should_stop, preempts=False)
        if attempt.result.status.code.rejects:
            return False
        self.result, self.chosen = attempt.result, terms
        return True

    def _refuse(self, tried: Sequence[tuple[Terms, PodGroupAttempt]]) -> None:
        """Set why the group cannot start: the reasons on terms with quota, if there are any."""
        refused = [attempt.result for terms, attempt in tried if terms.fits]
        if tried:
            self.result = refused[0] if refused else tried[0][1].result
        for result in refused:
            self.result.also_rejected_by(result)

    def _search(
        self, trial: GroupTrial, should_stop: ShouldStop, terms: Terms, attempt: PodGroupAttempt
    ) -> Generator[None, None, bool]:
        """Search for victims; return whether that ends the attempt, with the outcome in ``result``.

        It does not if neither victims nor a later time were found.
        """
        yield from attempt.search_victims(trial, should_stop, terms.search, self._plugin)
        if attempt.result.victims is not None:
            self.result = attempt.result
        elif attempt.result.later:
            self.result.later = attempt.result.later
        else:
            return False
        self.chosen = terms
        return True

    def _attempts(self) -> Iterator[tuple[Terms, PodGroupAttempt]]:
        """Yield the terms on which members may start, with an attempt on them."""
        for terms in self._terms:
            members = [terms.adapted(q) for q in self._members if q.info.uid in terms.members]
            if members:
                yield terms, self._make(members, terms)
