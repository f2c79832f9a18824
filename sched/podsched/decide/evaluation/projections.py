"""Which pods a profile's plugins decide on alike, though they are of different classes.

    pod --projection of each plugin--> EvaluationKey --> one evaluation, one batch

A plugin that declares a projection (``framework.plugin.ProjectingPlugin``) says what of the pod it
reads. Pods with equal projections to all plugins and equal requests are equal to the profile: they
share an evaluation and are placed in one batch, whatever else tells them apart (a label that no
selector sees, an image that no node has, a claim whose volume is reachable from everywhere). Their
priorities must be equal only while pods are nominated, for it is those of at least its own priority
that a pod counts. For a plugin without a projection only pods of one class are equal.

Most plugins read neither what a pod requests nor its labels nor its volumes. Those that read the
same of a pod form a group (*part*); pods that are equal in that, and differ in anything else, are
asked about once:

    part of the pod    plugins                         asked once for
    the rest           NodeAffinity, NodePorts, ...    pods of one template
    with labels        PodTopologySpread, ...          those with these labels
    with volumes       VolumeBinding, ...              those with these volumes
    with requests      NodeResourcesFit, ...           those with these requests

Projections are numbered, so that a key is a short tuple of integers. Numbers are never used twice:
when the table of them is full it is emptied, and what was known gets other numbers, which costs an
evaluation and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import ProfileRuntime, Source
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import NOTHING_READ
from podsched.framework.pods import PodInfo

PROJECTION_WORDING = 'running plugin "{}" for what it reads of the pod'
#: Projections that are remembered; a unique one per pod takes some 300 bytes.
MAX_KNOWN: Final = 32_768
#: Projections remembered while pods come and go: of many templates; each takes some 200 bytes.
MAX_LASTING: Final = 4096

_instances = itertools.count(1)

#: Equal for pods that a profile cannot tell apart.
EvaluationKey = tuple[Hashable, ...]


_FAILED: Final = object()
_Ask = Callable[[PodInfo, ClusterView], Hashable]
#: None: the plugin reads nothing of such pods.
_Asked = Sequence[tuple[str, _Ask | None]]


class _Part(NamedTuple):
    """Plugins that read the same of a pod, and where what they said of it is kept.

    ``place`` is the key in ``compiled``; ``varying``: these are the profile's ``varying`` plugins;
    ``of_placed_pods``: what they say depends on the pods that are placed.
    """

    place: str
    source: Source
    plugins: Sequence[tuple[str, _Ask]]
    varying: bool
    of_placed_pods: bool


class _OfPart(NamedTuple):
    """The projections of a part, and a number for them."""

    number: int
    by_plugin: Mapping[str, Hashable]


class _OfClass(NamedTuple):
    """The projections that depend on a class alone, and a number that stands for all of them.

    ``kin`` stands for those of plugins that are not ``varying``; 0: such pods have no kin.
    """

    number: int
    kin: int
    parts: Sequence[_OfPart]


#: A part, and what pods that are equal in it share.
_Place = tuple[str, object]


class Stamped(Protocol):
    """A cluster, with values that change when it does."""

    @property
    def stamp(self) -> Hashable:
        """Change with everything that a decision may depend on."""
        ...

    @property
    def stamp_beside_pods(self) -> Hashable:
        """Change with that, but for pods that come and go and bring or take no terms."""
        ...


class Live:
    """Projections that depend on more than the class, as long as what they depend on stays.

    ``lasting`` holds while pods only come and go, as they do with each decision, and ``passing``
    until the next does.
    """

    __slots__ = ("_beside", "_stamp", "lasting", "passing")

    def __init__(self) -> None:
        self._stamp: Hashable = None
        self._beside: Hashable = None
        self.lasting: dict[_Place, tuple[Hashable, ...]] = {}
        self.passing: dict[_Place, tuple[Hashable, ...]] = {}

    def catch_up(self, cluster: Stamped) -> bool:
        """Forget what may hold no more; whether anything has changed since the last time."""
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
        """Return what is known."""
        found = self.lasting.get(place)
        return self.passing.get(place) if found is None else found

    def put(self, place: _Place, said: tuple[Hashable, ...], *, lasts: bool) -> None:
        """Remember it. Raises TypeError for what cannot be a part of a key."""
        hash(said)
        if not lasts:
            self.passing[place] = said
            return
        if len(self.lasting) >= MAX_LASTING:
            self.lasting.clear()
        self.lasting[place] = said


class Projections:
    """The keys of one profile's pods."""

    def __init__(self, runtime: ProfileRuntime, cluster: ClusterView) -> None:
        self._runtime = runtime
        self._cluster = cluster
        # Classes are shared by profiles, and by the states of several terms.
        self._compiled_key = f"projections {next(_instances)}"
        self._fixed = _parts(runtime, f"{self._compiled_key} fixed", of_class=True)
        self._live = _parts(runtime, f"{self._compiled_key} live", of_class=False)
        self._is_of_shape = not any(
            p.reads_requests for p in runtime.projecting.values() if not p.of_class
        )
        self._live_names = [name for part in self._live for name, _ in part.plugins]
        self._numbers: dict[Hashable, int] = {}
        self._serial = itertools.count(1)

    def key(self, pod: PodInfo, known: Live | None = None) -> EvaluationKey:
        """Return the pod's key, as long as nothing changes in the cluster.

        ``known``: projections of pods of the same profile, which have caught up; some are added.
        """
        cls, number = pod.cls, self._of(pod).number
        known = Live() if known is None else known
        whole = (self._compiled_key, cls.shape if self._is_of_shape else cls)
        live = known.get(whole)
        if live is None:
            try:
                live = self._all_live(pod, known, whole)
            except (PluginFailure, TypeError):
                # What is wrong with the plugin shows in the evaluation, which reports it.
                return (number, "class", cls.id, _FAILED)
        return (number, cls.priority if self._cluster.nominated_nodes() else None, *live)

    def _all_live(self, pod: PodInfo, known: Live, whole: _Place) -> tuple[Hashable, ...]:
        """Return what depends on more than the class. Raises PluginFailure, TypeError."""
        found: list[Hashable] = []
        last = True
        for part in self._live:
            place = (part.place, part.source(pod.cls))
            live = known.get(place)
            if live is None:
                live = self._live_of(part, pod)
                nothing = not part.of_placed_pods or all(one is NOTHING_READ for one in live)
                known.put(place, live, lasts=nothing)
            last = last and place in known.lasting
            found += live
        live = tuple(found)
        known.put(whole, live, lasts=last)
        return live

    def _live_of(self, part: _Part, pod: PodInfo) -> tuple[Hashable, ...]:
        """Return it for one part, which is not certain to be hashable. Raises PluginFailure."""
        compiled, place = part.source(pod.cls).compiled, part.place
        plugins: _Asked = compiled.get(place, part.plugins)
        cluster = self._cluster
        said = tuple(
            NOTHING_READ if ask is None else guarded(name, PROJECTION_WORDING, ask, pod, cluster)
            for name, ask in plugins
        )
        if place not in compiled:
            pairs = zip(plugins, said, strict=True)
            compiled[place] = [(n, None if one is NOTHING_READ else ask) for (n, ask), one in pairs]
        return said

    def kin(self, pod: PodInfo, key: EvaluationKey) -> EvaluationKey | None:
        """Return what is equal for pods with such a key that differ in varying plugins alone.

        None where some plugin reads what it does not declare, or has failed.
        """
        number = self._of(pod).kin
        return None if not number or key[-1] is _FAILED else (number, *key[1:])

    def may_be_alike(self, one: PodInfo, other: PodInfo) -> bool:
        """Return False where the pods' classes alone show that their keys differ."""
        return self._of(one).number == self._of(other).number

    def by_plugin(self, pod: PodInfo, key: EvaluationKey) -> Mapping[str, Hashable]:
        """Return the projections of a pod with this key, by plugin; for columns to be shared."""
        if key[-1] is _FAILED:
            return {}
        of_class = {n: said for part in self._of(pod).parts for n, said in part.by_plugin.items()}
        return {**of_class, **dict(zip(self._live_names, key[2:], strict=True))}

    def _of(self, pod: PodInfo) -> _OfClass:
        compiled = pod.cls.compiled
        found: _OfClass | None = compiled.get(self._compiled_key)
        if found is None:
            found = compiled[self._compiled_key] = self._compile(pod)
        return found

    def _compile(self, pod: PodInfo) -> _OfClass:
        """Return what depends on the pod's class alone, and a number for it."""
        cls = pod.cls
        own: Hashable = cls.id if self._runtime.reads_whole_pods else None
        found: Sequence[_OfPart] = ()
        try:
            found = tuple([self._of_part(part, pod) for part in self._fixed])
        except (PluginFailure, TypeError):
            own = cls.id
        numbers = [of_part.number for of_part in found]
        kin = 0
        if own is None and self._runtime.varying:
            pairs = zip(self._fixed, numbers, strict=True)
            kin = self._number(("kin", *(n for part, n in pairs if not part.varying)))
        number = self._number((own, cls.amounts.key, *numbers))
        return _OfClass(number, kin, found)

    def _of_part(self, part: _Part, pod: PodInfo) -> _OfPart:
        """Return what depends on a part of the pod's class. Raises PluginFailure, TypeError."""
        compiled = part.source(pod.cls).compiled
        found: _OfPart | None = compiled.get(part.place)
        if found is None:
            said = {
                name: guarded(name, PROJECTION_WORDING, ask, pod, self._cluster)
                for name, ask in part.plugins
            }
            found = _OfPart(self._number((part.place, *said.values())), said)
            compiled[part.place] = found
        return found

    def _number(self, projection: Hashable) -> int:
        found = self._numbers.get(projection)
        if found is None:
            if len(self._numbers) >= MAX_KNOWN:
                self._numbers.clear()
            found = self._numbers[projection] = next(self._serial)
        return found


def _parts(runtime: ProfileRuntime, place: str, *, of_class: bool) -> Sequence[_Part]:
    """Return the plugins whose projections depend on the class alone, or on more, by part."""
    found: dict[tuple[Source, bool, bool], list[tuple[str, _Ask]]] = {}
    for name, projecting in runtime.projecting.items():
        if projecting.of_class is of_class:
            of_placed = projecting.of_placed_pods and not of_class
            kind = projecting.source, name in runtime.varying, of_placed
            found.setdefault(kind, []).append((name, projecting.ask))
    return [
        _Part(f"{place} {number}", source, plugins, varying, of_placed)
        for number, ((source, varying, of_placed), plugins) in enumerate(found.items())
    ]
