"""The outcome of a run: the figures of its history, and the violations of all promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

from podsched.lab.chaos.history import History, Violation, replay
from podsched.lab.chaos.promises import devices, ending, evictions, gangs, nodes, objects, terms
from podsched.lab.chaos.promises.terms import Term, terms_of
from podsched.lab.chaos.records import Outcome
from podsched.lib.counted import counted

Promise = Callable[[History], Iterator[Violation]]

#: The functions that check each promise; one may find violations of other promises, too.
PROMISES: Final[Mapping[str, Promise]] = {
    objects.CREATED: objects.acknowledged_creates,
    objects.UNDONE: objects.failed_creates,
    objects.DELETED: objects.acknowledged_deletes,
    objects.BOUND: objects.bound_once,
    objects.BINDABLE: objects.bindable,
    objects.IDENTITY: objects.identities,
    terms.INCREASE: terms.terms_increase,
    terms.FENCED: terms.fenced,
    nodes.SUITED: nodes.suited,
    nodes.CAPACITY: nodes.capacity,
    nodes.PORTS: nodes.host_ports,
    nodes.EXCLUSIVE: nodes.exclusive_volumes,
    evictions.BUDGET: evictions.budgets,
    evictions.VICTIMS: evictions.victims,
    gangs.WHOLE: gangs.whole,
    devices.ONCE: devices.once,
    devices.USED: devices.used,
    ending.SCHEDULED: ending.recovered,
    ending.GONE: ending.leaves,
    ending.ASSUMED: ending.nothing_assumed,
    ending.MENDED: ending.comes_back,
    ending.LEFT: ending.nothing_left,
}
#: Violations of one promise that are reported: a wrong system tends to have thousands.
MOST = 20


def check(history: History) -> list[Violation]:
    """Return the violations, those of one promise together, at most ``MOST`` of each."""
    return [found for promise in PROMISES.values() for found in islice(promise(history), MOST)]


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """A checked history. ``bound_at``: when each binding was seen, in seconds."""

    history: History
    terms: list[Term]
    bound_at: list[float]
    violations: list[Violation]

    @property
    def faults(self) -> Counter[str]:
        """The number of injections of each fault."""
        return Counter(f.name for f in self.history.faults if not f.ends and not f.failed)

    @property
    def _not_done(self) -> int:
        return sum(bool(fault.failed) and not fault.ends for fault in self.history.faults)

    @property
    def longest_pause(self) -> float:
        """The longest time without a binding, in seconds."""
        return max((after - before for before, after in pairwise(self.bound_at)), default=0.0)

    @property
    def calls(self) -> Counter[Outcome]:
        """The number of calls of clients by outcome."""
        return Counter(call.outcome for call in self.history.calls)

    def as_dict(self) -> dict[str, object]:
        history = self.history
        return {
            "seed": history.begin.seed,
            "seconds": round(history.seconds, 1),
            "faults": dict(sorted(self.faults.items())),
            "faults_failed": self._not_done,
            "terms": len(self.terms),
            "bound": len(self.bound_at),
            "longest_pause_seconds": round(self.longest_pause, 2),
            "calls": {outcome.value: count for outcome, count in sorted(self.calls.items())},
            "revisions": len(history.revisions),
            "complete": history.end is not None,
            "violations": [
                {
                    "promise": violation.promise,
                    "text": violation.text,
                    "at": round(violation.at, 3),
                    "revision": violation.revision,
                }
                for violation in self.violations
            ],
        }

    def lines(self) -> list[str]:
        calls, faults = self.calls, self.faults
        failed = self._not_done
        lines = [
            f"seed {self.history.begin.seed}: {counted(faults.total(), 'fault')} of "
            f"{counted(len(faults), 'kind')} in "
            f"{self.history.seconds:.0f} s" + (f", {failed} could not be done" if failed else ""),
            f"  calls     {calls[Outcome.OK]:,} ok, {calls[Outcome.FAILED]:,} failed, "
            f"{calls[Outcome.UNKNOWN]:,} without an answer",
            f"  pods      {len(self.bound_at):,} bound; longest pause {self.longest_pause:.1f} s",
            f"  terms     {len(self.terms)}",
            f"  etcd      {len(self.history.revisions):,} revisions",
        ]
        if self.history.end is None:
            lines.append("  the history is not complete: the run was broken off")
        if (settled := self.history.settled) is not None:
            losses = sum(settled.fence_losses.values())
            lines.append(f"  fence     {counted(losses, 'write')} of deposed leaders refused")
        return [*lines, f"  {self.count_of_violations}"]

    @property
    def count_of_violations(self) -> str:
        """How many violations there are, in words."""
        return counted(len(self.violations), "violation")


def judge(history: History) -> ChaosOutcome:
    """Check a history and compute its figures."""
    bound_at = [
        moment.revision.at for moment in replay(history) for change in moment.pods if change.bound
    ]
    return ChaosOutcome(history, terms_of(history), bound_at, check(history))
