"""Objects that plugins assume to be changed, until the informer reports the change.

A plugin that reserves an object in Reserve (such as a volume for a claim) writes it only in
PreBind. Until the informer reports it, later pods must be decided as if it were written::

    volumes = cluster.assumed("PersistentVolume")
    volume = volumes.get("", name)          # as assumed, else as in the informer
    volumes.assume(bound)                   # Reserve
    volumes.restore("", name)               # Unreserve

    the informer's --assume--> assumed --restore, or the rollback of a trial--> the informer's
                                  '--the informer has another object, or none--------^
                                     (with ``until``: one that ends the assumption)

Source: kube-scheduler v1.36 ``util/assumecache``; here the plugins of all profiles share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

Object = TypeVar("Object")


class AssumedObjects(Protocol[Object]):
    """The objects of one kind; assumed objects replace those of the informer."""

    @property
    def version(self) -> int:
        """A number that changes when an object is assumed or restored.

        If the informer ends an assumption, ``ClusterView.version`` changes instead. So plugins that
        read assumed objects include both numbers in ``inputs``.
        """

    @property
    def position(self) -> int:
        """The current position in the journal of changed objects."""

    def changed_since(self, position: int) -> Collection[tuple[str, str]] | None:
        """Return namespace and name of all objects that changed since; None: maybe all.

        Whether the informer or an assumption changed them.
        """

    def get(self, namespace: str, name: str) -> Object | None: ...
    def assumed(self) -> Sequence[Object]:
        """Return only the assumed objects."""

    def assume(
        self,
        changed: Object,
        until: Callable[[Object], bool] | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        """Assume ``changed`` in place of the informer's current object; undone with an open trial.

        ``until``: returns whether a later object of the informer ends the assumption; None: any.
        ``is_new``: the object will be created, and is assumed also while the informer has none.
        Raises KeyError if the informer has no object of this name, unless it is new.
        """

    def restore(self, namespace: str, name: str) -> None:
        """Drop the assumption about an object, if there is one."""
