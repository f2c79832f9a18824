"""Claims and devices in a cluster in memory on which changes are tried."""

from __future__ import annotations

from typing import Any

from podsched.api.objects import AnyObject
from podsched.ask.whatif.world import World, pods_on
from support.device_objects import device_class, devices, resource_claim, template, user
from support.engine_world import container, pod
from support.gangs import gang
from support.whatif_world import node, world


def a_world(*objects: AnyObject, a: int = 2, b: int = 1) -> World:
    """Two nodes with devices, and a template of claims for one device."""
    return world(
        [
            *(node("a"), devices("a", a), node("b"), devices("b", b)),
            *(device_class(), template("one"), *objects),
        ]
    )


def placed(made: World, *names: str, **spec: Any) -> list[str]:
    """The nodes of pods that get a claim from the template, submitted and scheduled in order."""
    pods = [made.changes.submit(user(name, template="one", **spec)) for name in names]
    return [outcome.node_name for outcome in made.schedule(pods)]


def in_use(made: World) -> list[str]:
    claims = made.cluster.list("ResourceClaim")
    return sorted(
        f"{result.pool}/{result.device}"
        for claim in claims
        for result in claim.status.allocation.devices.results
    )


def test_pods_get_claims_of_their_templates_and_devices_until_none_is_left() -> None:
    made = a_world()
    outcomes = made.schedule([made.changes.submit(user(f"p{i}", template="one")) for i in range(4)])
    assert sorted(one.node_name for one in outcomes) == ["", "a", "a", "b"]
    assert "cannot allocate all claims" in outcomes[3].message
    assert in_use(made) == ["a/gpu-0", "a/gpu-1", "b/gpu-0"]


def test_pending_pods_of_the_cluster_get_claims_too() -> None:
    made = a_world(user("p", template="one"))
    [outcome] = made.schedule(made.pending())
    assert outcome.node_name
    assert len(in_use(made)) == 1


def test_a_pod_whose_template_is_missing_waits_for_its_claim() -> None:
    made = a_world()
    [outcome] = made.schedule([made.changes.submit(user("p", template="other"))])
    assert 'pod "default/p": ResourceClaim not created yet' in outcome.message


def test_pods_share_an_unallocated_claim_once_the_first_has_got_it_allocated() -> None:
    made = a_world(resource_claim("shared"))
    outcomes = made.schedule([made.changes.submit(user(f"p{i}", claim="shared")) for i in range(3)])
    assert len({one.node_name for one in outcomes}) == 1
    assert outcomes[0].node_name
    [claim] = made.cluster.list("ResourceClaim")
    assert [consumer.name for consumer in claim.status.reserved_for] == ["p0", "p1", "p2"]


def test_a_pod_that_goes_gives_its_devices_back_and_its_own_claim_goes_with_it() -> None:
    made = a_world(a=1, b=0)
    assert placed(made, "p") == ["a"]
    made.changes.remove(pods_on(made, "a")[0])
    assert not made.cluster.list("ResourceClaim")
    assert placed(made, "q") == ["a"]


def test_a_shared_claim_keeps_its_devices_until_its_last_consumer_goes() -> None:
    made = a_world(resource_claim("shared"), a=1, b=0)
    made.schedule([made.changes.submit(user(f"p{i}", claim="shared")) for i in range(2)])
    made.changes.remove(pods_on(made, "a")[0])
    assert in_use(made) == ["a/gpu-0"]
    made.changes.remove(pods_on(made, "a")[0])
    assert in_use(made) == []


def test_a_rolled_back_trial_leaves_claims_and_devices_as_they_were() -> None:
    made = a_world()
    placed(made, "p")
    before = [claim.SerializeToString() for claim in made.cluster.list("ResourceClaim")]
    with made.changes.trial():
        placed(made, "q", "r")
        for pod in pods_on(made, "a"):
            made.changes.remove(pod)
        placed(made, "s")
    assert [claim.SerializeToString() for claim in made.cluster.list("ResourceClaim")] == before
    assert placed(made, "q", "r", "s").count("") == 1
    assert in_use(made) == ["a/gpu-0", "a/gpu-1", "b/gpu-0"]


def test_a_claim_that_keeps_its_only_pod_from_nodes_is_given_back_and_allocated_anew() -> None:
    made = a_world(resource_claim("mine"))
    first = made.changes.submit(user("p", claim="mine"))
    made.schedule([first])
    where = "a" if pods_on(made, "a") else "b"
    [claim] = made.cluster.list("ResourceClaim")
    allocated = type(claim)()
    allocated.CopyFrom(claim)
    del allocated.status.reserved_for[:]
    again = a_world(allocated)
    again.changes.cordon(where)
    [outcome] = again.schedule([again.changes.submit(user("p", claim="mine"))])
    assert outcome.node_name == ({"a", "b"} - {where}).pop()


def test_members_of_a_gang_get_claims_and_devices_or_none_of_them() -> None:
    made = a_world(gang("train", 3, 0)[0])
    members = [made.changes.submit(user(f"p{i}", template="one", group="train")) for i in range(3)]
    assert sorted(one.node_name for one in made.schedule(members)) == ["a", "a", "b"]
    assert len(in_use(made)) == 3
    small = a_world(gang("train", 3, 0)[0], a=1)
    members = [small.changes.submit(user(f"p{i}", template="one", group="train")) for i in range(3)]
    assert [one.node_name for one in small.schedule(members)] == ["", "", ""]
    assert in_use(small) == []


def test_extended_resources_are_devices_in_a_world_too() -> None:
    made = a_world(device_class("shared", resource="example.com/gpu"), a=2, b=1)
    wants = [container({"cpu": "1", "example.com/gpu": "1"})]
    pods = [made.changes.submit(pod(f"p{i}", {"containers": wants})) for i in range(4)]
    assert sorted(one.node_name for one in made.schedule(pods)) == ["", "a", "a", "b"]
    assert in_use(made) == ["a/gpu-0", "a/gpu-1", "b/gpu-0"]
    made.changes.remove(pods_on(made, "b")[0])
    assert in_use(made) == ["a/gpu-0", "a/gpu-1"]
    with made.changes.trial():
        made.schedule([made.changes.submit(pod("again", {"containers": wants}))])
        assert len(in_use(made)) == 3
    assert in_use(made) == ["a/gpu-0", "a/gpu-1"]


PREEMPTS = {
    "profiles": [
        {"pluginConfig": [{"name": "DynamicResources", "args": {"preemptForDevices": True}}]}
    ]
}


def test_a_preemptor_gets_the_devices_of_its_victims_where_that_is_allowed() -> None:
    objects = [node("a"), devices("a", 2), device_class(), template("one")]
    for config, evicted in (({}, []), (PREEMPTS, ["low-0"])):
        made = world(objects, config)
        low = [user(f"low-{i}", template="one", priority=i) for i in range(2)]
        made.schedule([made.changes.submit(one) for one in low])
        [outcome] = made.schedule([made.changes.submit(user("high", template="one", priority=10))])
        assert [victim.name for victim in outcome.victims] == evicted
        assert bool(outcome.node_name) is bool(evicted)
        assert in_use(made) == ["a/gpu-0", "a/gpu-1"]


def test_members_of_a_group_share_the_claim_that_the_group_has() -> None:
    group = gang("train", 2, 0)[0]
    group.spec.resource_claims.add(name="mine", resource_claim_template_name="one")
    made = a_world(group)
    members = [made.changes.submit(user(f"p{i}", template="one", group="train")) for i in range(3)]
    assert len({one.node_name for one in made.schedule(members)} - {""}) == 1
    assert len(in_use(made)) == 1
    [claim] = made.cluster.list("ResourceClaim")
    assert [consumer.name for consumer in claim.status.reserved_for] == ["train"]


def test_devices_that_a_trial_gave_to_a_pod_are_free_after_it_although_a_node_changed_there() -> (
    None
):
    resource = "example.com/gpu"
    both = {"containers": [container({"cpu": "1", resource: "1"})]}
    objects = [device_class(resource=resource), resource_claim("mine")]
    made = world([node("a"), node("b"), devices("b", 2), *objects])
    waits = made.changes.submit(user("p", claim="mine", **both))
    with made.changes.trial():
        assert made.schedule([waits])[0].node_name == "b"
        made.changes.cordon("a")
    assert made.schedule([waits])[0].node_name == "b"
