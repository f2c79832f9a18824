"""Several members of etcd on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from podsched.lib.network import free_port
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.errors import StoreError
from podsched.serve.store.member import EtcdMember


class EtcdMembers:
    """A cluster of etcd, whose members can be killed and started again one by one."""

    def __init__(self, data_dir: Path, count: int) -> None:
        peers = [free_port() for _ in range(count)]
        cluster = ",".join(f"etcd-{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self.members = [
            EmbeddedEtcd(
                EmbeddedEtcdOptions(
                    data_dir / f"etcd-{index}",
                    client_port=free_port(),
                    peer_port=peer,
                    name=f"etcd-{index}",
                    cluster=cluster,
                    history="60m",  # the recorder must not miss any
                )
            )
            for index, peer in enumerate(peers)
        ]
        self._known = [EtcdMember(member.endpoint) for member in self.members]

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The members' addresses, host:port."""
        return tuple(member.endpoint.rpartition("/")[2] for member in self.members)

    async def start(self, indices: Sequence[int] | None = None) -> None:
        """Start members, all of them by default. Raises EmbeddedEtcdError."""
        wanted = range(len(self.members)) if indices is None else indices
        await asyncio.gather(*(self.members[index].start() for index in wanted))

    async def stop(self) -> None:
        """End all members; what they have acknowledged is on disk."""
        for known in self._known:
            await known.close()
        # Not with SIGTERM: etcd's leader looks for a successor first, for 7 s if all others end.
        await asyncio.gather(*(member.kill() for member in self.members))

    def pid(self, index: int) -> int:
        """Return the process of a member. Raises ``LookupError``."""
        pid = self.members[index].pid
        if pid is None:
            raise LookupError(f"etcd-{index} does not run")
        return pid

    def control(self, index: int) -> EtcdMember:
        """Return the connection to a member by which it is told what to do."""
        return self._known[index]

    async def leader(self) -> int:
        """Return the index of the member that leads. Raises ``LookupError``."""
        for index, known in enumerate(self._known):
            if self.members[index].pid is None:
                continue
            try:
                own, leader = await known.ids()
            except StoreError:
                continue
            if own == leader:
                return index
        raise LookupError("no member of etcd leads")
