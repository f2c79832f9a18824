"""Evaluation keys: equal for pods that a profile's plugins cannot tell apart.

    pod --projection of each plugin--> EvaluationKey --> one evaluation, one batch

A plugin's projection (``framework.plugin.ProjectingPlugin``) contains everything that the plugin
reads of the pod. Pods whose projections are equal for all plugins share an evaluation and are
placed in one batch, even if they differ otherwise (a label that no selector matches, an image that
no node has, a claim whose volume is reachable from everywhere). Priorities matter only while pods
are nominated, because a pod counts nominated pods of at least its own priority. For a plugin
without a projection only pods of one class are equal.

Most plugins read neither requests nor labels nor volumes. Plugins that read the same part of a pod
are grouped (``_Part``), and their projections are computed once for all pods with an equal part:

    part of the pod    plugins                         computed once for
    the rest           NodeAffinity, NodePorts, ...    pods of one template
    with labels        PodTopologySpread, ...          those with these labels
    with volumes       VolumeBinding, ...              those with these volumes
    with requests      NodeResourcesFit, ...           those with these requests

Projections are numbered, so a key is a short tuple of integers. Numbers are never reused: when the
table is full it is cleared, and equal projections get new numbers. That costs only one more
evaluation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import NOTHING_READ, Traits
from podsched.framework.pods import PodAmounts, PodClass, PodInfo, PodShape

PROJECTION_WORDING = 'computing the projection of plugin "{}"'
#: Max projections remembered; if every pod has its own, each takes some 300 bytes.
MAX_KNOWN: Final = 32_768
#: Max projections remembered while pods come and go (one per template); each takes some 200 bytes.
MAX_LASTING: Final = 4096
#: Max entries of a class's ``compiled``: each copy of the cluster that decides on the class, for a
#: question, adds some of its own, which nobody reads any more once the question is answered.
MAX_COMPILED: Final = 64

_instances = itertools.count(1)

#: Equal for pods that a profile cannot tell apart: the number of the projections that depend only
#: on the class, the priority while pods are nominated (else None), then the other projections.
EvaluationKey = tuple[Hashable, ...]


_FAILED: Final = object()
_Ask = Callable[[PodInfo, ClusterView], Hashable]


#: Returns an object that is shared by all pods that are equal in the parts that a plugin reads.
_Source = Callable[[PodClass], PodClass | PodShape | PodAmounts]

#: By whether requests, labels and volumes are read.
_SOURCES: Final[Mapping[tuple[bool, bool, bool], _Source]] = {
    (False, False, False): lambda cls: cls.shape.plain,
    (False, False, True): lambda cls: cls.shape.without_labels,
    (False, True, False): lambda cls: cls.shape.without_volumes,
    (False, True, True): lambda cls: cls.shape,
    (True, False, False): lambda cls: cls.amounts,
    (True, False, True): lambda cls: cls,
    (True, True, False): lambda cls: cls,
    (True, True, True): lambda cls: cls,
}


class _Part(NamedTuple):
    """Plugins that read the same part of a pod.

    ``place`` is the key of their projections in ``compiled``. ``varying``: they are the profile's
    ``varying`` plugins. ``of_placed_pods``: their projections depend on the placed pods.
    """

    place: str
    source: _Source
    plugins: Sequence[tuple[str, _Ask]]
    varying: bool
    of_placed_pods: bool


class _OfPart(NamedTuple):
    """The projections of a part, and their number."""

    number: int
    by_plugin: Mapping[str, Hashable]


class _OfClass(NamedTuple):
    """The projections that depend only on the class, and their number.

    ``variant_key`` is the number of the projections of plugins that are not ``varying``; 0: none.
    """

    number: int
    variant_key: int
    parts: Sequence[_OfPart]


#: Where projections are kept: a part (``_Part.place``), and the object shared by pods equal in it.
_Place = tuple[str, object]


class StampedCluster(ClusterView, Protocol):
    """A cluster with values that change when it does."""

    @property
    def stamp(self) -> Hashable:
        """A value that changes with everything that a decision may depend on."""

    @property
    def stamp_beside_pods(self) -> Hashable:
        """As ``stamp``, but unchanged by pods that come and go without affinity terms."""


class CurrentProjections:
    """Projections that also depend on the cluster, valid while the cluster does not change.

    ``lasting`` projections stay valid while pods only come and go, as with each decision.
    ``passing`` projections are valid until the next pod comes or goes.
    """

    __slots__ = ("_beside", "_stamp", "lasting", "passing")

    def __init__(self) -> None:
        self._stamp: Hashable = None
        self._beside: Hashable = None
        self.lasting: dict[_Place, tuple[Hashable, ...]] = {}
        self.passing: dict[_Place, tuple[Hashable, ...]] = {}

    def catch_up(self, cluster: StampedCluster) -> bool:
        """Drop projections that may be invalid; return whether anything has changed."""
        stamp = cluster.stamp
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.passing.clear()
        beside = cluster.stamp_beside_pods
        if beside != self._beside:
            self._beside = beside
            self.lasting.clear()
        return True

    def get(self, place: _Place) -> tuple[Hashable, ...] | None:
        """Return the projections of a place, if known."""
        found = self.lasting.get(place)
        return self.passing.get(place) if found is None else found

    def put(self, place: _Place, said: tuple[Hashable, ...], *, lasts: bool) -> None:
        """Remember projections. Raises TypeError for values that are not hashable."""
        # Raise here and not where the value is first used in a key.
        hash(said)
        if not lasts:
            self.passing[place] = said
            return
        if len(self.lasting) >= MAX_LASTING:
            self.lasting.clear()
        self.lasting[place] = said


def _keep(compiled: dict[str, Any], key: str, value: object) -> None:
    """Store data of a class, all of whose other data is dropped when it is too much."""
    if len(compiled) >= MAX_COMPILED:
        compiled.clear()
    compiled[key] = value


class Projections:
    """Computes the evaluation keys of one profile's pods."""

    def __init__(self, runtime: ProfileRuntime, cluster: ClusterView) -> None:
        self._runtime = runtime
        self._cluster = cluster
        # Copies of the cluster share classes and have their own projections, which need other keys.
        self._compiled_key = f"projections {next(_instances)}"
        self._fixed = _parts(runtime, f"{self._compiled_key} fixed", of_class=True)
        self._current = _parts(runtime, f"{self._compiled_key} current", of_class=False)
        #: Whether the projections that depend on the cluster are equal for pods of one shape.
        self._is_of_shape = not any(
            projecting.traits.reads_requests
            for projecting in runtime.projecting.values()
            if not projecting.traits.projects_class
        )
        self._current_names = [name for part in self._current for name, _ in part.plugins]
        self._numbers: dict[Hashable, int] = {}
        self._serial = itertools.count(1)

    def key(self, pod: PodInfo, known: CurrentProjections | None = None) -> EvaluationKey:
        """Return the pod's key, which is valid until something changes in the cluster.

        ``known``: up-to-date projections of pods of the profile, to which new ones are added.
        """
        cls, number = pod.cls, self._of(pod).number
        known = CurrentProjections() if known is None else known
        whole = (self._compiled_key, cls.shape if self._is_of_shape else cls)
        current = known.get(whole)
        if current is None:
            try:
                current = self._all_current(pod, known, whole)
            except (PluginFailure, TypeError):
                # The evaluation fails in the same way and reports it. With the class's id, because
                # the projections that would tell other classes apart are unknown.
                return (number, "class", cls.id, _FAILED)
        return (number, cls.priority if self._cluster.nominator.nodes() else None, *current)

    def _all_current(
        self, pod: PodInfo, known: CurrentProjections, whole: _Place
    ) -> tuple[Hashable, ...]:
        """Return the projections that also depend on the cluster.

        Raises PluginFailure, TypeError.
        """
        found: list[Hashable] = []
        last = True
        for part in self._current:
            place = (part.place, part.source(pod.cls))
            current = known.get(place)
            if current is None:
                current = self._current_of(part, pod)
                # If the plugins read nothing of such pods, placed pods change nothing for them.
                nothing = not part.of_placed_pods or all(one is NOTHING_READ for one in current)
                known.put(place, current, lasts=nothing)
            last = last and place in known.lasting
            found += current
        current = tuple(found)
        known.put(whole, current, lasts=last)
        return current

    def _current_of(self, part: _Part, pod: PodInfo) -> tuple[Hashable, ...]:
        """Return the projections of one part; they may be unhashable. Raises PluginFailure."""
        compiled, place = part.source(pod.cls).compiled, part.place
        silent: Collection[str] = compiled.get(place, ())
        cluster = self._cluster
        said = tuple(
            NOTHING_READ if name in silent else guarded(name, PROJECTION_WORDING, ask, pod, cluster)
            for name, ask in part.plugins
        )
        # Kept for this part of the pod: a plugin that reads nothing of it is not called again. By
        # name, because copies of the cluster share the part, and would live on with their plugins.
        if place not in compiled:
            pairs = zip(part.plugins, said, strict=True)
            silent = frozenset(name for (name, _), one in pairs if one is NOTHING_READ)
            _keep(compiled, place, silent)
        return said

    def variant_key(self, pod: PodInfo, key: EvaluationKey) -> EvaluationKey | None:
        """Return a key that is equal for pods that only the varying plugins tell apart.

        None if some plugin has no projection or has failed.
        """
        number = self._of(pod).variant_key
        return None if not number or key[-1] is _FAILED else (number, *key[1:])

    def may_be_equal(self, one: PodInfo, other: PodInfo) -> bool:
        """Return False where the pods' classes alone show that their keys differ."""
        return self._of(one).number == self._of(other).number

    def by_plugin(self, pod: PodInfo, key: EvaluationKey) -> Mapping[str, Hashable]:
        """Return the projections of a pod with this key by plugin, to share columns by."""
        if key[-1] is _FAILED:
            return {}
        of_class = {n: said for part in self._of(pod).parts for n, said in part.by_plugin.items()}
        # Behind number and priority, a key has a projection for each of these names (``key``).
        return {**of_class, **dict(zip(self._current_names, key[2:], strict=True))}

    def _of(self, pod: PodInfo) -> _OfClass:
        compiled = pod.cls.compiled
        found: _OfClass | None = compiled.get(self._compiled_key)
        if found is None:
            found = self._compile(pod)
            _keep(compiled, self._compiled_key, found)
        return found

    def _compile(self, pod: PodInfo) -> _OfClass:
        """Return the projections that depend only on the class, and their number."""
        cls = pod.cls
        own: Hashable = cls.id if self._runtime.reads_whole_pods else None
        found: Sequence[_OfPart] = ()
        try:
            found = tuple([self._of_part(part, pod) for part in self._fixed])
        # The class's id makes the key unique; its evaluation fails in the same way and reports it.
        except (PluginFailure, TypeError):
            own = cls.id
        numbers = [of_part.number for of_part in found]
        variant_key = 0
        if own is None and self._runtime.varying:
            pairs = zip(self._fixed, numbers, strict=True)
            variant_key = self._number(
                ("variant_key", *(n for part, n in pairs if not part.varying))
            )
        # With the amounts, even if no plugin reads them: look-ahead adds one pod of a key to a row
        # for each of them.
        number = self._number((own, cls.amounts.key, *numbers))
        return _OfClass(number, variant_key, found)

    def _of_part(self, part: _Part, pod: PodInfo) -> _OfPart:
        """Return the projections of a part of the class. Raises PluginFailure, TypeError."""
        compiled = part.source(pod.cls).compiled
        found: _OfPart | None = compiled.get(part.place)
        if found is None:
            said = {
                name: guarded(name, PROJECTION_WORDING, ask, pod, self._cluster)
                for name, ask in part.plugins
            }
            # With the place: equal values of different plugins must not get the same number.
            found = _OfPart(self._number((part.place, *said.values())), said)
            _keep(compiled, part.place, found)
        return found

    def _number(self, projection: Hashable) -> int:
        found = self._numbers.get(projection)
        if found is None:
            if len(self._numbers) >= MAX_KNOWN:
                self._numbers.clear()
            found = self._numbers[projection] = next(self._serial)
        return found


def source_of(traits: Traits) -> _Source:
    """Return the source of the object that keeps projections by a plugin with these traits."""
    return _SOURCES[traits.reads_requests, traits.reads_labels, traits.reads_volumes]


def _parts(runtime: ProfileRuntime, place: str, *, of_class: bool) -> Sequence[_Part]:
    """Return by part the plugins that read only the class (``of_class``), or the others."""
    found: dict[tuple[_Source, bool, bool], list[tuple[str, _Ask]]] = {}
    for name, projecting in runtime.projecting.items():
        traits = projecting.traits
        if traits.projects_class is of_class:
            of_placed = traits.projects_placed_pods and not of_class
            kind = source_of(traits), name in runtime.varying, of_placed
            found.setdefault(kind, []).append((name, projecting.ask))
    return [
        _Part(f"{place} {number}", source, plugins, varying, of_placed)
        for number, ((source, varying, of_placed), plugins) in enumerate(found.items())
    ]
