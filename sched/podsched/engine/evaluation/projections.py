"""Which pods a profile's plugins decide on alike, though they are of different classes.

    pod --projection of each plugin--> EvaluationKey --> one evaluation, one batch

A plugin that declares a projection (``framework.plugin.ProjectingPlugin``) says what of the pod it
reads. Pods with equal projections to all plugins and equal requests are equal to the profile: they
share an evaluation and are placed in one batch, whatever else tells them apart (a label that no
selector sees, an image that no node has, a claim whose volume is reachable from everywhere). Their
priorities must be equal only while pods are nominated, for it is those of at least its own priority
that a pod counts. For a plugin without a projection only pods of one class are equal.

Most plugins read nothing of what a pod requests. What they make of pods that differ in nothing
else (``PodShape``) is asked for once.

Projections are numbered, so that a key is a short tuple of integers. Numbers are never used twice:
when the table of them is full it is emptied, and what was known gets other numbers, which costs an
evaluation and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from podsched.engine.runtime.plugin_calls import PluginFailure, guarded
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo, PodShape

PROJECTION_WORDING = 'running plugin "{}" for what it reads of the pod'
#: Projections that are remembered; a unique one per pod takes some 300 bytes.
MAX_KNOWN: Final = 32_768

_instances = itertools.count(1)

#: Equal for pods that a profile cannot tell apart.
EvaluationKey = tuple[Hashable, ...]


_FAILED: Final = object()
_Ask = Callable[[PodInfo, ClusterView], Hashable]


class _OfShape(NamedTuple):
    """The projections that depend on a class alone, but for requests, and a number for them."""

    number: int
    by_plugin: Mapping[str, Hashable]


class _OfClass(NamedTuple):
    """The projections that depend on a class alone, and a number that stands for all of them.

    ``kin`` stands for those of plugins that are not ``varying``; 0: such pods have no kin.
    """

    number: int
    kin: int
    by_plugin: Mapping[str, Hashable]


#: Projections that depend on more than the class, by shape; for as long as nothing changes.
Live = dict[PodShape, tuple[Hashable, ...]]


class Projections:
    """The keys of one profile's pods."""

    def __init__(self, runtime: ProfileRuntime, cluster: ClusterView) -> None:
        self._runtime = runtime
        self._cluster = cluster
        of_class = [(n, p) for n, p in runtime.projecting.items() if p.of_class]
        of_pod = [(n, p) for n, p in runtime.projecting.items() if not p.of_class]
        self._of_shape = [(name, p.ask) for name, p in of_class if p.of_shape]
        self._of_class = [(name, p.ask) for name, p in of_class if not p.of_shape]
        self._of_pod = [(name, p.ask) for name, p in of_pod]
        self._is_shared = all(p.of_shape for _, p in of_pod)
        self._numbers: dict[Hashable, int] = {}
        self._serial = itertools.count(1)
        # Classes are shared by profiles, and by the states of several terms.
        self._compiled_key = f"projections {next(_instances)}"

    def key(self, pod: PodInfo, known: Live | None = None) -> EvaluationKey:
        """Return the pod's key, as long as nothing changes in the cluster.

        ``known``: projections of pods of the same profile since the last change; some are added.
        """
        fixed, shape = self._of(pod).number, pod.cls.shape
        priority = pod.cls.priority if self._cluster.nominated_nodes() else None
        live = known.get(shape) if known is not None and self._is_shared else None
        if live is not None:
            return (fixed, priority, *live)
        try:
            live = tuple(self._ask(self._of_pod, pod).values())
            hash(live)
        except (PluginFailure, TypeError):
            # What is wrong with the plugin shows in the evaluation, which reports it.
            return (fixed, "class", pod.cls.id, _FAILED)
        if known is not None:
            known[shape] = live
        return (fixed, priority, *live)

    def _ask(self, plugins: Sequence[tuple[str, _Ask]], pod: PodInfo) -> dict[str, Hashable]:
        cluster = self._cluster
        return {n: guarded(n, PROJECTION_WORDING, ask, pod, cluster) for n, ask in plugins}

    def kin(self, pod: PodInfo, key: EvaluationKey) -> EvaluationKey | None:
        """Return what is equal for pods with such a key that differ in varying plugins alone.

        None where some plugin reads what it does not declare, or has failed.
        """
        number = self._of(pod).kin
        return None if not number or key[-1] is _FAILED else (number, *key[1:])

    def may_be_alike(self, one: PodInfo, other: PodInfo) -> bool:
        """Return False where the pods' classes alone show that their keys differ."""
        return self._of(one).number == self._of(other).number

    def may_be_kin(self, one: PodInfo, other: PodInfo) -> bool:
        """Return False where the pods' classes alone show that they are no kin."""
        return self._of(one).kin == self._of(other).kin != 0

    def by_plugin(self, pod: PodInfo, key: EvaluationKey) -> Mapping[str, Hashable]:
        """Return the projections of a pod with this key, by plugin; for columns to be shared."""
        if key[-1] is _FAILED:
            return {}
        of_pod = zip((name for name, _ in self._of_pod), key[2:], strict=True)
        return {**self._of(pod).by_plugin, **dict(of_pod)}

    def _of(self, pod: PodInfo) -> _OfClass:
        compiled = pod.cls.compiled
        found = compiled.get(self._compiled_key)
        if found is None:
            found = compiled[self._compiled_key] = self._compile(pod)
        return cast(_OfClass, found)

    def _compile(self, pod: PodInfo) -> _OfClass:
        """Return what depends on the pod's class alone, and a number for it."""
        cls = pod.cls
        own: Hashable = cls.id if self._runtime.reads_whole_pods else None
        shape = _OfShape(0, {})
        parts: Mapping[str, Hashable] = {}
        try:
            shape, parts = self._shape(pod), self._ask(self._of_class, pod)
            hash(tuple(parts.values()))
        except (PluginFailure, TypeError):
            shape, parts, own = _OfShape(0, {}), {}, cls.id
        requests = frozenset(cls.requests.items())
        of_class = (own, requests, cls.nonzero, shape.number, *parts.values())
        kin, varying = 0, self._runtime.varying
        if own is None and varying:
            common = (part for name, part in parts.items() if name not in varying)
            kin = self._number(("kin", shape.number, *common))
        return _OfClass(self._number(of_class), kin, {**shape.by_plugin, **parts})

    def _shape(self, pod: PodInfo) -> _OfShape:
        """Return what depends on the pod's shape alone. Raises PluginFailure, TypeError."""
        compiled = pod.cls.shape.compiled
        found: _OfShape | None = compiled.get(self._compiled_key)
        if found is None:
            parts = self._ask(self._of_shape, pod)
            found = _OfShape(self._number(("shape", *parts.values())), parts)
            compiled[self._compiled_key] = found
        return found

    def _number(self, projection: Hashable) -> int:
        found = self._numbers.get(projection)
        if found is None:
            if len(self._numbers) >= MAX_KNOWN:
                self._numbers.clear()
            found = self._numbers[projection] = next(self._serial)
        return found
