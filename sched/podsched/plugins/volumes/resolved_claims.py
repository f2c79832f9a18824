"""What is behind the claims of pods, found once until a claim, volume or class changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from podsched.framework.nodes import ClusterView
from podsched.plugins.volumes.claims import CLAIM, CLASS, VOLUME, get_claim
from podsched.v1 import objects_pb2 as v1

#: Begins the names of volumes that are not provisioned yet, so that no real one is equal to them.
UNBOUND: Final = "\0"

Found = TypeVar("Found")
Claims = TypeVar("Claims", bound="ResolvedClaims[Any]")


def versions(cluster: ClusterView) -> tuple[int, ...]:
    """Return the versions of the kinds that decide what is behind a claim."""
    return tuple(cluster.version(kind) for kind in (CLAIM, VOLUME, CLASS))


def current(
    known: Claims | None, cluster: ClusterView, make: Callable[[ClusterView], Claims]
) -> Claims:
    """Return the results of this cluster, without those that are outdated."""
    claims = known if known is not None and known.cluster is cluster else make(cluster)
    claims.refresh()
    return claims


class ResolvedClaims(Generic[Found]):
    """Resolves claims, and remembers the results until an object changes.

    A pickled copy, for an evaluation in another process, has the results for all claims.
    """

    def __init__(self, cluster: ClusterView) -> None:
        self.cluster: ClusterView | None = cluster
        self._versions: tuple[int, ...] = ()
        self._claims: dict[tuple[str, str], Found | None] = {}

    def behind(self, claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> Found | None:
        """Return what a claim stands for; None for nothing."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        self.refresh()
        if self.cluster is not None:
            self.read_all(self.cluster)
        return {**vars(self), "cluster": None, "_versions": ()}

    def read_all(self, cluster: ClusterView) -> None:
        """Resolve all that a copy may be asked for."""
        for claim in cluster.list(CLAIM):
            self.of_claim(claim.metadata.namespace, claim.metadata.name)

    def refresh(self) -> None:
        """Forget everything if claims, volumes or classes have changed."""
        if self.cluster is not None and self._versions != (now := versions(self.cluster)):
            self._versions = now
            self.forget()

    def forget(self) -> None:
        """Drop all results."""
        self._claims.clear()

    def of_claim(self, namespace: str, name: str) -> Found | None:
        """Return what is behind the claim; None also if it is not there."""
        key = (namespace, name)
        if key not in self._claims and self.cluster is not None:
            claim = get_claim(self.cluster, namespace, name)
            self._claims[key] = None if claim is None else self.behind(claim, self.cluster)
        return self._claims.get(key)
