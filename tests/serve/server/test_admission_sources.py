"""What admission takes from PriorityClasses, RuntimeClasses and LimitRanges."""

from __future__ import annotations

import pytest

from podsched.api.device_claims import ADMIN_ACCESS
from podsched.api.objects import (
    LimitRange,
    Namespace,
    PersistentVolumeClaim,
    ResourceClaim,
    RuntimeClass,
    StorageClass,
)
from podsched.api.reasons import StatusCode
from podsched.serve.server.admission import MAX_LIMIT_RANGES
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.errors import ApiError
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod, priority_class
from support.api_world import World, message_of, pod_of


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


def kata() -> RuntimeClass:
    item = RuntimeClass(handler="kata")
    item.metadata.name = "kata"
    item.overhead.pod_fixed["cpu"] = "250m"
    item.scheduling.node_selector["runtime"] = "kata"
    return item


async def test_a_pod_takes_over_what_its_runtime_class_says(world: World) -> None:
    """Also when the class was created through another server just now."""
    other = await world.another()
    await other.creator.create(kata())
    item = pod()
    item.spec.runtime_class_name = "kata"
    spec = pod_of(await world.core.creator.create(item)).spec
    assert (spec.overhead["cpu"], spec.node_selector["runtime"]) == ("250m", "kata")


async def test_an_unknown_runtime_class_is_refused(world: World) -> None:
    """In Kubernetes' words, which name the pod and the class."""
    item = pod()
    item.spec.runtime_class_name = "gvisor"
    with pytest.raises(ApiError) as refused:
        await world.core.creator.create(item)
    assert refused.value.code is StatusCode.PERMISSION_DENIED
    assert refused.value.message == (
        'pods "web" is forbidden: pod rejected: RuntimeClass "gvisor" not found'
    )


async def test_a_namespace_without_the_label_of_administrators_is_looked_up_again(
    world: World,
) -> None:
    """Another server may have written it a moment ago; claims of users wait for nothing."""
    sources = AdmissionSources(world.core.cache, world.core.reflector)
    usual, admin = ResourceClaim(), ResourceClaim()
    admin.spec.devices.requests.add().exactly.admin_access = True
    assert [sources.has_all_for(claim) for claim in (usual, admin)] == [True, False]
    namespace = Namespace(metadata={"name": "ops", "labels": {ADMIN_ACCESS: "true"}})
    await world.core.creator.create(namespace)
    admin.metadata.namespace = "ops"
    assert sources.has_all_for(admin)


async def test_an_update_of_a_pod_with_a_runtime_is_not_admitted_anew(world: World) -> None:
    """Its class may be gone by then."""
    await world.core.creator.create(kata())
    item = pod()
    item.spec.runtime_class_name = "kata"
    created = pod_of(await world.core.creator.create(item))
    await world.core.deleter.delete(v1.DeleteRequest(kind="RuntimeClass", name="kata"))
    created.metadata.labels["tier"] = "web"
    assert pod_of(await world.core.registry.update(created)).spec.overhead["cpu"] == "250m"


def limit_range(kind: str = "Container", **items: str) -> LimitRange:
    item = LimitRange()
    item.metadata.name, item.metadata.namespace = "limits", "default"
    limits = item.spec.limits.add(type=kind)
    for field, text in items.items():
        name = "storage" if kind == "PersistentVolumeClaim" else "memory"
        getattr(limits, field)[name] = text
    return item


async def test_the_next_pod_of_the_namespace_gets_the_defaults_of_a_limit_range(
    world: World,
) -> None:
    """Its QoS class follows from them; pods elsewhere are as they were."""
    await world.core.creator.create(limit_range(default="1Gi"))
    item = pod()
    item.spec.containers[0].resources.requests.clear()
    inside = pod_of(await world.core.creator.create(item))
    assert inside.spec.containers[0].resources.requests["memory"] == "1Gi"
    assert inside.status.qos_class == "Burstable"
    outside = pod_of(await world.core.creator.create(pod(namespace="other")))
    assert not outside.spec.containers[0].resources.limits


async def test_a_limit_range_that_is_gone_counts_no_more(world: World) -> None:
    await world.core.creator.create(limit_range(min="1Gi"))
    item = pod()
    item.spec.containers[0].resources.requests["memory"] = "1Mi"
    with pytest.raises(ApiError) as refused:
        await world.core.creator.create(item)
    assert refused.value.message == (
        'pods "web" is forbidden: minimum memory usage per Container is 1Gi, but request is 1Mi'
    )
    request = v1.DeleteRequest(kind="LimitRange", namespace="default", name="limits")
    await world.core.deleter.delete(request)
    assert await world.core.creator.create(item)


async def test_a_claim_larger_than_the_limit_is_refused_also_by_an_update(world: World) -> None:
    await world.core.creator.create(limit_range("PersistentVolumeClaim", max="1Gi"))
    item = PersistentVolumeClaim()
    item.metadata.name, item.metadata.namespace = "data", "default"
    item.spec.access_modes.append("ReadWriteOnce")
    item.spec.resources.requests["storage"] = "1Gi"
    item.spec.storage_class_name = "fast"
    created = message_of(await world.core.creator.create(item))
    assert isinstance(created, PersistentVolumeClaim)
    created.spec.resources.requests["storage"] = "2Gi"
    with pytest.raises(ApiError, match="maximum storage usage per PersistentVolumeClaim is 1Gi"):
        await world.core.registry.update(created)


def claim(name: str) -> PersistentVolumeClaim:
    item = PersistentVolumeClaim()
    item.metadata.name = name
    item.spec.access_modes.append("ReadWriteOnce")
    item.spec.resources.requests["storage"] = "1Gi"
    return item


async def test_a_claim_that_names_no_class_gets_the_default_one(world: World) -> None:
    """As of the class that was created last; "" means no class, and stays."""
    default = StorageClass(provisioner="example.com/disk")
    default.metadata.name = "fast"
    default.metadata.annotations["storageclass.kubernetes.io/is-default-class"] = "true"
    none = claim("none")
    none.spec.storage_class_name = ""

    async def created(item: PersistentVolumeClaim) -> PersistentVolumeClaim:
        message = message_of(await world.core.creator.create(item))
        assert isinstance(message, PersistentVolumeClaim)
        return message

    early = await created(claim("early"))
    await world.core.creator.create(default)
    assert not early.spec.HasField("storage_class_name")
    assert (await created(claim("late"))).spec.storage_class_name == "fast"
    assert (await created(none)).spec.storage_class_name == ""


async def test_a_namespace_with_too_many_limit_ranges_gets_no_pods(world: World) -> None:
    """Each would take time for every pod; what exists can still be changed."""
    claim = PersistentVolumeClaim(metadata={"name": "c"}, spec={"access_modes": ["ReadWriteOnce"]})
    claim.spec.resources.requests["storage"] = "1Gi"
    created = message_of(await world.core.creator.create(claim))
    ranges = [
        LimitRange(metadata={"name": f"r{at}"}, spec={"limits": [{"type": "Container"}]})
        for at in range(MAX_LIMIT_RANGES)
    ]
    await world.core.creator.create_many(ranges)
    assert await world.core.creator.create(pod("first"))
    one_more = LimitRange(metadata={"name": "more"}, spec={"limits": [{"type": "Container"}]})
    await world.core.creator.create(one_more)
    with pytest.raises(ApiError, match=r"has 33 LimitRanges, at most 32 .*; delete some"):
        await world.core.creator.create(pod("second"))
    created.metadata.labels["a"] = "b"
    assert await world.core.registry.update(created)
