"""The judge of a history: every promise, in one list. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from podsched.lab.chaos.history import History
from podsched.lab.chaos.promises import ending, evictions, nodes, objects, terms
from podsched.lab.chaos.promises.violation import Violation

Promise = Callable[[History], Iterator[Violation]]

#: Functions by what they promise; one may find more than one kind of violation.
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
    ending.SCHEDULED: ending.recovered,
    ending.ASSUMED: ending.nothing_assumed,
    ending.MENDED: ending.comes_back,
    ending.LEFT: ending.nothing_left,
}
#: Violations of one promise that are told: a wrong system tends to have thousands.
MOST = 20


def check(history: History) -> list[Violation]:
    """Return the violations, those of one promise together, at most ``MOST`` of each."""
    return [found for promise in PROMISES.values() for found in islice(promise(history), MOST)]
