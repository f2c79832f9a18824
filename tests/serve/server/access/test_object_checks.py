"""What depends on the object that is about to be stored."""

from __future__ import annotations

import pytest

from podsched.api.objects import ClusterRole, Pod, ReplicaSet
from podsched.api.reasons import StatusCode
from podsched.serve.server.errors import ApiError
from podsched.serve.server.pipeline import Pipeline
from support.access_world import binding_of, calling, identity, rule
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient

BOB = identity("bob")
SYSTEM_CLASSES = ("system-node-critical", "system-cluster-critical")


def critical(name: str = "system-node-critical", namespace: str = "default") -> Pod:
    item = pod("vip")
    item.metadata.namespace, item.spec.priority_class_name = namespace, name
    return item


@pytest.fixture
async def submitting(world: World) -> World:
    """Bob may create pods everywhere."""
    await world.core.creator.create(binding_of("submitter", "bob"))
    await world.core.reflector.wait_until_fresh()
    return world


@pytest.mark.parametrize("name", SYSTEM_CLASSES)
async def test_a_pod_of_a_system_class_elsewhere_is_refused(submitting: World, name: str) -> None:
    with calling(submitting.core, BOB), pytest.raises(ApiError) as caught:
        await submitting.core.creator.create(critical(name))
    assert caught.value.code is StatusCode.PERMISSION_DENIED
    assert caught.value.message == (
        f'pods "vip" is forbidden: User "bob" cannot use the priority class "{name}" outside the '
        'namespace "kube-system": it needs the verb "use" on priorityclasses'
    )


async def test_kubernetes_face_refuses_it_as_well(submitting: World) -> None:
    asking = Pipeline(authenticate=lambda _: BOB, authorize=submitting.core.authorizer.rights_of)
    spec = {
        "priorityClassName": "system-node-critical",
        "containers": [{"name": "main", "image": "app:1"}],
    }
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vip"}, "spec": spec}
    path = "/api/v1/namespaces/default/pods"
    refused = await KubeClient(submitting.core, asking).request("POST", path, manifest)
    assert refused.status == 403
    assert "outside the namespace" in refused.json["message"]


async def test_in_the_systems_own_namespace_who_may_create_pods_may_use_them(
    submitting: World,
) -> None:
    with calling(submitting.core, BOB):
        await submitting.core.creator.create(critical(namespace="kube-system"))


async def test_the_verb_use_permits_the_class_that_it_names(submitting: World) -> None:
    user = ClusterRole()
    user.metadata.name = "important"
    classes = ("scheduling.k8s.io",)
    user.rules.append(rule("use", "priorityclasses", SYSTEM_CLASSES[0], groups=classes))
    for item in (user, binding_of("important", "bob")):
        await submitting.core.creator.create(item)
    await submitting.core.reflector.wait_until_fresh()
    with calling(submitting.core, BOB):
        await submitting.core.creator.create(critical())
        with pytest.raises(ApiError, match="cannot use the priority class"):
            await submitting.core.creator.create(critical(SYSTEM_CLASSES[1], "other"))


async def test_without_authentication_every_priority_class_is_for_everyone(world: World) -> None:
    await world.core.creator.create(critical())


@pytest.fixture
async def editing(world: World) -> World:
    """Bob may edit what is in the namespace default."""
    await world.core.creator.create(binding_of("edit", "bob", "default"))
    await world.core.reflector.wait_until_fresh()
    return world


def replica_set(node_name: str = "") -> ReplicaSet:
    item = ReplicaSet()
    item.metadata.name, item.metadata.namespace = "web", "default"
    item.spec.selector.match_labels["app"] = "web"
    item.spec.template.metadata.labels["app"] = "web"
    item.spec.template.spec.containers.add(name="c", image="i")
    item.spec.template.spec.node_name = node_name
    return item


BINDS = 'pods "web" is forbidden: User "bob" cannot create resource "pods/binding"'


async def test_who_may_not_bind_creates_no_workload_that_binds_its_pods(editing: World) -> None:
    """The leader makes the pods, and it may bind them."""
    with calling(editing.core, BOB), pytest.raises(ApiError, match=BINDS):
        await editing.core.creator.create(replica_set("worker-1"))


async def test_who_may_not_bind_changes_no_workload_into_one_that_does(editing: World) -> None:
    with calling(editing.core, BOB):
        await editing.core.creator.create(replica_set())
        with pytest.raises(ApiError, match=BINDS):
            await editing.core.registry.update(replica_set("worker-1"))


async def test_who_may_not_bind_changes_the_rest_of_a_workload_that_does(editing: World) -> None:
    created = replica_set("worker-1")
    await editing.core.creator.create(created)
    created.spec.replicas = 3
    with calling(editing.core, BOB):
        await editing.core.registry.update(created)
