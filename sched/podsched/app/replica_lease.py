"""Publish a replica's state in its own Lease, for ``sched status``.

The Lease is renewed every ``PERIOD`` seconds. It has no part in the election, and is written
without a fence, because standbys write theirs, too. A replica that stops deletes it; that of a
killed one, which may have had a name of its own, is deleted by another one an hour or two later.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.kinds import KINDS
from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Lease
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.cluster import object_deletion
from podsched.serve.client.errors import AlreadyExists, ClientError, NotFound

NAMESPACE = "kube-system"
#: The lock in whose record the leader is, unless the configuration names another one.
DEFAULT_LOCK = "kube-system/kube-scheduler"
LABEL = "podsched.io/component"
COMPONENT = "scheduler"
PREFIX = "podsched.io/"
PERIOD = 2.0
#: Keys that change all the time: a change of these alone is written only with the next renewal.
_FLEETING = ("seen", "load")
#: Seconds without renewal after which a replica counts as gone.
STALE_AFTER = 10.0
#: Seconds without renewal after which another replica deletes a Lease.
FORGOTTEN_AFTER = 3600.0


def lease_name(replica: str) -> str:
    """Return the name of a replica's Lease: the replica's name in permitted characters."""
    letters = [c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in replica.lower()]
    return f"replica-{''.join(letters)}"[:253].rstrip("-.")


def is_of_replica(lease: Lease) -> bool:
    """Whether a replica publishes its state in this Lease."""
    return lease.metadata.labels.get(LABEL) == COMPONENT


def published(lease: Lease) -> dict[str, str]:
    """Return what a replica has published in its Lease."""
    found = lease.metadata.annotations.items()
    return {key.removeprefix(PREFIX): value for key, value in found if key.startswith(PREFIX)}


def state_of(lease: Lease, leader: str, age: float) -> str:
    """Return the state of the replica with this Lease: leading, standby, deposed or gone.

    ``leader``: the identity in the lock's record. ``age``: seconds since the Lease was renewed.
    """
    state = published(lease).get("state", "")
    if age > STALE_AFTER:
        return "gone"
    # It was killed or deposed; its own Lease still says that it leads.
    return "deposed" if state == "leading" and lease.spec.holder_identity != leader else state


def whole(text: str) -> int:
    """Return a number that a replica has published; 0 if it is invalid."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0


class ReplicaLease:
    """Writes and renews one replica's Lease."""

    def __init__(
        self,
        client: ApiClient,
        replica: str,
        identity: str,
        about: Callable[[], Mapping[str, str]],
        leases: Callable[[], Iterable[AnyObject]],
    ) -> None:
        """``replica``: a name that outlives restarts; ``identity``: unique to this process.

        ``about``: returns the state to publish; ``leases``: returns the Leases that are known.
        """
        self._client = client
        self._identity = identity
        self._about = about
        self._leases = leases
        #: The versions of the other replicas' Leases, by name, as of the last look.
        self._seen: dict[str, str] = {}
        self._name = lease_name(replica)

    async def run(self) -> None:
        """Renew until cancelled. Changes are written at once; after an error, 0.2 s later."""
        written: dict[str, str] = {}
        due = looks_at = 0.0
        while True:
            about = dict(self._about())
            state = {key: value for key, value in about.items() if key not in _FLEETING}
            if state != written or time.monotonic() >= due:
                try:
                    await self._write(about)
                    written, due = state, time.monotonic() + PERIOD
                    if time.monotonic() >= looks_at:
                        looks_at = time.monotonic() + FORGOTTEN_AFTER
                        await self._forget_others()
                except ClientError:
                    pass
            await asyncio.sleep(0.2)

    async def _write(self, about: Mapping[str, str]) -> None:
        now = Timestamp()
        now.GetCurrentTime()
        annotations = {PREFIX + key: value for key, value in about.items()}
        metadata = {"annotations": annotations, "labels": {LABEL: COMPONENT}}
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(STALE_AFTER),
            "renewTime": now.ToJsonString(),
        }
        try:
            patch = {"metadata": metadata, "spec": spec}
            await self._client.patch("Lease", self._name, patch, NAMESPACE)
        except NotFound:
            own = {"name": self._name, "namespace": NAMESPACE, **metadata}
            kind = {"apiVersion": KINDS["Lease"].api_version, "kind": "Lease"}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(
                    from_manifest({**kind, "metadata": own, "spec": spec}).message
                )

    async def _forget_others(self) -> None:
        """Delete the Leases that were not renewed since the last look. Raises ClientError."""
        before, self._seen = self._seen, {}
        deletions = []
        for lease in self._leases():
            name, version = lease.metadata.name, lease.metadata.resource_version
            if not isinstance(lease, Lease) or not is_of_replica(lease) or name == self._name:
                continue
            self._seen[name] = version
            if before.get(name) == version:
                deletion = object_deletion(lease)
                # Not if it is renewed meanwhile, by a new process.
                deletion.preconditions.resource_version = int(version)
                deletions.append(deletion)
        if deletions:
            await self._client.delete_many(deletions)

    async def remove(self) -> None:
        """Delete the Lease, because the replica stops. Raises ClientError."""
        with contextlib.suppress(NotFound):
            await self._client.delete("Lease", self._name, NAMESPACE)
