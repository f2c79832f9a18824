"""The actor that belongs to a term."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from podsched.actors.named_actor import STALE_FOR, NamedActor
from podsched.actors.ray_cluster import LaterTerm
from podsched.actors.terms import Adoption, TermGuard
from support.fake_ray import FakeRay

pytestmark = pytest.mark.looptime


class Actor:
    """An actor that only follows terms."""

    def __init__(self, fingerprint: str) -> None:
        self._guard = TermGuard(fingerprint)

    def adopt(self, term: int, fingerprint: str) -> Adoption:
        return self._guard.adopt(term, fingerprint)


def actor_of(ray: FakeRay, term: int) -> NamedActor:
    return NamedActor(cast(Any, ray), "actor-0", Actor, (), term)


async def test_an_actor_that_follows_a_later_term_is_left_to_it() -> None:
    ray = FakeRay()
    await actor_of(ray, 9).ensure()
    deposed = actor_of(ray, 3)
    for _ in range(2):
        with pytest.raises(LaterTerm):
            await deposed.ensure()
        await asyncio.sleep(STALE_FOR / 2)
    assert ray.created == ["actor-0"]


async def test_an_actor_of_a_later_term_that_is_lost_is_replaced() -> None:
    """A deposed leader would have stopped: etcd was restored from a backup."""
    ray = FakeRay()
    await actor_of(ray, 9).ensure()
    actor = actor_of(ray, 3)
    with pytest.raises(LaterTerm):
        await actor.ensure()
    await asyncio.sleep(STALE_FOR)
    await actor.ensure()
    assert actor.ready
    assert ray.created == ["actor-0", "actor-0"]
