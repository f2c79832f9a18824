"""The etcd lease that a candidate's liveness key is attached to.

Every candidate keeps one, also as a standby. So an acquisition writes the liveness key in the same
transaction, and a record that promises a liveness key never exists without it.
"""

from __future__ import annotations

import asyncio
import contextlib

from podsched.serve.store.errors import LeaseNotFound, StoreError
from podsched.serve.store.protocol import Store
from podsched.telemetry.logs import get_logger

_log = get_logger("election")


class LivenessLease:
    """An etcd lease of ttl seconds, granted again whenever it is lost.

    etcd's minimum is 2 s (1.5 times its election timeout of 1 s, in whole seconds).
    """

    def __init__(self, store: Store, ttl: int) -> None:
        self._store = store
        self._ttl = ttl
        self._id = 0
        self._granting = asyncio.Lock()

    async def ensure(self) -> int:
        """Return the id of the lease; request one if there is none. Raises StoreError."""
        # One at a time: a second lease would be granted while the first answer is awaited.
        async with self._granting:
            if not self._id:
                self._id = (await self._store.lease_grant(self._ttl)).id
            return self._id

    def forget(self, lease_id: int) -> None:
        """Note that the store no longer has this lease."""
        if self._id == lease_id:
            self._id = 0

    async def keep_alive(self) -> None:
        """Renew the lease four times per ttl, until cancelled."""
        while True:
            await self._renew_once()
            await asyncio.sleep(self._ttl / 4)

    async def revoke(self) -> None:
        """End the lease, and with it the liveness key, if the store can be reached."""
        lease_id, self._id = self._id, 0
        if lease_id:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(self._ttl):
                    await self._store.lease_revoke(lease_id)

    async def _renew_once(self) -> None:
        lease_id = 0
        try:
            async with asyncio.timeout(self._ttl):
                lease_id = await self.ensure()
                await self._store.lease_keep_alive(lease_id)
        except LeaseNotFound:
            _log.warning("The liveness lease expired", lease=lease_id)
            self.forget(lease_id)
        except (StoreError, TimeoutError) as error:
            _log.debug("Could not renew the liveness lease", error=repr(error))
