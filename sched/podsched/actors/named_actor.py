"""Adopt or replace a detached actor, and call it for one term."""

from __future__ import annotations

import asyncio
from typing import Any

from podsched.actors.ray_cluster import LaterTerm, RayCluster, RayUnavailable
from podsched.actors.terms import Adoption, StaleTerm, fingerprint_of
from podsched.telemetry.logs import get_logger

_log = get_logger("ray")

#: A new actor's process starts and imports in 1 to 5 s, longer on a busy machine.
START_TIMEOUT = 30.0
#: Seconds that a live actor may take to answer a handshake.
ADOPT_TIMEOUT = 3.0
#: Seconds for which an actor may follow a later term while this one goes on: longer than a deposed
#: leader does. Then etcd was restored from a backup, and the later term is lost.
STALE_FOR = 60.0
#: Seconds until a killed actor's name is free.
NAME_PAUSE = 0.1


class NamedActor:
    """One actor of a term; while it is missing (not ``ready``), its work is done locally."""

    def __init__(
        self,
        cluster: RayCluster,
        name: str,
        actor_class: type,
        arguments: tuple[Any, ...],
        term: int,
        handshake: tuple[Any, ...] = (),
    ) -> None:
        """``arguments`` create the actor, ``handshake`` are passed when it is adopted."""
        self._cluster = cluster
        self.name = name
        self._class = actor_class
        self._fingerprint = fingerprint_of(actor_class.__name__, arguments)
        self._arguments = (self._fingerprint, *arguments)
        self._term = term
        self._handshake = handshake
        self._handle: Any = None
        self._had_one = False
        self._stale_since: float | None = None
        self.ready = False

    async def ensure(self) -> None:
        """Adopt or create the actor. Raises RayUnavailable."""
        found = await self._cluster.find(self.name)
        if found is not None and not await self._adopt(found, ADOPT_TIMEOUT):
            _log.info("Replacing an actor", actor=self.name)
            await self._cluster.kill(found)
            await asyncio.sleep(NAME_PAUSE)
            found = None
        if found is None:
            found = await self._cluster.create(self.name, self._class, self._arguments)
            if not await self._adopt(found, START_TIMEOUT):
                raise RayUnavailable(f"{self.name} did not start")
            if self._had_one:
                self._cluster.metrics.ray_actor_replaced(self.name.rpartition("-")[0])
        self._had_one = True
        self._stale_since = None
        self._handle = found
        self.ready = True

    async def _adopt(self, handle: Any, timeout: float) -> bool:
        try:
            answer = await self._cluster.call(
                handle.adopt,
                self._term,
                self._fingerprint,
                *self._handshake,
                timeout=timeout,
                name="adopt",
            )
        except RayUnavailable:
            return False
        if answer is Adoption.STALE:
            now = asyncio.get_running_loop().time()
            if self._stale_since is None:
                self._stale_since = now
            if now < self._stale_since + STALE_FOR:
                raise LaterTerm(f"{self.name} follows a later term")
        return answer is Adoption.ADOPTED

    async def call(self, method: str, *arguments: Any, timeout: float) -> Any:
        """Call a method with the term as first argument. A failure ends ``ready``.

        Raises RayUnavailable, also if the actor follows another term.
        """
        if not self.ready:
            raise RayUnavailable(f"{self.name} is not there")
        try:
            answer = await self._cluster.call(
                getattr(self._handle, method), self._term, *arguments, timeout=timeout, name=method
            )
        except RayUnavailable:
            self.ready = False
            raise
        if isinstance(answer, StaleTerm):
            self.ready = False
            raise LaterTerm(f"{self.name} follows term {answer.term}, not {self._term}")
        return answer
