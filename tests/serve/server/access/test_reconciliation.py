"""Built-in roles of an earlier version get the rights that are new."""

from __future__ import annotations

from podsched.api.objects import ClusterRole
from podsched.serve.server.access.bootstrap_policy import AUTO_UPDATE, SCHEDULER
from podsched.serve.server.access.rules import Rule, not_covered
from podsched.serve.server.core import ServerCore
from support.api_world import World, message_of


async def stored(core: ServerCore, name: str) -> ClusterRole:
    found = message_of(await core.registry.get("ClusterRole", "", name))
    assert isinstance(found, ClusterRole)
    return found


async def started_anew(world: World, role: ClusterRole) -> ServerCore:
    """A server that starts on a store in which the role is like this."""
    await world.core.registry.update(role)
    return await world.another()


async def test_a_role_gets_the_rights_that_it_lacks(world: World) -> None:
    whole = await stored(world.core, SCHEDULER)
    old = ClusterRole()
    old.CopyFrom(whole)
    del old.rules[3:]
    core = await started_anew(world, old)
    extended = await stored(core, SCHEDULER)
    rights = [[Rule.of(rule) for rule in role.rules] for role in (extended, whole)]
    assert not_covered(*rights) == []


async def test_rules_that_a_user_added_stay(world: World) -> None:
    role = await stored(world.core, SCHEDULER)
    role.rules.add(verbs=["get"], api_groups=["example.com"], resources=["things"])
    core = await started_anew(world, role)
    assert (await stored(core, SCHEDULER)).rules == role.rules


async def test_a_role_that_is_not_to_be_updated_stays(world: World) -> None:
    role = await stored(world.core, SCHEDULER)
    role.metadata.annotations[AUTO_UPDATE] = "false"
    del role.rules[:]
    core = await started_anew(world, role)
    assert not (await stored(core, SCHEDULER)).rules
