"""The priority that admission gives to pods."""

from __future__ import annotations

import pytest

from podsched.server.errors import ApiError
from support.api_objects import pod, priority_class
from support.api_world import World, pod_of


async def test_a_pod_gets_the_priority_of_its_class(world: World) -> None:
    """Also when the class was created through another server just now."""
    other = await world.another()
    await other.creator.create(priority_class("high", 1000))
    item = pod()
    item.spec.priority_class_name = "high"
    assert pod_of(await world.core.creator.create(item)).spec.priority == 1000


async def test_a_pod_without_a_class_gets_the_global_default(world: World) -> None:
    """And its name."""
    await world.core.creator.create(priority_class("usual", 7, default=True))
    await world.core.reflector.wait_until_fresh()
    spec = pod_of(await world.core.creator.create(pod())).spec
    assert (spec.priority, spec.priority_class_name) == (7, "usual")


async def test_an_unknown_priority_class_is_refused(world: World) -> None:
    """With the path of the field."""
    item = pod()
    item.spec.priority_class_name = "nope"
    with pytest.raises(ApiError, match="no PriorityClass with name nope was found"):
        await world.core.creator.create(item)
