"""``framework.assumed_objects`` over a cluster's objects.

An assumption remembers the informer's object that it was made instead of. It holds as long as the
cluster has that very object, so whatever replaces the object ends it; and if a trial has replaced
it, the assumption holds again after the rollback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from podsched.cache.open_trial import OpenTrial

#: Namespace and name.
_Name = tuple[str, str]


class Objects(Protocol):
    """The objects that are assumed to be others (``objects.ClusterState``)."""

    @property
    def open_trial(self) -> OpenTrial | None: ...
    def get(self, kind: str, namespace: str, name: str) -> Any | None: ...
    def list(self, kind: str, namespace: str | None = None) -> Sequence[Any]: ...
    def assumptions_changed(self, kind: AssumedKind) -> None:
        """Note that other objects are assumed now."""
        ...


class _Assumption(NamedTuple):
    base: Any
    assumed: Any


class AssumedKind:
    """``AssumedObjects`` of one kind."""

    def __init__(self, cluster: Objects, kind: str) -> None:
        self._cluster, self._kind = cluster, kind
        self._assumptions: dict[_Name, _Assumption] = {}
        self.version = 0

    def copy(self, cluster: Objects) -> AssumedKind:
        """Return the same assumptions about a copy of the cluster."""
        made = AssumedKind(cluster, self._kind)
        made._assumptions, made.version = dict(self._assumptions), self.version
        return made

    # ------------------------------------------------------------------ reading

    def get(self, namespace: str, name: str) -> Any | None:
        return self._now(self._cluster.get(self._kind, namespace, name))

    def list(self, namespace: str | None = None) -> Sequence[Any]:
        found = self._cluster.list(self._kind, namespace)
        return [self._now(one) for one in found] if self._assumptions else found

    def assumed(self) -> Sequence[Any]:
        holding = (self._holding(name) for name in self._assumptions)
        return [one.assumed for one in holding if one is not None]

    def _now(self, found: Any | None) -> Any | None:
        if found is None or not self._assumptions:
            return found
        known = self._assumptions.get((found.metadata.namespace, found.metadata.name))
        return known.assumed if known is not None and known.base is found else found

    def _holding(self, name: _Name) -> _Assumption | None:
        known = self._assumptions.get(name)
        if known is None or known.base is not self._cluster.get(self._kind, *name):
            return None
        return known

    # ------------------------------------------------------------------ changing

    def assume(self, changed: Any) -> None:
        meta = changed.metadata
        name = (meta.namespace, meta.name)
        base = self._cluster.get(self._kind, *name)
        if base is None:
            raise KeyError(f"{self._kind} {'/'.join(name)} is not there")
        self._make(name, _Assumption(base, changed))

    def restore(self, namespace: str, name: str) -> None:
        if (namespace, name) in self._assumptions:
            self._make((namespace, name), None)

    def settle(self, namespace: str, name: str) -> None:
        """Forget an assumption that the informer has ended."""
        if (namespace, name) in self._assumptions and self._holding((namespace, name)) is None:
            del self._assumptions[namespace, name]

    def _make(self, name: _Name, assumption: _Assumption | None) -> None:
        change = _Assuming(self, name, assumption)
        if self._cluster.open_trial is None:
            change.do()
        else:
            self._cluster.open_trial.make(change)

    def put(self, name: _Name, assumption: _Assumption | None) -> _Assumption | None:
        """Make or (None) forget an assumption; return the one there was."""
        before = self._assumptions.pop(name, None)
        if assumption is not None:
            self._assumptions[name] = assumption
        self._cluster.assumptions_changed(self)
        return before


class _Assuming:
    """An object that is assumed or (None) restored; a change of a trial."""

    __slots__ = ("_assumption", "_before", "_name", "_of")

    def __init__(self, of: AssumedKind, name: _Name, assumption: _Assumption | None) -> None:
        self._of, self._name, self._assumption = of, name, assumption
        self._before: _Assumption | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return (self._of._kind, *self._name)

    def do(self) -> bool:
        of, wanted = self._of, self._assumption
        if wanted is not None and wanted.base is not of._cluster.get(of._kind, *self._name):
            return False
        self._before = of.put(self._name, wanted)
        return True

    def undo(self) -> None:
        self._of.put(self._name, self._before)
