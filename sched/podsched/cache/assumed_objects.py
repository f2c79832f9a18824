"""Objects that plugins assume to be changed; implements ``framework.assumed_objects``.

An assumption remembers the informer's object that it replaces. It is valid as long as the cluster
has this object, so replacing the object ends it, unless the assumption says which objects end it.
If a trial replaced the object, the assumption is valid again after the rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from podsched.cache.open_trial import OpenTrial
from podsched.framework.changed_keys import ChangedKeys

#: Namespace and name.
_Name = tuple[str, str]


class Objects(Protocol):
    """The objects that are assumed to be changed: ``ClusterState``, which imports this module."""

    @property
    def open_trial(self) -> OpenTrial | None: ...
    def get(self, kind: str, namespace: str, name: str) -> Any | None: ...
    def assumptions_changed(self, kind: AssumedKind) -> None: ...


class _Assumption(NamedTuple):
    """An assumed object, and the informer's object that it replaces, None if there is none."""

    base: Any
    assumed: Any
    until: Callable[[Any], bool] | None

    def holds(self, found: Any | None) -> bool:
        """Whether it is valid while the informer has this object."""
        if found is self.base or found is None or self.until is None:
            return found is self.base
        return not self.until(found)


class AssumedKind:
    """The assumed objects of one kind: ``framework.assumed_objects.AssumedObjects``."""

    def __init__(self, cluster: Objects, kind: str) -> None:
        self._cluster, self._kind = cluster, kind
        self._assumptions: dict[_Name, _Assumption] = {}
        self._changes: ChangedKeys[_Name] = ChangedKeys()
        self.version = 0

    def copy(self, cluster: Objects) -> AssumedKind:
        """Return the same assumptions for a copy of the cluster."""
        made = AssumedKind(cluster, self._kind)
        made._assumptions, made.version = dict(self._assumptions), self.version
        return made

    # ------------------------------------------------------------------ reading

    @property
    def position(self) -> int:
        return self._changes.position

    def changed_since(self, position: int) -> Collection[_Name] | None:
        return self._changes.since(position)

    def note(self, namespace: str, name: str) -> None:
        """Note that an object has changed."""
        self._changes.add((namespace, name))

    def get(self, namespace: str, name: str) -> Any | None:
        found = self._cluster.get(self._kind, namespace, name)
        known = self._assumptions.get((namespace, name)) if self._assumptions else None
        return known.assumed if known is not None and known.holds(found) else found

    def assumed(self) -> Sequence[Any]:
        holding = (self._holding(name) for name in self._assumptions)
        return [one.assumed for one in holding if one is not None]

    def _holding(self, name: _Name) -> _Assumption | None:
        known = self._assumptions.get(name)
        if known is None or not known.holds(self._cluster.get(self._kind, *name)):
            return None
        return known

    # ------------------------------------------------------------------ changing

    def assume(
        self, changed: Any, until: Callable[[Any], bool] | None = None, *, is_new: bool = False
    ) -> None:
        meta = changed.metadata
        name = (meta.namespace, meta.name)
        base = self._cluster.get(self._kind, *name)
        if base is None and not is_new:
            raise KeyError(f"{self._kind} {'/'.join(name)} is not there")
        self._make(name, _Assumption(base, changed, until))

    def restore(self, namespace: str, name: str) -> None:
        if (namespace, name) in self._assumptions:
            self._make((namespace, name), None)

    def drop_if_outdated(self, namespace: str, name: str) -> Any | None:
        """Drop and return what is assumed of an object if the informer's object has ended it."""
        if (namespace, name) in self._assumptions and self._holding((namespace, name)) is None:
            # No new version: the object's change has given the kind one.
            return self._assumptions.pop((namespace, name)).assumed
        return None

    def _make(self, name: _Name, assumption: _Assumption | None) -> None:
        change = _Assuming(self, name, assumption)
        if self._cluster.open_trial is None:
            change.do()
        else:
            self._cluster.open_trial.make(change)

    def put(self, name: _Name, assumption: _Assumption | None) -> _Assumption | None:
        """Set or (None) remove an assumption; return the previous one."""
        before = self._assumptions.pop(name, None)
        if assumption is not None:
            self._assumptions[name] = assumption
        self.note(*name)
        self._cluster.assumptions_changed(self)
        return before


@dataclass(eq=False, slots=True)
class _Assuming:
    """The change of a trial that assumes an object, or (None) restores it."""

    of: AssumedKind
    name: _Name
    assumption: _Assumption | None
    before: _Assumption | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.of._kind, *self.name)

    def do(self) -> bool:
        of, wanted = self.of, self.assumption
        # If this is made again after an event, the informer may have another object now.
        if wanted is not None and not wanted.holds(of._cluster.get(of._kind, *self.name)):
            return False
        self.before = of.put(self.name, wanted)
        return True

    def undo(self) -> None:
        self.of.put(self.name, self.before)
