"""Search depth first for any placement of a pod group, after greedy passes found none.

A step assumes a member on a node that it fits now; then the search goes on with the others. It ends
with a placement, with the proof that none exists, or with neither after ``MAX_STEPS`` steps. It
runs the profile's own filters, so a placement also obeys the constraints among the members.

Three things keep the search small:

* Members that get equal decisions are of one *kind*; any of them stands for all.
* Nodes are interchangeable if they have the same free resources, fit the same kinds, and are in the
  same domains of the topology keys that members name. Only one of them is tried. If some members
  require others nearby, interchangeable nodes must also have the same labels, taints and pods.
* A state that has failed is not entered again, nor one that differs from it only in which member of
  a kind, or which of several interchangeable nodes, is used.

If no member requires others nearby (affinity, spreading), placing a member never makes room for
another. Then the kind with the fewest nodes goes first, and the search backs up when too many
members fit nowhere. Otherwise every order of members is tried.

The bound is in steps, not in seconds, so that a replayed decision is the same on any machine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from podsched.api.node_labels import HOSTNAME
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import ShouldStop
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import GroupTrial
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.v1 import objects_pb2 as v1

#: Max choices, each a member on a node or left out, in all searches of a decision together.
MAX_STEPS: Final = 2000
#: There is no search for larger groups: each member is a level of the recursion.
MAX_MEMBERS: Final = 128
_REQUIRED: Final = "required_during_scheduling_ignored_during_execution"
_DO_NOT_SCHEDULE: Final = "DoNotSchedule"


def worth_searching(pods: Sequence[PodInfo]) -> bool:
    """Return whether a search may find a placement that a greedy pass missed.

    It may not for equal members without constraints on each other: any order fills the nodes alike.
    """
    return len(pods) <= MAX_MEMBERS and not _are_interchangeable(pods)


def greedy_is_exact(runtime: ProfileRuntime, pods: Sequence[PodInfo]) -> bool:
    """Return whether no placement exists if a greedy pass has found none."""
    spec = pods[0].cls.spec
    # A claim that several share is bound to the node of the first, where the others may not fit.
    claims = (volume.HasField("persistent_volume_claim") for volume in spec.volumes)
    if spec.resource_claims or any(claims):
        return False
    return _are_interchangeable(pods) and not runtime.reads_whole_pods


def _are_interchangeable(pods: Sequence[PodInfo]) -> bool:
    return len({pod.cls for pod in pods}) == 1 and not _is_constrained(pods[0].cls.spec)


class Step(NamedTuple):
    """A member, and the name of the node that it goes to."""

    queued: QueuedPodInfo
    node_name: str


class _Kind:
    """Members that get equal decisions.

    ``used``: how many of them are placed in this state. ``skipped``: how many are left out of it,
    because fewer members have to be placed than there are.
    """

    def __init__(self) -> None:
        self.members: list[QueuedPodInfo] = []
        self.used = 0
        self.skipped = 0

    @property
    def left(self) -> int:
        return len(self.members) - self.used - self.skipped


class Budget:
    """Steps that are left, for all searches of a decision."""

    def __init__(self) -> None:
        self.left = MAX_STEPS


class PodGroupSearch:
    """One search; ``proved`` says afterwards whether all possibilities were tried."""

    def __init__(
        self,
        decider: AcceleratedDecider,
        cluster: ClusterView,
        runtime: ProfileRuntime,
        members: Sequence[QueuedPodInfo],
        needed: int,
        budget: Budget,
        should_stop: ShouldStop,
    ) -> None:
        """``needed``: how many of the members have to be placed."""
        self._decider = decider
        self._cluster = cluster
        self._runtime = runtime
        self._needed = needed
        self._spare = len(members) - needed
        self._budget = budget
        self._should_stop = should_stop
        specs = [queued.info.cls.spec for queued in members]
        self._only_harder = not any(_needs_others(spec) for spec in specs)
        constrained = any(map(_is_constrained, specs))
        self._topology_keys = sorted({key for spec in specs for key in _topology_keys(spec)})
        self._nodes_differ = runtime.reads_whole_pods or any(map(_tells_nodes_apart, specs))
        if not self._only_harder:
            self._nodes_differ |= any(map(_names_nodes, specs))
        kinds: dict[Hashable, _Kind] = defaultdict(_Kind)
        for queued in members:
            pod = queued.info
            # Without constraints among members their labels do not matter to each other, so
            # members with one key are of a kind.
            kinds[pod.cls.id if constrained else decider.key(pod)].members.append(queued)
        self._kinds = list(kinds.values())
        #: The members placed in this state, with their rows.
        self._path: list[tuple[Step, int]] = []
        #: By row, the kinds of the members placed there, sorted.
        self._on_row: dict[int, tuple[int, ...]] = {}
        #: By row, a value that is equal for interchangeable nodes.
        self._likeness: dict[int, Hashable] = {}
        #: States (``_state``) from which the members that are left cannot be placed.
        self._failed: set[Hashable] = set()
        self.proved = False

    def run(self, trial: GroupTrial) -> Generator[None, None, list[Step] | None]:
        """Search within a trial, which is left as it was; yields when a turn is used up."""
        rows = [self._rows(kind) for kind in self._kinds]
        if not (yield from self._learn_nodes(rows)):
            return None
        found = yield from self._solve(trial)
        self.proved = not found and self._budget.left > 0
        return [step for step, _ in self._path] if found else None

    # ------------------------------------------------------------------ the search

    def _solve(self, trial: GroupTrial) -> Generator[None, None, bool]:
        """Place the members that are left; ``_path`` has the steps afterwards if that succeeded."""
        if len(self._path) == self._needed:
            return True
        state = self._state()
        if state in self._failed:
            return False
        for number, row in self._choices():
            # Not added to ``_failed``: nothing was proved about this state.
            if not self._budget.left:
                return False
            self._budget.left -= 1
            if self._should_stop():
                yield
            found = yield from self._enter(trial, number, row)
            if found:
                return True
        self._failed.add(state)
        return False

    def _enter(self, trial: GroupTrial, number: int, row: int) -> Generator[None, None, bool]:
        """Try a choice: a member of a kind on a row, or, with row -1, nowhere."""
        kind = self._kinds[number]
        if row < 0:
            kind.skipped += 1
            found = yield from self._solve(trial)
            kind.skipped -= 1
            return found
        queued, name = kind.members[kind.used], self._cluster.nodes.names[row]
        before = self._on_row.get(row, ())
        with trial.inner() as inner:
            inner.assume(queued.info, name)
            kind.used += 1
            self._on_row[row] = tuple(sorted((*before, number)))
            self._path.append((Step(queued, name), row))
            found = yield from self._solve(inner)
        # The trial has ended and took the member back. On success ``_path`` keeps the step.
        kind.used -= 1
        if not found:
            self._path.pop()
            self._on_row[row] = before
        return found

    def _choices(self) -> Iterator[tuple[int, int]]:
        """Yield what to try next: the number of a kind and a row, -1 to leave a member out."""
        spare = self._spare - sum(kind.skipped for kind in self._kinds)
        rows = {n: self._rows(kind) for n, kind in enumerate(self._kinds) if kind.left}
        if not self._only_harder:
            # Nobody has to be left out: every order is tried, and the search ends once enough are
            # placed.
            for number, fitting in rows.items():
                yield from ((number, row) for row in self._different(fitting))
            return
        # As in ``_learn_nodes``: members that fit no node in this state never will.
        stuck = sum(self._kinds[number].left for number, fitting in rows.items() if not fitting)
        free = {number: self._different(fitting) for number, fitting in rows.items() if fitting}
        if stuck > spare or not free:
            return
        number = min(free, key=lambda number: len(free[number]))
        yield from ((number, row) for row in free[number])
        if spare > stuck:
            yield number, -1

    def _rows(self, kind: _Kind) -> list[int]:
        """Return the rows that a member of a kind fits now."""
        pod = kind.members[min(kind.used, len(kind.members) - 1)].info
        evaluation = self._decider.evaluation(self._runtime, pod)
        evaluation.refresh(pod)
        rows: list[int] = evaluation.feasible_rows.tolist()
        return rows

    # ------------------------------------------------------------------ interchangeable nodes

    def _learn_nodes(self, rows: Sequence[Sequence[int]]) -> Generator[None, None, bool]:
        """Compute which nodes are interchangeable; return whether enough members fit anywhere."""
        fitting: dict[int, list[int]] = defaultdict(list)
        for number, found in enumerate(rows):
            for row in found:
                fitting[row].append(number)
        nodes = self._cluster.nodes
        names = self._compared_resources()
        free = [nodes.allocatable(name) - nodes.requested(name) for name in names]
        for row, kinds in fitting.items():
            if self._should_stop():
                yield
            # Then no node stands for another one; or it has gone meanwhile.
            if self._nodes_differ or not nodes.alive[row]:
                self._likeness[row] = row
                continue
            labels = nodes.node(row).metadata.labels
            self._likeness[row] = (
                tuple(kinds) if self._only_harder else self._all_of(row),
                int(nodes.allowed_pod_number[row] - nodes.pod_count[row]),
                tuple(int(column[row]) for column in free),
                tuple(labels.get(key) for key in self._topology_keys),
            )
        fits = zip(self._kinds, rows, strict=True)
        possible = sum(len(kind.members) for kind, found in fits if found)
        # Members that fit nowhere now never will, because placing others makes no room for them.
        if self._only_harder and possible < self._needed:
            self.proved = True
            return False
        return True

    def _all_of(self, row: int) -> Hashable:
        """Return all properties of a node that filters may read, except its name.

        The kinds that fit now are not enough: some fit only after other members are placed.
        """
        nodes = self._cluster.nodes
        node = nodes.node(row)
        labels = {key: value for key, value in node.metadata.labels.items() if key != HOSTNAME}
        taints = tuple(taint.SerializeToString() for taint in node.spec.taints)
        pods = sorted(pod.cls.id for pod in nodes.pods(row).values())
        return frozenset(labels.items()), taints, node.spec.unschedulable, tuple(pods)

    def _compared_resources(self) -> list[str]:
        names: set[str] = set()
        for plugin in self._runtime.comparing_requests.values():
            for kind in self._kinds:
                names.update(plugin.compared_requests(kind.members[0].info))
        return sorted(names)

    def _different(self, rows: Sequence[int]) -> list[int]:
        """Return one row of each set of interchangeable ones; in their order."""
        found: dict[Hashable, int] = {}
        for row in rows:
            found.setdefault((self._likeness.get(row, row), self._on_row.get(row, ())), row)
        return list(found.values())

    def _state(self) -> Hashable:
        """Return a key that is equal for states with the same outcome."""
        used = Counter(
            (self._likeness.get(row, row), kinds) for row, kinds in self._on_row.items() if kinds
        )
        return tuple(kind.left for kind in self._kinds), frozenset(used.items())


def _terms(spec: v1.PodSpec) -> list[v1.PodAffinityTerm]:
    affinity = spec.affinity
    return [
        *getattr(affinity.pod_affinity, _REQUIRED),
        *getattr(affinity.pod_anti_affinity, _REQUIRED),
    ]


def _spreading(spec: v1.PodSpec) -> list[v1.TopologySpreadConstraint]:
    constraints = spec.topology_spread_constraints
    return [one for one in constraints if one.when_unsatisfiable == _DO_NOT_SCHEDULE]


def _is_constrained(spec: v1.PodSpec) -> bool:
    """Return whether a pod has constraints on where other members are."""
    return bool(_terms(spec) or _spreading(spec))


def _needs_others(spec: v1.PodSpec) -> bool:
    """Return whether a pod may fit better once others are placed."""
    return bool(getattr(spec.affinity.pod_affinity, _REQUIRED) or _spreading(spec))


def _topology_keys(spec: v1.PodSpec) -> set[str]:
    keys = {term.topology_key for term in _terms(spec)}
    return (keys | {constraint.topology_key for constraint in _spreading(spec)}) - {HOSTNAME}


def _names_nodes(spec: v1.PodSpec) -> bool:
    """Return whether a pod asks for a node by its name or hostname."""
    text = spec.affinity.node_affinity.SerializeToString()
    return HOSTNAME in spec.node_selector or HOSTNAME.encode() in text or b"metadata.name" in text


def _tells_nodes_apart(spec: v1.PodSpec) -> bool:
    """Return whether nodes differ for a pod even if ``_likeness`` would be equal."""
    return bool(spec.volumes) or any(c.topology_key == HOSTNAME for c in _spreading(spec))
