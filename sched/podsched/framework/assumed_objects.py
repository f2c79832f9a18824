"""Objects as plugins assume them to be, until the informer has them so.

A plugin that reserves an object in Reserve (a volume for a claim, say) writes it in PreBind only.
Until the informer has what was written, the pods after it are to be decided on as if it were so::

    volumes = cluster.assumed("PersistentVolume")
    volume = volumes.get("", name)          # as it is assumed, or as the informer has it
    volumes.assume(bound)                   # Reserve
    volumes.restore("", name)               # Unreserve

    the informer's --assume--> assumed --restore, or the rollback of a trial--> the informer's
                                  '--the informer has another object, or none--------^

Source: kube-scheduler v1.36 ``util/assumecache``; here the plugins of all profiles share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

Object = TypeVar("Object")


class AssumedObjects(Protocol[Object]):
    """The objects of one kind, assumed ones in place of the informer's."""

    @property
    def version(self) -> int:
        """A number that changes when an object is assumed or restored.

        Where the informer ends an assumption, ``ClusterView.version`` changes: who reads assumed
        objects names both in ``inputs``.
        """
        ...

    def get(self, namespace: str, name: str) -> Object | None: ...
    def list(self, namespace: str | None = None) -> Sequence[Object]: ...
    def assumed(self) -> Sequence[Object]:
        """Return the assumed objects alone."""
        ...

    def assume(self, changed: Object) -> None:
        """Take an object to be as ``changed``, instead of the one that the informer has now.

        Undone with the trial that is open. Raises KeyError when the informer has none of the name.
        """
        ...

    def restore(self, namespace: str, name: str) -> None:
        """Take an object to be as the informer has it, whatever was assumed."""
        ...
