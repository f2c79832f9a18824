"""Device taints: who leaves a tainted device and when, and what a DeviceTaintRule tells."""

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import DeviceTaintRule, Pod, ResourceClaim
from podsched.term.controllers.device_taint_eviction import DeviceTaintEvictionController
from support.controller_world import START, ControllerWorld, bound_pod

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(DeviceTaintEvictionController(world, world, world, world.metrics))
    return world


def put_slice(
    world: ControllerWorld, *, name: str = "s1", generation: int = 1, **taints: str
) -> None:
    """The slice of pool n1; taints: the effect by device, added at the start."""
    devices = []
    for device in ("d0", "d1"):
        added = {"key": "sick", "effect": taints.get(device), "timeAdded": "2023-11-14T22:13:20Z"}
        devices.append({"name": device, **({"taints": [added]} if device in taints else {})})
    world.put(
        from_manifest(
            {
                "apiVersion": API,
                "kind": "ResourceSlice",
                "metadata": {"name": name},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": "n1",
                    "pool": {"name": "n1", "generation": generation, "resourceSliceCount": 1},
                    "devices": devices,
                },
            }
        ).message
    )


def use(world: ControllerWorld, name: str, device: str, *tolerations: dict[str, object]) -> None:
    """A bound pod and its claim, which has the device."""
    pod = bound_pod(name, "n1")
    pod.spec.resource_claims.add(name="c", resource_claim_name=name)
    pod = world.put(pod)
    assert isinstance(pod, Pod)
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device}
    world.put(
        from_manifest(
            {
                "apiVersion": API,
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {},
                "status": {
                    "allocation": {
                        "devices": {"results": [{**result, "tolerations": list(tolerations)}]}
                    },
                    "reservedFor": [
                        {"resource": "pods", "name": name, "uid": pod.metadata.uid},
                    ],
                },
            }
        ).message
    )


def use_in_group(world: ControllerWorld, device: str, *members: str, generated: bool) -> None:
    """Bound pods of a PodGroup, and the group's claim, which has the device."""
    for name in members:
        pod = bound_pod(name, "n1")
        pod.spec.scheduling_group.pod_group_name = "g"
        ref = pod.spec.resource_claims.add(name="c")
        if generated:
            ref.resource_claim_template_name = "gpus"
            pod.status.resource_claim_statuses.add(name="c", resource_claim_name="g-c")
        else:
            ref.resource_claim_name = "g-c"
        world.put(pod)
    claim = ResourceClaim()
    claim.metadata.name, claim.metadata.namespace = "g-c", "default"
    if generated:
        claim.metadata.owner_references.add(
            kind="PodGroup", name="g", api_version="scheduling.k8s.io/v1alpha2", controller=True
        )
    claim.status.reserved_for.add(api_group="scheduling.k8s.io", resource="podgroups", name="g")
    claim.status.allocation.devices.results.add(
        request="r", driver=DRIVER, pool="n1", device=device
    )
    world.put(claim)


def tolerating(**more: object) -> dict[str, object]:
    return {"key": "sick", "operator": "Exists", "effect": "NoExecute", **more}


def put_rule(world: ControllerWorld, effect: str = "NoExecute", **selector: str) -> None:
    taint = {"key": "sick", "effect": effect, "timeAdded": "2023-11-14T22:13:20Z"}
    spec = {"deviceSelector": selector, "taint": taint}
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule", "generation": 1},
        "spec": spec,
    }
    world.put(from_manifest(rule).message)


def told(world: ControllerWorld) -> list[str]:
    rule = world.get("DeviceTaintRule", "rule")
    assert isinstance(rule, DeviceTaintRule)
    return [f"{of.status} {of.reason}: {of.message}".strip() for of in rule.status.conditions]


def test_pods_leave_a_device_with_a_taint_that_they_do_not_tolerate(
    world: ControllerWorld,
) -> None:
    put_slice(world)
    use(world, "p", "d0")
    use(world, "other", "d1")
    world.settle()
    assert not world.evicted
    put_slice(world, d0="NoExecute")
    world.settle()
    assert [key for key, _ in world.evicted] == ["default/p"]
    assert world.recorded == ["Marking for deletion"]


@pytest.mark.parametrize("generated", [False, True])
def test_all_pods_of_a_group_leave_a_device_of_the_groups_claim(
    world: ControllerWorld, *, generated: bool
) -> None:
    use_in_group(world, "d0", "p", "q", generated=generated)
    world.settle()
    put_rule(world, driver=DRIVER, device="d0")
    world.settle()
    assert [key for key, _ in world.evicted] == ["default/p", "default/q"]
    assert told(world) == ["True PodsPendingEviction: 2 pods need to be evicted in 1 namespace."]


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
def test_taints_of_other_effects_evict_no_pod(world: ControllerWorld, effect: str) -> None:
    use(world, "p", "d0")
    put_slice(world, d0=effect)
    world.settle()
    assert not world.evicted


def test_a_tolerating_pod_stays_for_its_seconds_from_when_the_taint_was_added(
    world: ControllerWorld,
) -> None:
    use(world, "stays", "d0", tolerating())
    world.wait(2)
    use(world, "p", "d0", tolerating(tolerationSeconds=600), tolerating(tolerationSeconds=5))
    put_slice(world, d0="NoExecute")
    world.wait(10)
    assert world.evicted == [("default/p", 5)]


def test_a_toleration_without_the_effect_delays_nothing(world: ControllerWorld) -> None:
    """As in Kubernetes v1.36, although the scheduler lets it tolerate the taint."""
    use(world, "p", "d0", {"key": "sick", "operator": "Exists"})
    put_slice(world, d0="NoExecute")
    world.settle()
    assert [key for key, _ in world.evicted] == ["default/p"]


def test_a_taint_that_is_taken_back_in_time_cancels_the_eviction(world: ControllerWorld) -> None:
    use(world, "p", "d0", tolerating(tolerationSeconds=5))
    put_slice(world, d0="NoExecute")
    world.wait(4)
    put_slice(world)
    world.wait(10)
    assert not world.evicted
    assert world.recorded == ["Cancelling deletion"]


def test_only_the_newest_generation_of_a_pool_counts(world: ControllerWorld) -> None:
    use(world, "p", "d0")
    put_slice(world, name="s2", generation=2)
    put_slice(world, d0="NoExecute")
    world.settle()
    assert not world.evicted


def test_a_pod_whose_claim_is_not_reserved_for_it_stays(world: ControllerWorld) -> None:
    use(world, "p", "d0")
    again = bound_pod("p", "n1")
    again.metadata.uid = "another"
    again.spec.resource_claims.add(name="c", resource_claim_name="p")
    world.put(again)
    put_slice(world, d0="NoExecute")
    world.settle()
    assert not world.evicted


def test_a_new_leader_finds_the_pods_on_tainted_devices() -> None:
    world = ControllerWorld()
    put_slice(world, d0="NoExecute")
    use(world, "p", "d0")
    world.start(DeviceTaintEvictionController(world, world, world, world.metrics))
    assert [key for key, _ in world.evicted] == ["default/p"]


def test_thousands_of_pods_are_looked_at_in_several_rounds() -> None:
    world = ControllerWorld()
    put_slice(world, d0="NoExecute")
    for number in range(1200):
        use(world, f"p{number}", "d0", tolerating(tolerationSeconds=600))
    controller = DeviceTaintEvictionController(world, world, world, world.metrics)
    for _ in world.starting(controller):
        pass
    rounds = 1
    while controller.work(world.now) == world.now.monotonic:
        rounds += 1
    assert rounds == 3


def test_a_rule_evicts_and_tells_how_many(world: ControllerWorld) -> None:
    put_slice(world)
    use(world, "p", "d0")
    use(world, "q", "d0", tolerating(tolerationSeconds=20))
    use(world, "other", "d1")
    world.settle()
    put_rule(world, driver=DRIVER, device="d0")
    world.settle()
    assert [key for key, _ in world.evicted] == ["default/p"]
    assert told(world) == [
        "True PodsPendingEviction: 2 pods need to be evicted in 1 namespace.",
    ]
    world.wait(12)
    assert told(world) == [
        "True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace. "
        "1 pod evicted since starting the controller.",
    ]
    world.wait(30)
    assert told(world) == ["False Completed: 2 pods evicted since starting the controller."]


def test_a_rule_that_is_deleted_in_time_evicts_no_pod(world: ControllerWorld) -> None:
    use(world, "p", "d0", tolerating(tolerationSeconds=5))
    put_rule(world, pool="n1")
    world.wait(2)
    world.remove("DeviceTaintRule", "rule")
    world.wait(20)
    assert not world.evicted


@pytest.mark.parametrize(
    "selector", [{"driver": "other"}, {"pool": "n2"}, {"driver": DRIVER, "device": "d1"}]
)
def test_a_rule_for_other_devices_evicts_no_pod(
    world: ControllerWorld, selector: dict[str, str]
) -> None:
    use(world, "p", "d0")
    put_rule(world, **selector)
    world.settle()
    assert not world.evicted
    assert told(world) == ["False NotStarted:"]


def test_a_rule_without_effect_tells_what_it_would_evict(world: ControllerWorld) -> None:
    put_slice(world)
    use(world, "p", "d0")
    use(world, "tolerates", "d1", tolerating())
    world.settle()
    put_rule(world, "None", driver=DRIVER)
    world.settle()
    assert not world.evicted
    assert told(world) == [
        "False NoEffect: 2 published devices selected. 2 allocated devices selected. "
        "1 pod would be evicted in 1 namespace if the effect was NoExecute. "
        "This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update.",
    ]


def test_a_rule_that_only_keeps_pods_away_says_so(world: ControllerWorld) -> None:
    put_rule(world, "NoSchedule", driver=DRIVER)
    world.settle()
    assert told(world) == ["False OtherEffect: Eviction only happens for the NoExecute effect."]
    assert world.time == START


def test_pools_without_slices_and_users_are_forgotten() -> None:
    world = ControllerWorld()
    controller = DeviceTaintEvictionController(world, world, world, world.metrics)
    world.start(controller)
    put_slice(world, d0="NoExecute")
    use(world, "p", "d0", tolerating())
    pools = controller._pools
    assert pools._slices and pools.users
    world.remove("ResourceSlice", "s1")
    world.remove("ResourceClaim", "default/p")
    world.settle()
    assert not (pools._slices or pools.users or pools._taints)
